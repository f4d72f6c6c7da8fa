"""docs/streams.md, followed: its files in an empty folder, its stream's settings, and the server that it calls."""

from __future__ import annotations

import http.server
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from pathlib import Path

import pytest

from tests.documented import CHECKOUT, blocks

PAGE = CHECKOUT / "docs" / "streams.md"
CALLED = "127.0.0.1:9000"
"""The address that the page's handlers call."""


class DownstreamServer(ABC):
    """A server that the page's handlers call; a test says what is answered."""

    port: int

    @abstractmethod
    def take(self, headers: Message[str, str], body: bytes) -> int:
        """Takes one call; returns the status that it is answered with."""

    @contextmanager
    def serve(self) -> Iterator[None]:
        take = self.take

        class CallsHandler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.send_response(take(self.headers, self.rfile.read(int(self.headers["Content-Length"]))))
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Silence on the terminal."""

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), CallsHandler) as server:
            self.port = server.server_port
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            yield
            server.shutdown()
            thread.join()


def write_page(folder: Path, name: str, port: int) -> Path:
    """Writes the page's files below ``name/`` into a folder; they call this port."""
    for block in blocks(PAGE.read_text("utf-8")):
        if block.path.startswith(f"{name}/"):
            file = folder / block.path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text.replace(CALLED, f"127.0.0.1:{port}"), "utf-8")
    return folder / name


def set_streams(monkeypatch: pytest.MonkeyPatch, own: Path) -> None:
    """Gives commands and processes the page's streams and handlers."""
    monkeypatch.setenv("PYTHONPATH", str(own))
    monkeypatch.setenv("PAYHOOK_PROCESSOR__STREAMS_FILE", str(own / "streams.toml"))
