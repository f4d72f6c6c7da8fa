"""Decides which connection makes way where all places of a process are taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class Connection(Protocol):
    """A connection that can be asked to make way."""

    def make_way(self) -> None:
        """Ends at once: its place is another connection's."""


@dataclass(slots=True)
class _Source:
    count: int = 0
    waiting: dict[Connection, float] = field(default_factory=dict)
    """Those that wait for their client, the longest first; since when."""


class Connections:
    """The open connections by source. Where all places are taken, one that waits for its client makes way.

    It is the longest waiting of the source that has most connections. A connection whose request is under way keeps its
    place: `Load` bounds those.
    """

    def __init__(self, connections_max: int) -> None:
        self._connections_max = connections_max
        self._count = 0
        self._sources: dict[str, _Source] = {}

    def admit_connection(self, connection: Connection, source: str, now: float) -> bool:
        """Gives a new connection a place, in which it waits for its client; False: none is to be had."""
        if self._count >= self._connections_max and not self._make_room():
            return False
        sender = self._sources.setdefault(source, _Source())
        sender.count += 1
        sender.waiting[connection] = now
        self._count += 1
        return True

    def set_waiting_since(self, connection: Connection, source: str, since: float | None) -> None:
        """Notes since when a connection waits for its client; None: its request is under way.

        A connection without a place is passed over; one that waits already keeps its time.
        """
        sender = self._sources.get(source)
        if sender is None:
            return
        if since is None:
            sender.waiting.pop(connection, None)
        else:
            sender.waiting.setdefault(connection, since)

    def release(self, connection: Connection, source: str) -> None:
        """Takes back the place of a connection that has one."""
        sender = self._sources[source]
        sender.waiting.pop(connection, None)
        sender.count -= 1
        self._count -= 1
        if not sender.count:
            del self._sources[source]

    def find_busiest_source(self) -> tuple[str, int]:
        """The source that has most connections, and how many."""
        source = max(self._sources, key=lambda name: self._sources[name].count, default="")
        return source, self._sources[source].count if source in self._sources else 0

    def _make_room(self) -> bool:
        busiest = max(
            (source for source in self._sources.values() if source.waiting),
            key=lambda source: (source.count, -next(iter(source.waiting.values()))),
            default=None,
        )
        if busiest is None:
            return False
        next(iter(busiest.waiting)).make_way()
        return True
