"""HTTP/1.1 as uvicorn serves it, with the limits and deadlines that a public listener needs.

uvicorn leaves open how long a head may take, how large it may be and how many connections there are, and answers what
it can't read in plain text, at once, even while an earlier request of the connection waits for its own answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, cast
from urllib.parse import unquote

import httptools
from uvicorn._types import ASGIVersions
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from core.http_fields import BLANKS
from ingest.errors import RequestRefused
from ingest.http_messages import (
    EXTENSIONS,
    FORBIDDEN_TRAILERS,
    HEAD_BYTES_MAX,
    HEADERS_MAX,
    JUDGED,
    TARGET_BYTES_MAX,
    WholeAnswerCycle,
    check_head,
    check_size,
    head_without_offer,
    refusal_of,
    split_target,
)
from ingest.limits import LIMITS, Connections, ReceiverLimits, source_of

LINGER_S = 2.0
LINGER_BYTES_MAX = 1 << 20
"""A sender that is still sending is listened to for so long: a reset connection would take its answer away. A client
has so long to read the last answers of a connection that is closed."""
TURNED_AWAY_MAX = 64
"""Connections beyond the limit that may linger; further ones are closed at once."""

IDLE, HEAD, BODY = range(3)
"""What a connection is in the middle of."""


PIECE_BYTES = 16_384
"""What the parser is given at once: between two pieces the limits are looked at."""
PIPELINED_MAX = 16
"""Requests of one connection that wait for their turn; each holds a scope and what came of its body."""
CHUNK_OVERHEAD_BYTES_MAX = 16_384
"""Sizes, extensions and trailers of a chunked body, beyond as many bytes as it holds."""


def http_protocol(limits: ReceiverLimits, on_refused: Callable[[RequestRefused], None]) -> type[WebhookHttpProtocol]:
    class LimitedProtocol(WebhookHttpProtocol):
        pass

    LimitedProtocol.limits = limits
    LimitedProtocol.on_refused = staticmethod(on_refused)
    LimitedProtocol.places = Connections(limits.connections_max)
    LimitedProtocol.turned_away = set()
    return LimitedProtocol


class _ClosingTransport:
    __slots__ = ("_protocol", "_transport", "write")

    def __init__(self, transport: asyncio.Transport, protocol: WebhookHttpProtocol) -> None:
        self._transport = transport
        self._protocol = protocol
        self.write = transport.write

    def close(self) -> None:
        self._protocol.close()

    def is_closing(self) -> bool:
        return self._protocol.lingering or self._transport.is_closing()


class WebhookHttpProtocol(HttpToolsProtocol):
    """A connection whose requests are judged before an application sees them, and which is closed in order.

    What is refused is answered after the requests before it; then the connection is closed. A request that is whole
    when it comes in costs no timer; a head that isn't has one of its own.
    """

    limits: ClassVar[ReceiverLimits] = LIMITS
    on_refused: ClassVar[Callable[[RequestRefused], None]] = staticmethod(lambda refused: None)
    places: ClassVar[Connections] = Connections(LIMITS.connections_max)
    turned_away: ClassVar[set[WebhookHttpProtocol]] = set()

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.lingering = False
        self._source: str | None = None
        """The sender under which this connection has a place among `places`."""
        self._raw: asyncio.Transport | None = None
        self._deaf = False
        self._owed: RequestRefused | None = None
        self._phase = IDLE
        self._ignored_bytes = 0
        self._idle_since = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self._running: RequestResponseCycle | None = None
        """The newest request that was begun; `cycle` may be one that waits behind it."""
        self._asgi: ASGIVersions = {"version": self.asgi_version, "spec_version": "2.3"}
        self._scheme = "https" if config.is_ssl else "http"
        self.url = b""
        self._began_here = False
        self._head_bytes = 0
        self._judged: list[tuple[bytes, bytes]] = []
        self._judged_well: list[tuple[bytes, bytes]] | None = None
        self._trailers = 0
        self._wire_bytes = self._body_bytes = 0

    # The connection
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._raw = transport
        self.transport = cast(asyncio.Transport, _ClosingTransport(transport, self))
        source, self._idle_since = source_of(self.client), self.loop.time()
        if not self.places.admit_connection(self, source, self._idle_since):
            self.connections.discard(self)
            self.turned_away.add(self)
            self._refuse(self._too_many_connections())
        else:
            self._source = source
            self._idle_timer = self.loop.call_later(self.limits.idle_s, self._close_if_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deaf = True
        self._give_place_back()
        self.turned_away.discard(self)
        self._cancel_timers()
        self._cancel_unread_timer()
        if self._running is not None:
            self._running.disconnected = True
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client doesn't read its answers: those that wait hold the connection, until it reads or is cut off."""
        super().pause_writing()
        self._note_whether_it_waits()
        assert self._raw is not None
        self._unread_timer = self.loop.call_later(self.limits.idle_s, self._raw.abort)

    def resume_writing(self) -> None:
        self._cancel_unread_timer()
        super().resume_writing()
        self._note_whether_it_waits()

    def make_way(self) -> None:
        """Ends at once, for a newer connection: who has sent a part of a head is told to send it again."""
        assert self._raw is not None
        self._give_place_back()
        if self.lingering or self.flow.write_paused or self._raw.is_closing():
            self._raw.abort()
            return
        if self._phase == HEAD:
            self._deaf = True
            refused = self._too_many_connections()
            type(self).on_refused(refused)
            self._write(refused)
        self._cancel_timers()
        self._raw.close()

    def _too_many_connections(self) -> RequestRefused:
        source, count = self.places.find_busiest_source()
        most = f"{self.limits.connections_max} are open, {count} of them of {source}"
        return RequestRefused("too_many_connections", cause=most)

    def _note_whether_it_waits(self) -> None:
        if self._source is None:
            return
        is_under_way = self._running is not None and not self._running.response_complete
        waits = self.transport.is_closing() or self.flow.write_paused or not is_under_way
        self.places.set_waiting_since(self, self._source, self.loop.time() if waits else None)

    def _give_place_back(self) -> None:
        if self._source is not None:
            self.places.release(self, self._source)
            self._source = None

    def _cancel_unread_timer(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def close(self) -> None:
        """Ends the connection after what was written; while a request is under way its rest is taken in and ignored."""
        raw = self._raw
        if raw is None or raw.is_closing() or self.lingering:
            return
        crowded = self in self.turned_away and len(self.turned_away) > TURNED_AWAY_MAX
        if crowded or (self._phase == IDLE and not self._deaf):
            raw.close()
            self._note_whether_it_waits()
            # What isn't sent by then, nothing else would end.
            self._linger_timer = self.loop.call_later(LINGER_S, raw.abort)
            return
        self._deaf = self.lingering = True
        self._cancel_timers()
        self._note_whether_it_waits()
        self.flow.resume_reading()
        raw.write_eof()
        self._linger_timer = self.loop.call_later(LINGER_S, raw.abort)

    def _close_if_idle(self) -> None:
        """Closes an idle connection. Each has one timer, which looks back: one a request would cost more than all of
        the checks."""
        left_s = self.limits.idle_s
        if self._phase == IDLE and (self.cycle is None or self.cycle.response_complete):
            left_s = self._idle_since + self.limits.idle_s - self.loop.time()
        if left_s <= 0:
            self.close()
        else:
            self._idle_timer = self.loop.call_later(left_s, self._close_if_idle)

    def _refuse(self, refused: RequestRefused) -> None:
        """Reads nothing more of this connection; the answer waits for those before it."""
        self._deaf = True
        self._cancel_timers()
        type(self).on_refused(refused)
        cycle = self.cycle
        answered = cycle is None or cycle.response_complete
        if self._phase == BODY and self.pipeline:
            # The request whose body is wrong is the newest: it hasn't begun.
            self.pipeline.popleft()
            self._owed = refused
        elif self._phase == BODY and not answered:
            cycle.disconnected = True
            cycle.message_event.set()
            if not cycle.response_started:
                self._write(refused)
            self.close()
        elif not answered:
            self._owed = refused
        else:
            self._write(refused)
            self.close()

    def _write(self, refused: RequestRefused) -> None:
        body = refused.json()
        lines = [STATUS_LINE[refused.status]]
        for name, value in self.server_state.default_headers:
            lines.append(b"%b: %b\r\n" % (name, value))
        if refused.retry_after_s is not None:
            lines.append(b"retry-after: %d\r\n" % refused.retry_after_s)
        lines.append(b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body))
        self.transport.write(b"".join([*lines, body]))

    def _cancel_timers(self) -> None:
        for timer in (self._idle_timer, self._head_timer, self._linger_timer):
            if timer is not None:
                timer.cancel()
        self._idle_timer = self._head_timer = self._linger_timer = None

    # What comes in
    def data_received(self, data: bytes) -> None:
        if self._deaf:
            self._ignored_bytes += len(data)
            if self._ignored_bytes > LINGER_BYTES_MAX and self._raw is not None:
                self._raw.abort()
            return
        size = len(data)
        if size > PIECE_BYTES:
            for start in range(0, size, PIECE_BYTES):
                self.data_received(data[start : start + PIECE_BYTES])
            return
        rest: bytes | None = None
        try:
            self.parser.feed_data(data)
            if self._phase or self.cycle is None or self.cycle.response_complete:
                self._check_unfinished(size)
        except httptools.HttpParserError as wrong:
            self._refuse(refusal_of(wrong, data))
        except httptools.HttpParserUpgrade as offered:
            rest = data[offered.args[0] :]
        except RequestRefused as refused:
            self._refuse(refused)
        if rest is not None:
            # Here, as what is raised within a handler would have its exception for its context.
            self._pass_over_upgrade(rest)

    def _pass_over_upgrade(self, rest: bytes) -> None:
        """Reads a request that offers another protocol as HTTP/1.1 (RFC 9110, section 7.8).

        The parser reads no body behind such a head, so a fresh one gets the head without the offer, and the ``rest``.
        """
        head = head_without_offer(self.parser.get_method(), self.url, self.parser.get_http_version(), self.headers)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn makes its own
        self.data_received(head)
        self.data_received(rest)

    def _check_unfinished(self, size: int) -> None:
        if self._phase == BODY:
            self._wire_bytes += size
            if self._wire_bytes > CHUNK_OVERHEAD_BYTES_MAX + 2 * self._body_bytes:
                raise RequestRefused("chunk_overhead", bytes_max=CHUNK_OVERHEAD_BYTES_MAX)
            return
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.limits.header_deadline_s, self._refuse_late_head)
        if self._began_here:
            # How much of these bytes was the end of another request isn't known; the whole head is measured in the end.
            self._began_here = False
        else:
            self._head_bytes += size
        if len(self.url) > TARGET_BYTES_MAX:
            raise RequestRefused("target_too_long", bytes_max=TARGET_BYTES_MAX)
        if self._head_bytes > HEAD_BYTES_MAX:
            raise RequestRefused("head_too_large", bytes_max=HEAD_BYTES_MAX)

    def _refuse_late_head(self) -> None:
        self._head_timer = None
        self._refuse(RequestRefused("head_too_slow", seconds=self.limits.header_deadline_s))

    # The parser's callbacks; the hot ones don't pass through uvicorn's, which do more
    def on_message_begin(self) -> None:
        if len(self.pipeline) >= PIPELINED_MAX:
            raise RequestRefused("too_many_pipelined", requests_max=PIPELINED_MAX)
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
        value = value.strip(BLANKS)
        self.headers.append((name, value))
        if name in JUDGED:
            self._judged.append((name, value))

    def _on_trailer(self, name: bytes) -> None:
        """Trailers are dropped: merged into the headers they would say things that weren't checked."""
        self._trailers += 1
        if self._trailers > HEADERS_MAX:
            raise RequestRefused("too_many_headers", headers_max=HEADERS_MAX)
        if name in FORBIDDEN_TRAILERS:
            raise RequestRefused("forbidden_trailer")

    def on_headers_complete(self) -> None:
        parser = self.parser
        method, version = parser.get_method().decode("ascii"), parser.get_http_version()
        if parser.should_upgrade():
            if method == "CONNECT":
                raise RequestRefused("unknown_method")
            return
        if self._head_timer is not None:
            # It came in several pieces; one alone is within the limit.
            self._head_timer.cancel()
            self._head_timer = None
            check_size(self.url, self.headers)
        if len(self.headers) > HEADERS_MAX:
            raise RequestRefused("too_many_headers", headers_max=HEADERS_MAX)
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
            self._running = self.cycle
            self._note_whether_it_waits()
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
        if self.parser.should_upgrade():
            return  # `_pass_over_upgrade` reads it once more
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
            self._running, app = self.pipeline.pop()
            self._start_asgi_task(self._running, app)
        elif self._owed is not None:
            self._write(self._owed)
            self.close()
        elif self._phase == BODY:
            # It was answered before the end of its body, which won't be read.
            self.close()
        else:
            self._note_whether_it_waits()
            self.flow.resume_reading()
