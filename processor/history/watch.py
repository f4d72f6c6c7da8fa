"""Looks while a stream runs whether its source still holds what was decided: Spark tells neither ids nor reconnects."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from journal.kafka_log import Log
from journal.schema import JournalRow
from journal.state import JournalState
from processor.history.check import LOOKED_NOTE, Disagreement, HistoryRefused, other_records, other_topics, out_of_range

log = logging.getLogger(__name__)

TICK_S = 1.0
"""A broker that is ended and started on another folder is away for longer: at least one tick falls into that time, and
takes note of the last row that was decided from the old log."""

LOOK_TICKS = 10
KEPT_TICKS_MAX = 60
"""While Kafka doesn't answer; of more than that the oldest are kept."""

Lasts: TypeAlias = Mapping[tuple[str, int], JournalRow]
"""The row that decided the last offset of each topic's partition."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a stream has decided: its last seq, its state's marks, the last row of each partition."""

    seq: int
    state: JournalState
    lasts: Lasts


class HistoryWatch:
    """Compares every ten seconds, on a thread of its own, what was decided with what the source holds.

    ``refusal`` is set once they disagree; `close` ends the thread. ``by_range`` names the partitions of which the
    source no longer holds the last record that was decided: only topic id and range were compared there.
    """

    def __init__(
        self, stream: str, position: Callable[[], Position], log_of: Callable[[], Log], topics: Sequence[str]
    ) -> None:
        self._stream = stream
        self._position = position
        self._log_of = log_of
        self._topics = topics
        self._stop = threading.Event()
        self._pending: list[Position] = []
        self._thread = threading.Thread(target=self._run, name=f"history-{stream}", daemon=True)
        self.refusal: HistoryRefused | None = None
        self.looked_seq: int | None = None
        self.by_range: Sequence[str] = ()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Returns once no look is under way, or a moment later if Kafka doesn't answer it."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(TICK_S)

    def notes(self) -> dict[str, str]:
        """What the journal's next commit remembers."""
        return {} if self.looked_seq is None else {LOOKED_NOTE: str(self.looked_seq)}

    def tick(self) -> None:
        """Takes note of what is decided now."""
        position = self._position()
        if len(self._pending) < KEPT_TICKS_MAX and (not self._pending or self._pending[-1].seq != position.seq):
            self._pending.append(position)

    def look(self, log_: Log) -> None:
        """Compares what was noted since the last look; sets ``refusal`` where Kafka disagrees.

        :raises TopicMissing, KafkaSilent: Kafka doesn't tell
        """
        noted = list(self._pending)
        if not noted:
            return
        found = self._disagreements(noted, log_)
        if found:
            self.refusal = HistoryRefused(self._stream, found)
            return
        self.looked_seq = noted[-1].seq
        del self._pending[: len(noted) - 1]

    def _disagreements(self, noted: Sequence[Position], log_: Log) -> list[Disagreement]:
        state, topics = noted[-1].state, [topic for topic in self._topics if topic in noted[-1].state.marks]
        held = log_.held(topics)
        found = [*other_topics(state, log_.topic_ids(topics)), *out_of_range(state, held, topics)]
        rows = {(row.topic, row.partition, row.offset): row for one in noted for row in one.lasts.values()}
        self.by_range = tuple(
            f"{row.topic}[{row.partition}]"
            for row in noted[-1].lasts.values()
            if row.topic in held and row.offset < held[row.topic].get(row.partition, (0, 0))[0]
        )
        return found or list(other_records(rows.values(), log_, held))

    def _run(self) -> None:
        there, ticks, failed = self._log_of(), 0, False
        while not self._stop.wait(TICK_S) and self.refusal is None:
            self.tick()
            ticks += 1
            if ticks % LOOK_TICKS:
                continue
            try:
                self.look(there)
                failed = False
            except Exception as problem:
                # Whatever a client raises: a watch that ended in silence would let everything pass after that.
                log.log(logging.DEBUG if failed else logging.WARNING, "%s: no look: %s", self._stream, problem)
                failed = True
        there.close()
