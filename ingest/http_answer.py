"""An answer in one write: ASGI's two messages are two packets, and twice the work of the kernel and of the sender.

An ASGI extension: where the scope has it, an application may send one message with status, headers and body.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from starlette.types import Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

WHOLE_ANSWER = "payhook.http.whole_answer"
EXTENSIONS = {WHOLE_ANSWER: {}}  # type: ignore[var-annotated]


class WholeAnswerCycle(RequestResponseCycle):
    """uvicorn's, with the extension. Names and values of headers are the application's own words: none is checked."""

    def send(self, message: Any) -> Coroutine[Any, Any, None]:
        """Not a coroutine itself: one around another would cost each message of other applications."""
        return self._send_whole(message) if message["type"] == WHOLE_ANSWER else super().send(message)

    async def _send_whole(self, message: Any) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        headers = message["headers"]
        parts = [STATUS_LINE[message["status"]]]
        for name, value in self.default_headers:
            parts += (name, b": ", value, b"\r\n")
        for name, value in headers:
            parts += (name, b": ", value, b"\r\n")
            if name == b"connection":
                self.keep_alive = False
        if not self.keep_alive and (b"connection", b"close") not in headers:
            parts.append(b"connection: close\r\n")
        parts += (b"\r\n", b"" if self.scope["method"] == "HEAD" else message["body"])
        self.transport.write(b"".join(parts))
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


async def send_answer(scope: Scope, send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """Sends a whole answer, in one message where that is understood. ``headers`` must give the body's length."""
    if WHOLE_ANSWER in scope.get("extensions", ()):
        await send({"type": WHOLE_ANSWER, "status": status, "headers": headers, "body": body})
        return
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
