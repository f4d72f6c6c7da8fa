"""The publisher against a model: whatever comes in whatever order, it claims nothing that did not land."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from confluent_kafka import KafkaError
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from core.clock import ManualClock
from core.decision import Decision
from tests.examples import examples
from tests.unit.dlq.publishing import BODY, SMALL, FakeJournal, FakeProducer, dead_row, live_row, publisher, wait_for


@pytest.fixture(autouse=True)
def holds_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dlq.publisher.IN_MEMORY_MAX", SMALL)


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
        self.dlq.passed(rows[-1].seq)

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
