"""Bytes on a socket and what comes back: HTTP libraries would tidy up what these tests want to send."""

from __future__ import annotations

import contextlib
import json
import re
import select
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlparse

ANSWER_S = 50.0
CLOSES_S = 50.0
"""Before a connection is closed because nothing happens on it."""
STILL_OPEN_S = 0.4
"""A connection on which nothing comes for so long after its answer is one that stays open."""

_STATUS = re.compile(rb"HTTP/1\.1 ([0-9]{3}) [^\r\n]*\r\n")


@dataclass(frozen=True)
class WireAnswer:
    """One answer as it stood on the wire."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The error's word; every error has one."""
        reported: dict[str, Any] = json.loads(self.body)
        assert set(reported) == {"error"} and set(reported["error"]) == {"code", "message"}, reported
        return str(reported["error"]["code"])

    @property
    def says_that_it_closes(self) -> bool:
        return self.headers.get("connection") == "close"


class Wire:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._unread = b""

    def send(self, *parts: bytes, pause_s: float = 0.0) -> bool:
        """Until the other side doesn't take more; whether it took all."""
        for number, part in enumerate(parts):
            if number:
                time.sleep(pause_s)
            try:
                self._connection.sendall(part)
            except (BrokenPipeError, ConnectionResetError):
                return False
        return True

    def trickle(self, *parts: bytes, pause_s: float) -> bool:
        """Until something comes back; whether it did before all was sent."""
        for part in parts:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._connection.sendall(part)
            if select.select([self._connection], [], [], pause_s)[0]:
                return True
        return False

    def head(self, seconds: float = ANSWER_S) -> bytes:
        """All of an answer that has no body: to a HEAD request."""
        until = time.monotonic() + seconds
        while b"\r\n\r\n" not in self._unread and self._more(until):
            pass
        head, _, self._unread = self._unread.partition(b"\r\n\r\n")
        return head

    def expect_answer(self) -> WireAnswer:
        answer = self.answer()
        assert answer is not None, "the connection ended without one"
        return answer

    def answer(self, seconds: float = ANSWER_S) -> WireAnswer | None:
        """The next answer; None where the connection ended before one."""
        until = time.monotonic() + seconds
        while b"\r\n\r\n" not in self._unread:
            if not self._more(until):
                assert not self._unread, self._unread
                return None
        head, _, rest = self._unread.partition(b"\r\n\r\n")
        status = _STATUS.match(head + b"\r\n")
        assert status, head
        lines = [line.split(b":", 1) for line in head.split(b"\r\n")[1:]]
        headers = {name.decode().lower(): value.strip().decode() for name, value in lines}
        length = int(headers.get("content-length", "0"))
        while len(rest) < length:
            self._unread = rest
            assert self._more(until), "the answer ends before its body does"
            rest = self._unread
        self._unread = rest[length:]
        return WireAnswer(int(status[1]), headers, rest[:length])

    def stays_open(self, seconds: float = STILL_OPEN_S) -> bool:
        return not self.is_closed(seconds)

    def is_closed(self, seconds: float = CLOSES_S) -> bool:
        """Whether the other side ends the connection, with not a byte more."""
        assert not self._unread, self._unread
        try:
            more = self._more(time.monotonic() + seconds)
        except TimeoutError:
            return False
        assert not more, self._unread
        return True

    def _more(self, until: float) -> bool:
        self._connection.settimeout(max(0.01, until - time.monotonic()))
        piece = self._connection.recv(65536)
        self._unread += piece
        return bool(piece)


@contextlib.contextmanager
def wire(url: str) -> Iterator[Wire]:
    """A new connection to ``url``'s host and port."""
    where = urlparse(url)
    with contextlib.closing(socket.create_connection((str(where.hostname), where.port or 0), ANSWER_S)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield Wire(connection)


def head(*fields: bytes, line: bytes = b"POST /webhooks/stripe HTTP/1.1", host: bytes | None = b"Host: x") -> bytes:
    """A head whose lines end as they should."""
    lines = [line, *([host] if host is not None else []), *fields]
    return b"".join(each + b"\r\n" for each in lines) + b"\r\n"


def chunk(part: bytes, extension: bytes = b"") -> bytes:
    return b"%x%b\r\n%b\r\n" % (len(part), extension, part)


LAST_CHUNK = b"0\r\n\r\n"
