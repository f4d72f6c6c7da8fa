"""The listener's two cookies: a session's id, and before there is one what the sign-in form's token is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

SESSION, VISITOR = "payhook_session", "payhook_visitor"
STRICT: Literal["strict"] = "strict"
COOKIE_CHARS_MAX = 200


@dataclass(frozen=True, slots=True)
class Cookies:
    """``secure``: the browser sees the listener over HTTPS. Cookies then belong to that very host (``__Host-``)."""

    secure: bool

    def session(self, request: Request) -> str | None:
        """A session's id, if the request has one."""
        return self._read(request, SESSION)

    def visitor(self, request: Request) -> str | None:
        return self._read(request, VISITOR)

    def secret(self, request: Request) -> str | None:
        """What the tokens of the browser's forms are made of: the session's id only while the session lasts."""
        return self.session(request) if getattr(request.state, "user", None) else self.visitor(request)

    def set_session(self, response: Response, secret: str) -> None:
        self._set(response, SESSION, secret)
        self._delete(response, VISITOR)

    def set_visitor(self, response: Response, secret: str) -> None:
        self._set(response, VISITOR, secret)

    def end_session(self, response: Response) -> None:
        self._delete(response, SESSION)

    def _read(self, request: Request, name: str) -> str | None:
        found = request.cookies.get(self._named(name))
        return found if found and len(found) <= COOKIE_CHARS_MAX else None

    def _set(self, response: Response, name: str, value: str) -> None:
        """Until the browser is closed; the session's own limits hold here."""
        response.set_cookie(self._named(name), value, path="/", httponly=True, secure=self.secure, samesite=STRICT)

    def _delete(self, response: Response, name: str) -> None:
        response.delete_cookie(self._named(name), path="/", httponly=True, secure=self.secure, samesite=STRICT)

    def _named(self, name: str) -> str:
        return f"__Host-{name}" if self.secure else name
