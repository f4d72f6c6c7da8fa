"""A receiver on the loopback address that behaves as a test says, down to the bytes."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from load.certificates import Issuer

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@dataclass
class Received:
    """One request: its head as bytes, headers by lower-case name, the exact body."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class SubscriberServer:
    """Answers each request with what ``answer`` writes; `replies` sets it from plain bytes."""

    tls: ssl.SSLContext | None = None
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    answer: Callable[[socket.socket], None] = lambda connection: connection.sendall(OK)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._thread.start()

    def replies(self, *answers: bytes) -> None:
        """Each request the next of them; the last one stays."""
        left = list(answers)

        def answer(connection: socket.socket) -> None:
            connection.sendall(left.pop(0) if len(left) > 1 else left[0])

        self.answer = answer

    def close(self) -> None:
        self.ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection = self.tls.wrap_socket(plain, server_side=True) if self.tls else plain
            with connection:
                with self._lock:
                    self._open.add(connection)
                try:
                    while self._one(connection):
                        self.answer(connection)
                finally:
                    with self._lock:
                        self._open.discard(connection)

    def _one(self, connection: socket.socket) -> bool:
        read = b""
        while b"\r\n\r\n" not in read:
            chunk = connection.recv(65_536)
            if not chunk:
                return False
            read += chunk
        head, _, body = read.partition(b"\r\n\r\n")
        line, *fields = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (text.partition(": ") for text in fields)}
        while len(body) < int(headers.get("content-length", 0)):
            body += connection.recv(65_536)
        with self._lock:
            self.requests.append(Received(line, headers, body))
        return True


def status(code: int, *headers: str, body: bytes = b"") -> bytes:
    """An answer's bytes."""
    lines = [f"HTTP/1.1 {code} said", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@contextlib.contextmanager
def receiving(tls: ssl.SSLContext | None = None) -> Iterator[SubscriberServer]:
    receiver = SubscriberServer(tls)
    try:
        yield receiver
    finally:
        receiver.close()


def shows(issuer: Issuer, host: str) -> ssl.SSLContext:
    """A server's context with a certificate for a host."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issuer.issue(host, host))
    return context
