"""Checks the head of an HTTP request (RFC 9110, RFC 9112), and writes an answer.

llhttp, the parser beneath, refuses what two readers could read differently: Content-Length beside Transfer-Encoding or
twice, bare CR and LF, folded lines, blanks before a colon, control characters. What it lets through is refused here.

An answer is one write: ASGI's two messages are two packets, and twice the work of the kernel and of the sender.
"""

from __future__ import annotations

import re
from collections.abc import Coroutine, Sequence
from typing import Any

from httptools import HttpParserError, HttpParserInvalidMethodError
from starlette.types import Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from core.http_fields import split_list
from ingest.errors import RequestRefused

HEAD_BYTES_MAX = 16_384
"""Target and headers; a provider's are under 2 KB, what proxies add is less than that again."""
HEADERS_MAX = 100
TARGET_BYTES_MAX = 2_048
HEADER_OVERHEAD_BYTES = 4
"""Colon, blank, CR and LF."""

FORBIDDEN_TRAILERS = frozenset(
    b"authorization cache-control connection content-encoding content-length content-range content-type cookie expect "
    b"host if-match if-modified-since if-none-match if-range if-unmodified-since keep-alive max-forwards "
    b"proxy-authorization range te trailer transfer-encoding upgrade".split()
)
"""Framing, routing, authentication and what says how to read the body (RFC 9110, section 6.5.1)."""

JUDGED = frozenset({b"host", b"transfer-encoding", b"expect"})
"""The headers that `check_head` wants to see."""

_ADDRESS = rb"\[(?:[0-9A-Fa-f:.]{2,45}|[vV][0-9A-Fa-f]{1,8}\.[A-Za-z0-9._~!$&'()*+;=:-]{1,45})\]"
"""An IPv6 address, or one of a later version (RFC 3986, section 3.2.2)."""
_AUTHORITY = rb"(?:(?:[A-Za-z0-9._~!$&'()*+;=-]|%[0-9A-Fa-f]{2}){1,255}|" + _ADDRESS + rb")(?::(?:0*[0-9]{1,5})?)?"
"""A name or an address and perhaps a port, which may be empty and may have leading zeros (RFC 3986, section 3.2). A
comma is refused: it may join two hosts."""
_HOST = re.compile(_AUTHORITY)
_ABSOLUTE = re.compile(rb"[Hh][Tt][Tt][Pp][Ss]?://" + _AUTHORITY + rb"(/[^?#]*)?(?:\?([^#]*))?")
_METHOD = re.compile(rb"[\r\n]*[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32} [/*A-Za-z]")


def check_head(version: str, judged: Sequence[tuple[bytes, bytes]]) -> bool:
    """Returns whether the sender waits for ``100 Continue``.

    :param version: as in ``"1.1"``
    :param judged: the headers whose names are in `JUDGED`
    :raises RequestRefused: 400, 417, 501 or 505
    """
    if version not in ("1.1", "1.0"):
        raise RequestRefused("wrong_version")
    hosts = codings = 0
    expects = False
    for name, value in judged:
        if name == b"host":
            hosts += 1
            if not _HOST.fullmatch(value):
                raise RequestRefused("wrong_host")
        elif name == b"expect":
            expected = split_list(value.lower())
            if any(expectation != b"100-continue" for expectation in expected):
                raise RequestRefused("unknown_expectation")
            expects = expects or bool(expected)
        else:
            codings += 1
            _check_coding(value)
    if hosts != 1 and (hosts or version == "1.1"):
        raise RequestRefused("wrong_host")
    if codings and (codings > 1 or version == "1.0"):
        raise RequestRefused("wrong_coding")
    return expects and version == "1.1"


def head_without_offer(method: bytes, target: bytes, version: str, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    fields = b"".join(b"%b: %b\r\n" % field for field in headers if field[0] != b"upgrade")
    return b"%b %b HTTP/%b\r\n%b\r\n" % (method, target, version.encode(), fields)


def split_target(target: bytes) -> tuple[bytes, bytes]:
    """Returns path and query, both as sent.

    A target in absolute form is taken, as RFC 9112 wants it; nothing is routed by host, so its host says no more than
    the Host header.

    :raises RequestRefused: 400 or 414
    """
    if len(target) > TARGET_BYTES_MAX:
        raise RequestRefused("target_too_long", bytes_max=TARGET_BYTES_MAX)
    if target.startswith(b"/") and b"#" not in target:
        path, _, query = target.partition(b"?")
        return path, query
    if absolute := _ABSOLUTE.fullmatch(target):
        return absolute[1] or b"/", absolute[2] or b""
    raise RequestRefused("wrong_target")


def check_size(target: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
    size = len(target) + sum(len(name) + len(value) + HEADER_OVERHEAD_BYTES for name, value in headers)
    if size > HEAD_BYTES_MAX:
        raise RequestRefused("head_too_large", bytes_max=HEAD_BYTES_MAX)


def refusal_of(error: HttpParserError, fed: bytes) -> RequestRefused:
    """Returns the answer to what the parser stumbled on. ``fed``: the bytes it was reading."""
    if isinstance(error.__context__, RequestRefused):
        return error.__context__
    if fed.startswith(b"PRI * HTTP/2") or str(error) == "Invalid HTTP version":
        return RequestRefused("wrong_version")
    if isinstance(error, HttpParserInvalidMethodError) and _METHOD.match(fed):
        return RequestRefused("unknown_method")
    return RequestRefused("malformed", problem=str(error))


def _check_coding(value: bytes) -> None:
    codings = split_list(value.lower())
    if not codings or codings[-1] != b"chunked" or codings.count(b"chunked") > 1:
        raise RequestRefused("wrong_coding")
    if len(codings) > 1:
        raise RequestRefused("unknown_coding")


WHOLE_ANSWER = "payhook.http.whole_answer"
EXTENSIONS = {WHOLE_ANSWER: {}}  # type: ignore[var-annotated]


class WholeAnswerCycle(RequestResponseCycle):
    """uvicorn's, with the extension. Names and values of headers are the application's own words: none is checked."""

    def send(self, message: Any) -> Coroutine[Any, Any, None]:
        """Sends a message. It is no coroutine itself: one around another would cost each message of other
        applications."""
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
