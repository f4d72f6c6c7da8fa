"""HTTP/1.1 as uvicorn serves it, with the limits and deadlines that a public listener needs.

uvicorn leaves open how long a head may take, how large it may be and how many connections there are, and answers what
it can't read in plain text, at once, even while an earlier request of the connection waits for its own answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import httptools
from uvicorn._types import ASGIVersions
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.server import ServerState

from ingest.errors import (
    Refused,
    chunk_overhead,
    forbidden_trailer,
    head_too_large,
    head_too_slow,
    target_too_long,
    too_many_headers,
    too_many_pipelined,
    unknown_method,
    upgrade,
)
from ingest.http_answer import EXTENSIONS, WholeAnswerCycle
from ingest.http_connection import BODY, HEAD, IDLE, BoundedConnection, HttpLimits
from ingest.http_head import (
    FORBIDDEN_TRAILERS,
    HEAD_BYTES_MAX,
    HEADERS_MAX,
    JUDGED,
    TARGET_BYTES_MAX,
    check_head,
    check_size,
    refusal_of,
    split_target,
)

__all__ = ["HttpLimits", "WebhookHttpProtocol", "http_protocol"]

PIECE_BYTES = 16_384
"""What the parser is given at once: between two pieces the limits are looked at."""
PIPELINED_MAX = 16
"""Requests of one connection that wait for their turn; each holds a scope and what came of its body."""
CHUNK_OVERHEAD_BYTES_MAX = 16_384
"""Sizes, extensions and trailers of a chunked body, beyond as many bytes as it holds."""


def http_protocol(limits: HttpLimits, on_refused: Callable[[Refused], None]) -> type[WebhookHttpProtocol]:
    """The protocol for ``uvicorn.run(http=…)``; ``on_refused`` hears of what no application sees."""

    class LimitedProtocol(WebhookHttpProtocol):
        pass

    LimitedProtocol.limits = limits
    LimitedProtocol.on_refused = staticmethod(on_refused)
    LimitedProtocol.turned_away = set()
    return LimitedProtocol


class WebhookHttpProtocol(BoundedConnection):
    """The requests of one connection, each judged before an application sees it.

    A request that is whole when it comes in costs no timer; a head that isn't has one of its own.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._asgi: ASGIVersions = {"version": self.asgi_version, "spec_version": "2.3"}
        self._scheme = "https" if config.is_ssl else "http"
        self.url = b""
        self._began_here = False
        self._head_bytes = 0
        self._judged: list[tuple[bytes, bytes]] = []
        self._judged_well: list[tuple[bytes, bytes]] | None = None
        self._trailers = 0
        self._wire_bytes = self._body_bytes = 0

    # What comes in
    def data_received(self, data: bytes) -> None:
        if self._deaf:
            self._ignore(len(data))
            return
        size = len(data)
        if size > PIECE_BYTES:
            for start in range(0, size, PIECE_BYTES):
                self.data_received(data[start : start + PIECE_BYTES])
            return
        try:
            self.parser.feed_data(data)
            if self._phase or self.cycle is None or self.cycle.response_complete:
                self._unfinished(size)
        except httptools.HttpParserError as wrong:
            self._refuse(refusal_of(wrong, data))
        except httptools.HttpParserUpgrade:
            self._refuse(upgrade())
        except Refused as refused:
            self._refuse(refused)

    def _unfinished(self, size: int) -> None:
        """More is to come; ``size`` bytes were the last."""
        if self._phase == BODY:
            self._wire_bytes += size
            if self._wire_bytes > CHUNK_OVERHEAD_BYTES_MAX + 2 * self._body_bytes:
                raise chunk_overhead(CHUNK_OVERHEAD_BYTES_MAX)
            return
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.limits.header_deadline_s, self._head_is_late)
        if self._began_here:
            # How much of these bytes was the end of another request isn't known; the whole head is measured in the end.
            self._began_here = False
        else:
            self._head_bytes += size
        if len(self.url) > TARGET_BYTES_MAX:
            raise target_too_long(TARGET_BYTES_MAX)
        if self._head_bytes > HEAD_BYTES_MAX:
            raise head_too_large(HEAD_BYTES_MAX)

    def _head_is_late(self) -> None:
        self._head_timer = None
        self._refuse(head_too_slow(self.limits.header_deadline_s))

    # The parser's callbacks; the hot ones don't pass through uvicorn's, which do more
    def on_message_begin(self) -> None:
        if len(self.pipeline) >= PIPELINED_MAX:
            raise too_many_pipelined(PIPELINED_MAX)
        self.url = b""
        self.headers = []
        self._judged = []
        self._phase = HEAD
        self._began_here = True
        self._head_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if self._phase != HEAD:
            self._on_trailer(name)
            return
        self.headers.append((name, value))
        if name in JUDGED:
            self._judged.append((name, value))

    def _on_trailer(self, name: bytes) -> None:
        """Trailers are dropped: merged into the headers they would say things that nobody checked."""
        self._trailers += 1
        if self._trailers > HEADERS_MAX:
            raise too_many_headers(HEADERS_MAX)
        if name in FORBIDDEN_TRAILERS:
            raise forbidden_trailer()

    def on_headers_complete(self) -> None:
        parser = self.parser
        method, version = parser.get_method().decode("ascii"), parser.get_http_version()
        if parser.should_upgrade():
            raise unknown_method() if method == "CONNECT" else upgrade()
        if self._head_timer is not None:
            # It came in several pieces; one alone is within the limit.
            self._head_timer.cancel()
            self._head_timer = None
            check_size(self.url, self.headers)
        if len(self.headers) > HEADERS_MAX:
            raise too_many_headers(HEADERS_MAX)
        self.expect_100_continue = False
        if self._judged != self._judged_well or version != "1.1":
            self.expect_100_continue = check_head(version, self._judged)
            self._judged_well = None if self.expect_100_continue else self._judged
        path, query = split_target(self.url)
        self.scope = {
            "type": "http",
            "asgi": self._asgi,
            "http_version": version,
            "method": method,
            "scheme": self._scheme,
            "path": unquote(text) if "%" in (text := path.decode("ascii")) else text,
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": self.headers,
            "server": self.server,
            "client": self.client,
            "state": self.app_state.copy(),
            "extensions": EXTENSIONS,
        }
        self._phase = BODY
        # The first piece holds the head too: it isn't counted.
        self._wire_bytes = -PIECE_BYTES
        self._body_bytes = self._trailers = 0
        self._begin_cycle(version == "1.1" and parser.should_keep_alive())

    def _begin_cycle(self, keep_alive: bool) -> None:
        before = self.cycle
        self.cycle = WholeAnswerCycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=keep_alive,
            on_response=self.on_response_complete,
        )
        if before is None or before.response_complete:
            self._start_asgi_task(self.cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def on_body(self, body: bytes) -> None:
        cycle = self.cycle
        if cycle.response_complete:
            return
        self._body_bytes += len(body)
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        self._phase = IDLE
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.more_body = False
            cycle.message_event.set()

    # What goes out
    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.lingering or self._raw is None or self._raw.is_closing():
            return
        self._idle_since = self.loop.time()
        if self.pipeline:
            self.flow.resume_reading()
            self._start_asgi_task(*self.pipeline.pop())
        elif self._owed is not None:
            self._write(self._owed)
            self.close()
        elif self._phase == BODY:
            # It was answered before the end of its body, which nobody will read.
            self.close()
        else:
            self.flow.resume_reading()
