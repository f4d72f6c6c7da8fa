"""While a stream runs: what was decided is compared with what Kafka holds, before positions are believed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from journal.histories import with_ids
from journal.kafka_log import Held
from journal.schema import TopicRecord
from journal.state import JournalState
from processor.history import check as watch_module
from processor.history.check import LOOKED_NOTE, DecidedPosition, DisagreementKind, HistoryWatch
from tests.unit.journal.rows import TOPIC
from tests.unit.processor.history.logs import MemoryLog, decided, records

OLD = records(*(f"evt_{at}" for at in range(6)))
OTHER = [*OLD[:2], *records(*(f"new_{at}" for at in range(6)), low=2)]


class WatchedStream:
    """A stream that decides when the test says so."""

    def __init__(self) -> None:
        self.decides(OLD, 4)
        self.watch = HistoryWatch("ledger", lambda: self.position, lambda: MemoryLog(OLD), [TOPIC])

    def decides(self, log: list, until: int) -> None:  # type: ignore[type-arg]
        state = JournalState(1, 1, until + 1, {TOPIC: {0: until}}, {TOPIC: {0: 0}}, 0, "")
        self.position = DecidedPosition(until, state, {(TOPIC, 0): decided(until, log[until - 1])})


def test_a_look_that_finds_nothing_is_noted() -> None:
    world = WatchedStream()
    world.watch.note_position()
    world.watch.compare_noted(MemoryLog(OLD))
    assert world.watch.refusal is None
    assert world.watch.make_notes() == {LOOKED_NOTE: "4"}


def test_a_partition_whose_last_record_had_its_time_is_named() -> None:
    world = WatchedStream()
    world.watch.note_position()
    world.watch.compare_noted(MemoryLog(OLD, low=3))
    assert not world.watch.by_range
    world.watch.compare_noted(MemoryLog(OLD, low=4))
    assert (world.watch.by_range, world.watch.refusal) == ((f"{TOPIC}[0]",), None)


def test_a_log_that_was_exchanged_is_found_though_the_last_row_agrees_with_the_new_one() -> None:
    world = WatchedStream()
    world.watch.note_position()
    world.decides(OTHER, 8)
    world.watch.note_position()
    world.watch.compare_noted(MemoryLog(OTHER))
    assert world.watch.refusal is not None
    assert [(one.kind, one.offset) for one in world.watch.refusal.found] == [(DisagreementKind.OTHER_RECORD, 3)]
    assert world.watch.make_notes() == {}


def test_the_last_row_of_one_look_is_compared_by_the_next_one_again() -> None:
    world = WatchedStream()
    world.watch.note_position()
    world.watch.compare_noted(MemoryLog(OLD))
    world.decides(OTHER, 8)
    world.watch.note_position()
    world.watch.compare_noted(MemoryLog(OTHER))
    assert world.watch.refusal is not None


def test_a_log_that_went_back_and_a_topic_that_was_created_again_are_found_without_a_new_row() -> None:
    for log, kind in (
        (MemoryLog(OLD[:2]), DisagreementKind.ENDS_BEFORE),
        (MemoryLog(OLD, topic_id="id-2"), DisagreementKind.OTHER_TOPIC),
    ):
        world = WatchedStream()
        known = MemoryLog(OLD).topic_ids([TOPIC])
        state = world.position.state
        world.position = DecidedPosition(4, replace(state, histories=with_ids({}, known)), world.position.lasts)
        world.watch.note_position()
        world.watch.compare_noted(log)
        assert world.watch.refusal is not None
        assert [one.kind for one in world.watch.refusal.found] == [kind]


class BrokenOnce(MemoryLog):
    """Fails as a client does, not as payhook does; then it answers."""

    def __init__(self, held_records: list[TopicRecord]) -> None:
        super().__init__(held_records)
        self.asked = 0

    def read_held_offsets(self, topics: Sequence[str]) -> Held:
        self.asked += 1
        if self.asked == 1:
            raise RuntimeError("the client is gone")
        return super().read_held_offsets(topics)


def test_a_look_that_fails_in_any_way_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that ended in silence would let a log that is exchanged later pass."""
    monkeypatch.setattr(watch_module, "TICK_S", 0.01)
    world = WatchedStream()
    broken = BrokenOnce(OTHER)
    world.watch = HistoryWatch("ledger", lambda: world.position, lambda: broken, [TOPIC])
    world.watch.start()
    until = time.monotonic() + 60
    while world.watch.refusal is None and time.monotonic() < until:
        time.sleep(0.01)
    world.watch.close()
    assert broken.asked >= 2
    assert world.watch.refusal is not None
