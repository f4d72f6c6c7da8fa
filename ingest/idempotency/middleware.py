"""The ASGI middleware: claim → run → confirm around any application's POST and PATCH.

After draft-ietf-httpapi-idempotency-key-header (the IETF's HTTPAPI working group).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ingest.claims import OWNER_BYTES, ClaimState, ClaimsUnavailable
from ingest.idempotency import request as problems
from ingest.idempotency.request import ClientGone, KeyMalformed, Problem, read_key, read_whole
from ingest.idempotency.store import AnswerStore, IdempotentRun, KeptAnswer, KeyClaim, RequestKey

Settle = Callable[[KeptAnswer], Awaitable[None]]

KEPT_HEADERS = frozenset(
    {
        *(b"cache-control", b"content-encoding", b"content-language", b"content-location", b"content-type"),
        *(b"etag", b"last-modified", b"link", b"location", b"vary"),
    }
)
"""Headers of an answer that are repeated: what describes it, nothing of the one request (Set-Cookie, Date)."""


class AnswerRecorder:
    """The ``receive`` and ``send`` that the application gets.

    An answer is held back until it is whole and ``settle`` has kept it: what a client has seen can be repeated. One
    larger than `ANSWER_BYTES_MAX` is passed on as it comes; it is settled, without its body, before its last part is
    sent.
    """

    def __init__(self, body: bytes, receive: Receive, send: Send, settle: Settle) -> None:
        self._body: bytes | None = body
        self._receive = receive
        self._send = send
        self._settle = settle
        self._start: Message | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._streams = asyncio.Event()
        self.is_settled = False
        """The answer came to its end; nothing is left to do but to release what it held."""
        self._gone = False

    def mark_client_gone(self) -> None:
        self._gone = True

    async def receive(self) -> Message:
        """Returns the body, once. The application doesn't learn that its client left: the work continues."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._streams.wait()
        return {"type": "http.disconnect"} if self.is_settled or self._gone else await self._receive()

    async def send(self, message: Message) -> None:
        """Takes what the application sends; never fails because of the client."""
        if message["type"] == "http.response.start":
            self._start = message
        elif message["type"] == "http.response.body" and self._start is not None and not self.is_settled:
            await self._record(self._start, message.get("body", b""), bool(message.get("more_body", False)))

    async def end(self) -> None:
        """Takes note that the application has returned. An answer counts as given where a part of it was sent."""
        if self.is_settled or self._start is None:
            return
        if self._streams.is_set():
            await self._settle_as(self._start, None)
        else:
            await self._pass_on(self._start, more=True)

    async def _record(self, start: Message, part: bytes, more: bool) -> None:
        self._size += len(part)
        self._parts.append(part)
        fits = self._size <= ANSWER_BYTES_MAX
        if more and fits:
            return
        if not more:
            await self._settle_as(start, b"".join(self._parts) if fits else None)
        await self._pass_on(start, more)

    async def _settle_as(self, start: Message, body: bytes | None) -> None:
        await self._settle(KeptAnswer(start["status"], self._select_headers(start), body, self._size))
        self.is_settled = True

    async def _pass_on(self, start: Message, more: bool) -> None:
        body = b"".join(self._parts)
        self._parts.clear()
        if not self._streams.is_set():
            self._streams.set()
            await self._to_client(start)
        await self._to_client({"type": "http.response.body", "body": body, "more_body": more})

    async def _to_client(self, message: Message) -> None:
        if self._gone:
            return
        try:
            await self._send(message)
        except OSError:
            self._gone = True

    def _select_headers(self, start: Message) -> tuple[tuple[bytes, bytes], ...]:
        named = ((bytes(name).lower(), bytes(value)) for name, value in start.get("headers", ()))
        return tuple((name, value) for name, value in named if name in KEPT_HEADERS)


log = logging.getLogger(__name__)

DRAFT = "https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/"
METHODS = frozenset({"POST", "PATCH"})
REQUEST_BYTES_MAX = 1 << 20
REQUEST_S_MAX = 30.0
"""The most seconds until the whole body is there."""
ANSWER_BYTES_MAX = 1 << 18
"""The most bytes of an answer that is kept."""
NOT_KEPT_STATUSES = frozenset({401, 403, 407, 408, 421, 425, 429})
"""About the sender or the moment, not about the request: the same request may fare otherwise."""
RENEWALS_A_LEASE = 3
BODILESS = frozenset({204, 304})
KEY_IN_USE_RETRY_S = 1
UNAVAILABLE_RETRY_S = 5

Caller = Callable[[Scope], str]


class IdempotencyKey:
    """Wraps an ASGI application so that a request with a key is carried out once, and then answered from memory.

    - No key, no usable key, or several: 400.
    - The first request with a key runs; a copy meanwhile gets 409 with Retry-After; one with another method, path,
      query, content type or body gets 422; a copy afterwards gets the first one's answer and
      ``Idempotent-Replayed: true``.
    - Answers below 500 are kept, errors too, for as long as the store keeps them. Not kept, so that the same request
      runs again: 5xx and exceptions, 401, 403, 407, 408, 421, 425, 429, and what the application calls
      `IdempotentRun.nothing_began` for (its validation, before it does anything).
    - An answer larger than `ANSWER_BYTES_MAX` isn't kept but that it was given: a copy gets 409 with its status.
    - An owner that dies leaves its claim to the next copy after the lease: the application runs again. Its own work
      should be idempotent by `IdempotentRun.request_id`, which it finds in ``scope["state"]["idempotency"]``.
    - A client that leaves changes nothing: the run continues, and its answer is kept.
    - Where the store can't be asked nothing is run: 503 with Retry-After.

    ``caller`` names the sender: keys of different callers are different keys. ``docs_url``: where refusals are
    explained, each at ``#slug``. Other methods, websockets and lifespan pass untouched.
    """

    def __init__(self, app: ASGIApp, *, store: AnswerStore, caller: Caller, docs_url: str = DRAFT) -> None:
        self._app = app
        self._store = store
        self._caller = caller
        self._docs_url = docs_url
        self._running: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in METHODS:
            await self._app(scope, receive, send)
            return
        try:
            await self._answer_once(scope, receive, send)
        except Problem as problem:
            await problem.send(send, self._docs_url)
        except ClientGone:
            return

    async def _answer_once(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            key = read_key(scope["headers"])
        except KeyMalformed as malformed:
            raise problems.key_malformed(malformed.problem) from None
        if key is None:
            raise problems.key_missing(scope["method"])
        body = await read_whole(scope["headers"], receive, REQUEST_BYTES_MAX, REQUEST_S_MAX)
        request = request_key(self._caller(scope), key, scope, body)
        owner = os.urandom(OWNER_BYTES)
        claimed = await self._claim(request, owner)
        if claimed.answer is not None:
            await _replay(claimed.answer, send)
            return
        run = IdempotentRun(key, request.request_id, claimed.state is not ClaimState.CLAIMED)
        held = _HeldKey(self._store, request, owner, run)
        recording = AnswerRecorder(body, receive, send, held.settle)
        await self._run_shielded(self._run(held, with_run(scope, run), recording), recording)

    async def _claim(self, request: RequestKey, owner: bytes) -> KeyClaim:
        try:
            claimed = await self._store.claim(request, owner)
        except ClaimsUnavailable as unavailable:
            log.warning("idempotency keys can't be looked up: %s", unavailable)
            # It may have been claimed all the same, and would be blocked until the lease is over.
            with contextlib.suppress(ClaimsUnavailable):
                await self._store.end_lease(request, owner)
            raise problems.store_unavailable(UNAVAILABLE_RETRY_S) from None
        if claimed.state is ClaimState.IN_FLIGHT:
            raise problems.key_in_use(KEY_IN_USE_RETRY_S)
        if claimed.state is ClaimState.CONFLICT:
            raise problems.key_reused()
        if claimed.answer is not None and claimed.answer.body is None:
            raise problems.answer_not_kept(claimed.answer.status, claimed.answer.body_bytes)
        return claimed

    async def _run(self, held: _HeldKey, scope: Scope, recording: AnswerRecorder) -> None:
        renewing = asyncio.create_task(held.renew())
        try:
            await self._app(scope, recording.receive, recording.send)
            await recording.end()
        except Exception:
            if not recording.is_settled:
                await held.end_lease()
            raise
        finally:
            renewing.cancel()
        if not recording.is_settled:
            await held.end_lease()

    async def _run_shielded(self, run: Coroutine[None, None, None], recording: AnswerRecorder) -> None:
        """A server that cancels a request because its client left doesn't cancel the work."""
        task = asyncio.create_task(run)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            recording.mark_client_gone()
            task.add_done_callback(_log_failure)
            raise


class _HeldKey:
    def __init__(self, store: AnswerStore, request: RequestKey, owner: bytes, run: IdempotentRun) -> None:
        self._store = store
        self._request = request
        self._owner = owner
        self._run = run

    async def settle(self, answer: KeptAnswer) -> None:
        """Keeps the answer, or frees the key. What can't be settled lapses by itself; the answer is given anyway."""
        again = answer.status >= 500 or answer.status in NOT_KEPT_STATUSES
        try:
            if not self._run.began and not self._run.repeated:
                await self._store.release(self._request, self._owner)
            elif again or not self._run.began:
                await self._store.end_lease(self._request, self._owner)
            elif not await self._store.confirm(self._request, self._owner, answer):
                log.warning(
                    "the run %s was taken over while it was paused; its answer isn't kept", self._run.request_id
                )
        except ClaimsUnavailable as unavailable:
            log.warning("the answer of the run %s isn't kept: %s", self._run.request_id, unavailable)

    async def end_lease(self) -> None:
        with contextlib.suppress(ClaimsUnavailable):
            await self._store.end_lease(self._request, self._owner)

    async def renew(self) -> None:
        held = True
        while held:
            await asyncio.sleep(self._store.lease_s / RENEWALS_A_LEASE)
            with contextlib.suppress(ClaimsUnavailable):
                held = await self._store.renew(self._request, self._owner)


def request_key(caller: str, key: str, scope: Scope, body: bytes) -> RequestKey:
    """Builds the key in its caller's scope, and the fingerprint: method, path, query, content type, body."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    content_type = b",".join(value for name, value in scope["headers"] if name == b"content-type")
    return RequestKey.for_request(
        caller, key, scope["method"].encode(), path, scope["query_string"], content_type, body
    )


def with_run(scope: Scope, run: IdempotentRun) -> Scope:
    """Builds the application's scope, without extensions that send answers in other ways than by their bytes."""
    offered = scope.get("extensions") or {}
    extensions = {name: value for name, value in offered.items() if not name.startswith("http.response.")}
    scope.setdefault("state", {})["idempotency"] = run
    return {**scope, "extensions": extensions}


async def _replay(answer: KeptAnswer, send: Send) -> None:
    body = answer.body or b""
    length = [] if answer.status in BODILESS else [(b"content-length", str(len(body)).encode())]
    headers = [*answer.headers, *length, (b"idempotent-replayed", b"true")]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (failed := task.exception()) is not None:
        log.error("a run whose client had left failed", exc_info=failed)
