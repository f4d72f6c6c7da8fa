"""A merchant directory over real HTTP, which can be up, ill, silent or gone; it counts what it is asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

Answer = tuple[int, dict[str, str], bytes]


class MerchantService:
    """Serves on loopback until `stop`. ``answer`` gives status, headers and body for the asked query.

    ``silent``: it takes requests and says nothing until `speak`. ``asked`` are the queries, in their order.
    """

    def __init__(self, answer: Callable[[dict[str, str]], Answer] | None = None) -> None:
        self.answer = answer or found
        self.silent = False
        self.asked: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self._speak = threading.Event()
        service = self

        class MerchantHandler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query, True).items()}
                service.asked.append(query)
                service.headers.append({name.lower(): value for name, value in self.headers.items()})
                if service.silent:
                    service._speak.wait(60)
                status, headers, body = service.answer(query)
                try:
                    self.send_response(status)
                    for name, value in {"content-length": str(len(body)), **headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    self.close_connection = True

            def log_message(self, *args: object) -> None:
                """Nobody reads it."""

        class MerchantServer(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *args: object) -> None:
                """A client that was answered too late has gone away."""

        self._server = MerchantServer(("127.0.0.1", 0), MerchantHandler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/merchants"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def speak(self) -> None:
        """Ends the silence."""
        self.silent = False
        self._speak.set()

    def stop(self) -> None:
        self.speak()
        self._server.shutdown()
        self._server.server_close()


def found(query: dict[str, str]) -> Answer:
    """Everyone is known: ``acct_1`` is ``merchant-acct_1``."""
    return 200, {}, json.dumps({"account": f"merchant-{query['account']}"}).encode()


def ill(_: dict[str, str]) -> Answer:
    return 503, {}, b"down for maintenance"
