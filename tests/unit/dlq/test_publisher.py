"""The publisher: never waits, never gives up, and never says that it got further than it did."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from core.clock import ManualClock
from core.decision import Decision
from dlq.publisher import DlqPublisher, Tally
from journal.bodies import BodyStore
from journal.schema import JournalRow
from tests.examples import examples
from tests.unit.dlq.publishing import (
    BODY,
    SMALL,
    TOPIC,
    FakeJournal,
    FakeProducer,
    batch,
    dead_row,
    live_row,
    publisher,
    wait_for,
)
from tests.unit.journal.rows import bare_row


@pytest.fixture(autouse=True)
def holds_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dlq.publisher.IN_MEMORY_MAX", SMALL)


@pytest.mark.row("C5")
def test_published_upto_moves_with_acknowledgements_only() -> None:
    producer = FakeProducer()
    dlq = publisher(producer)
    dlq.publish(batch(3, 5))
    dlq.on_passed(9)
    assert dlq.published_upto == 2
    producer.deliver()
    assert dlq.published_upto == 4
    producer.deliver()
    assert dlq.published_upto == 9


def test_an_acknowledgement_out_of_order_does_not_hide_the_one_before() -> None:
    producer = FakeProducer()
    dlq = publisher(producer)
    dlq.publish(batch(3, 5))
    dlq.on_passed(9)
    producer.deliver(at=1)
    assert producer.landed == [5]
    assert dlq.published_upto == 2


def test_rows_that_are_not_dead_are_passed_over() -> None:
    producer = FakeProducer()
    dlq = publisher(producer)
    dlq.publish([(live_row(1), BODY)])
    dlq.on_passed(1)
    assert (producer.queue, dlq.published_upto) == ([], 1)


def test_a_refused_record_is_tried_again_after_a_growing_wait() -> None:
    producer, clock = FakeProducer(), ManualClock(datetime(2026, 1, 31, tzinfo=UTC))
    dlq = publisher(producer, clock)
    dlq.publish(batch(1))
    dlq.on_passed(1)
    for wait_s in (0.5, 1.0, 2.0, 4.0):
        producer.fail(1, KafkaError(KafkaError._MSG_TIMED_OUT))
        clock.advance(wait_s - 0.01)
        dlq.poll()
        assert producer.queue == []
        clock.advance(0.02)
        dlq.poll()
        assert len(producer.queue) == 1
    assert (dlq.published_upto, dlq.tally.failed) == (0, 4)
    producer.deliver()
    assert (dlq.published_upto, dlq.tally.written) == (1, 1)


@pytest.mark.row("C4")
def test_each_try_is_counted_and_the_oldest_letters_wait_is_known() -> None:
    """The counts are the stream's: the next publisher goes on from them."""
    producer, clock, tally = FakeProducer(), ManualClock(datetime(2026, 1, 31, tzinfo=UTC)), Tally()
    dlq = publisher(producer, clock, tally=tally)
    assert dlq.waiting_s == 0
    dlq.publish(batch(1, 2))
    clock.advance(90)
    assert dlq.waiting_s == 90
    producer.fail(1, KafkaError(KafkaError._MSG_TIMED_OUT))
    producer.deliver()
    assert (tally.requests, tally.written, tally.failed, dlq.waiting_s) == (2, 1, 1, 90)
    clock.advance(1)
    dlq.poll()
    producer.deliver()
    assert (tally.requests, tally.written, tally.failed, dlq.waiting_s) == (3, 2, 1, 0)
    later = publisher(producer, clock, 2, tally=tally)
    later.publish(batch(3))
    producer.deliver()
    assert (tally.requests, later.tally.written) == (4, 3)


def test_a_full_queue_of_the_producer_is_waited_out_without_waiting() -> None:
    producer = FakeProducer(queue_max=1)
    dlq = publisher(producer)
    dlq.publish(batch(1, 2, 3))
    dlq.on_passed(3)
    for _ in range(3):
        producer.deliver()
        dlq.poll()
    assert producer.landed == [1, 2, 3]
    assert dlq.published_upto == 3


def test_a_record_that_the_broker_finds_too_large_goes_by_reference() -> None:
    producer = FakeProducer()
    dlq = publisher(producer)
    dlq.publish(batch(1))
    dlq.on_passed(1)
    producer.fail(1, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    dlq.poll()
    producer.deliver()
    assert producer.values == [None]
    assert dlq.published_upto == 1


def test_a_record_that_the_client_finds_too_large_goes_by_reference() -> None:
    producer = FakeProducer()
    too_large = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    producer.refuse_locally = lambda record: too_large if record["value"] is not None else None
    dlq = publisher(producer)
    dlq.publish(batch(1, 2))
    dlq.on_passed(2)
    producer.deliver(2)
    assert (producer.landed, producer.values, dlq.published_upto) == ([1, 2], [None, None], 2)


def test_a_fatal_error_gets_a_new_producer_and_loses_nothing() -> None:
    broken, fresh = FakeProducer(), FakeProducer()
    producers = iter([broken, fresh])
    clock = ManualClock(datetime(2026, 1, 31, tzinfo=UTC))
    dlq = DlqPublisher(lambda: next(producers), TOPIC, 0, clock)
    dlq.publish(batch(1, 2))
    dlq.on_passed(2)
    broken.fail(1, KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, fatal=True))
    dlq.poll()
    assert broken.purged
    clock.advance(60)
    dlq.poll()
    fresh.deliver(2)
    assert sorted(fresh.landed) == [1, 2]
    assert dlq.published_upto == 2


def test_a_start_takes_in_what_was_not_acknowledged_before() -> None:
    producer = FakeProducer()
    journal = FakeJournal([live_row(1), dead_row(2), live_row(3), dead_row(4), live_row(5)])
    dlq = publisher(producer, published_upto=2)
    dlq.catch_up(journal, journal)
    assert dlq.published_upto == 3
    producer.deliver(9)
    assert producer.landed == [4]
    assert producer.values == [BODY]
    assert dlq.published_upto == 5


def test_what_memory_cannot_hold_is_read_again_from_the_journal() -> None:
    """Kafka takes nothing for a long time; memory stays bounded and every dead letter arrives in the end."""
    producer = FakeProducer(queue_max=2)
    journal = FakeJournal()
    dlq = publisher(producer)
    dlq.catch_up(journal, journal, lambda: journal)
    for seq in range(1, 21):
        journal.rows.append(dead_row(seq))
        dlq.publish(batch(seq))
        dlq.on_passed(seq)
        assert dlq.unacknowledged <= SMALL
    assert dlq.published_upto == 0
    producer.on_poll = lambda: producer.deliver(2)
    wait_for(lambda: dlq.published_upto == 20, dlq.poll)
    assert sorted(set(producer.landed)) == list(range(1, 21))
    dlq.close(0)


def test_without_a_way_to_read_again_the_rest_waits_for_the_next_start() -> None:
    """It must not claim what it let go."""
    producer = FakeProducer()
    journal = FakeJournal([dead_row(seq) for seq in range(1, 8)])
    dlq = publisher(producer)
    dlq.catch_up(journal, journal)
    dlq.publish(batch(8))
    dlq.on_passed(8)
    producer.deliver(9)
    dlq.poll()
    assert producer.landed == [1, 2, 3, 4]
    assert dlq.published_upto == 4


def test_the_partition_is_the_origins() -> None:
    producer = FakeProducer()
    dlq = publisher(producer)
    dlq.publish([(dead_row(1, partition=3), BODY)])
    producer.deliver()
    assert producer.partitions == [3]


class Watching:
    """Writes down each call about dead rows."""

    def __init__(self) -> None:
        self.reported: list[tuple[object, ...]] = []
        self.held: set[int] = set()

    def on_taken(self, row: JournalRow) -> None:
        self.reported.append(("taken", row.seq))

    def is_held(self, row: JournalRow) -> bool:
        return row.seq in self.held

    def settle(self, timeout_s: float) -> None:
        self.reported.append(("settle", timeout_s))
        self.held.clear()

    def on_published(self, row: JournalRow, topic: str, partition: int, offset: int) -> None:
        self.reported.append(("published", row.seq, topic, partition, offset))

    def on_refused(self, row: JournalRow, error: Exception) -> None:
        self.reported.append(("refused", row.seq, type(error)))

    def close(self, timeout_s: float) -> None:
        self.reported.append(("close", timeout_s))


def test_a_watcher_is_reported_before_a_letter_goes_of_each_refusal_and_where_it_is() -> None:
    producer, watching = FakeProducer(), Watching()
    clock = ManualClock(datetime(2026, 1, 31, tzinfo=UTC))
    letters = publisher(producer, clock, watcher=watching)
    letters.publish([(dead_row(1, partition=2), BODY)])
    producer.fail(1, KafkaError(KafkaError._MSG_TIMED_OUT))
    clock.advance(1)
    letters.poll()
    producer.deliver()
    letters.close(3.0)
    assert watching.reported == [
        ("taken", 1),
        ("refused", 1, KafkaException),
        ("published", 1, "dlq.ledger", 2, 0),
        ("settle", 3.0),
        ("close", 3.0),
    ]


def test_a_letter_that_its_watcher_holds_goes_later_and_in_its_order_and_nothing_waits_for_it() -> None:
    producer, watching = FakeProducer(), Watching()
    letters = publisher(producer, watcher=watching)
    watching.held = {1}
    letters.publish(batch(1, 2))
    letters.poll()
    assert producer.queue == []
    watching.held = {2}
    letters.poll()
    producer.deliver(2)
    assert (producer.landed, letters.published_upto) == ([1], 1)
    letters.close(3.0)
    assert producer.landed == [1, 2]


class PublisherMachine(RuleBasedStateMachine):
    """Rows, acknowledgements, failures and overflow in any order, against what really landed."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(datetime(2026, 1, 31, tzinfo=UTC))
        self.producer = FakeProducer(queue_max=3)
        self.journal = FakeJournal()
        self.dlq = publisher(self.producer, self.clock)
        self.dlq.catch_up(self.journal, self.journal, lambda: FakeJournal(self.journal.rows))

    @rule(dead=st.lists(st.booleans(), min_size=1, max_size=4))
    def a_batch(self, dead: list[bool]) -> None:
        seq = len(self.journal.rows)
        rows = [dead_row(seq + n) if one else live_row(seq + n) for n, one in enumerate(dead, 1)]
        self.journal.rows += rows
        self.dlq.publish([(row, BODY) for row in rows if row.decision is Decision.DEAD])
        self.dlq.on_passed(rows[-1].seq)

    @rule(count=st.integers(1, 3), at=st.integers(0, 2))
    def kafka_acknowledges(self, count: int, at: int) -> None:
        self.producer.deliver(count, at)

    @rule(count=st.integers(1, 3), code=st.sampled_from([KafkaError._MSG_TIMED_OUT, KafkaError.MSG_SIZE_TOO_LARGE]))
    def kafka_refuses(self, count: int, code: int) -> None:
        self.producer.fail(count, KafkaError(code))

    @rule(seconds=st.sampled_from([0.0, 1.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.dlq.poll()

    @invariant()
    def nothing_is_claimed_that_did_not_land(self) -> None:
        landed = set(self.producer.landed)
        claimed = self.dlq.published_upto
        assert all(
            row.seq in landed for row in self.journal.rows if row.decision is Decision.DEAD and row.seq <= claimed
        )
        assert self.dlq.unacknowledged <= SMALL

    def teardown(self) -> None:
        def step() -> None:
            self.clock.advance(60)
            self.dlq.poll()
            self.producer.deliver(9)

        wait_for(lambda: self.dlq.published_upto == len(self.journal.rows), step)
        self.dlq.close(0)


TestPublisherMachine = PublisherMachine.TestCase
TestPublisherMachine.settings = settings(max_examples=examples(40), stateful_step_count=25, deadline=None)


def test_a_dead_letter_whose_file_of_bodies_is_gone_goes_by_reference_and_the_log_names_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost, kept = b'{"id": "evt_lost"}', BODY
    store = BodyStore(str(tmp_path / "bodies"))
    hashes = [hashlib.sha256(body).hexdigest() for body in (lost, kept)]
    store.append([(hashes[0], lost)])
    [file] = (tmp_path / "bodies").glob("*.parquet")
    store.append([(hashes[1], kept)])
    file.unlink()
    rows = [bare_row(seq, Decision.DEAD, body_sha256=sha256) for seq, sha256 in enumerate(hashes, 1)]
    producer = FakeProducer()
    dlq = publisher(producer)
    dlq.catch_up(FakeJournal(rows), store)
    producer.deliver(9)
    assert (producer.landed, producer.values, dlq.published_upto) == ([1, 2], [None, kept], 2)
    assert (
        f"1 dead letters go to their topic without their bytes, which aren't kept: {hashes[0]} (row 1)" in caplog.text
    )
