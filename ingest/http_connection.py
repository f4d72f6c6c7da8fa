"""One connection of the public listener: how many there may be, how long one may be idle, and how it ends.

What is refused is answered in order, after the requests before it, and then the connection is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from ingest.errors import Refused, error_json, too_many_connections

LINGER_S = 2.0
LINGER_BYTES_MAX = 1 << 20
"""A sender that is still sending is listened to for so long: a reset connection would take its answer away."""
TURNED_AWAY_MAX = 64
"""Connections beyond the limit that may linger; further ones are closed at once."""

IDLE, HEAD, BODY = range(3)
"""What a connection is in the middle of."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Times in seconds. ``idle_s``: a connection on which nothing happens; ``header_deadline_s``: from a head's first
    byte to its last; ``connections_max``: of one process."""

    header_deadline_s: float = 5.0
    idle_s: float = 30.0
    connections_max: int = 900
    retry_after_s: int = 2


class _Closing:
    """The transport as a request's cycle sees it: it closes through the protocol."""

    __slots__ = ("_protocol", "_transport", "write")

    def __init__(self, transport: asyncio.Transport, protocol: BoundedConnection) -> None:
        self._transport = transport
        self._protocol = protocol
        self.write = transport.write

    def close(self) -> None:
        self._protocol.close()

    def is_closing(self) -> bool:
        return self._protocol.lingering or self._transport.is_closing()


class BoundedConnection(HttpToolsProtocol):
    """uvicorn's connection with bounds; what comes in on it is a subclass's."""

    limits: ClassVar[HttpLimits] = HttpLimits()
    on_refused: ClassVar[Callable[[Refused], None]] = staticmethod(lambda refused: None)
    turned_away: ClassVar[set[BoundedConnection]] = set()

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.lingering = False
        self._raw: asyncio.Transport | None = None
        self._deaf = False
        self._owed: Refused | None = None
        self._phase = IDLE
        self._ignored_bytes = 0
        self._idle_since = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        full = len(self.connections) >= self.limits.connections_max
        super().connection_made(transport)
        self._raw = transport
        self.transport = cast(asyncio.Transport, _Closing(transport, self))
        if full:
            self.connections.discard(self)
            self.turned_away.add(self)
            self._refuse(too_many_connections(self.limits.retry_after_s))
        else:
            self._idle_since = self.loop.time()
            self._idle_timer = self.loop.call_later(self.limits.idle_s, self._look_whether_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deaf = True
        self.turned_away.discard(self)
        self._cancel_timers()
        super().connection_lost(exc)

    def close(self) -> None:
        """Ends the connection after what was written; while a request is under way its rest is taken in and ignored."""
        raw = self._raw
        if raw is None or raw.is_closing() or self.lingering:
            return
        crowded = self in self.turned_away and len(self.turned_away) > TURNED_AWAY_MAX
        if crowded or (self._phase == IDLE and not self._deaf):
            raw.close()
            return
        self._deaf = self.lingering = True
        self._cancel_timers()
        self.flow.resume_reading()
        raw.write_eof()
        self._linger_timer = self.loop.call_later(LINGER_S, raw.abort)

    def _look_whether_idle(self) -> None:
        """One timer a connection, that looks back: one a request would cost more than all of the checks."""
        left_s = self.limits.idle_s
        if self._phase == IDLE and (self.cycle is None or self.cycle.response_complete):
            left_s = self._idle_since + self.limits.idle_s - self.loop.time()
        if left_s <= 0:
            self.close()
        else:
            self._idle_timer = self.loop.call_later(left_s, self._look_whether_idle)

    def _ignore(self, size: int) -> None:
        self._ignored_bytes += size
        if self._ignored_bytes > LINGER_BYTES_MAX and self._raw is not None:
            self._raw.abort()

    def _refuse(self, refused: Refused) -> None:
        """Nothing more of this connection is read; the answer waits for those before it."""
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

    def _write(self, refused: Refused) -> None:
        body = error_json(refused)
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
