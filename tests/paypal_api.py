"""PayPal's API as far as the receiver asks it: certificates, tokens for a client, and the events that it sent."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.paypal_signer import paypals_certificate

CLIENT = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789:EfGhIjKlMnOpQrStUvWxYz0123456789AbCd"
TOKEN_LASTS_S = 32_400


class PayPalApi:
    """Holds events by id; ``asked`` are the paths, in order. ``late`` ones are known when they are asked for again."""

    def __init__(self) -> None:
        self.events: dict[str, bytes] = {}
        self.late: dict[str, bytes] = {}
        self.clients = {CLIENT}
        self.asked: list[str] = []
        self.hosts: list[str] = []
        self.down = False
        self.answers: Mapping[str, Response] = {}
        self._tokens: set[str] = set()
        self._made = 0

    def end_tokens(self) -> None:
        self._tokens.clear()

    def transport(self) -> httpx2.ASGITransport:
        return httpx2.ASGITransport(
            Starlette(
                routes=[
                    Route("/v1/notifications/certs/{name}", self._certificate),
                    Route("/v1/oauth2/token", self._token, methods=["POST"]),
                    Route("/v1/notifications/webhooks-events/{event_id:path}", self._event),
                ]
            )
        )

    async def _certificate(self, request: Request) -> Response:
        return self._answer(request, Response(paypals_certificate()))

    async def _token(self, request: Request) -> Response:
        scheme, _, basic = request.headers["authorization"].partition(" ")
        known = scheme == "Basic" and base64.b64decode(basic).decode() in self.clients
        if not known or await request.body() != b"grant_type=client_credentials":
            return self._answer(request, JSONResponse({"error": "invalid_client"}, 401))
        self._made += 1
        self._tokens.add(f"token-{self._made}")
        given = {"access_token": f"token-{self._made}", "token_type": "Bearer", "expires_in": TOKEN_LASTS_S}
        return self._answer(request, JSONResponse(given))

    async def _event(self, request: Request) -> Response:
        if request.headers["authorization"].removeprefix("Bearer ") not in self._tokens:
            return self._answer(request, JSONResponse({"error": "invalid_token"}, 401))
        found = self.events.get(request.path_params["event_id"])
        self.events |= self.late
        missing = JSONResponse({"name": "RESOURCE_NOT_FOUND"}, 404)
        return self._answer(request, missing if found is None else Response(found))

    def _answer(self, request: Request, answer: Response) -> Response:
        name = request.url.path.split("/")[3]
        self.asked.append(name)
        self.hosts.append(request.url.hostname or "")
        return Response(status_code=503) if self.down and name != "certs" else self.answers.get(name, answer)
