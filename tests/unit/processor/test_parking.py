"""Any interleaving of arrivals, failures, waits, restarts and replays keeps order and loses nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.unit.processor.harness import Engine, Stuck

ENTITIES = st.sampled_from(["e1", "e2", "e3"])


class Parking(RuleBasedStateMachine):
    """The model: per entity the keys in Kafka's order, which is the order in which they must be applied."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.engine = Engine(Path(self._folder.name), drain_per_entity_max=3)
        self.posted: dict[str, list[str]] = {}
        self.count = 0

    def teardown(self) -> None:
        self._folder.cleanup()

    @rule(entity=ENTITIES, fails=st.sampled_from([0, 0, 0, 1, 2, 7]), bug=st.booleans())
    def arrives(self, entity: str, fails: int, bug: bool) -> None:
        self.count += 1
        key = self.engine.post(f"evt_{self.count}", entity)
        self.posted.setdefault(entity, []).append(key)
        if fails:
            error = ZeroDivisionError("bug") if bug else Stuck("no answer")
            self.engine.handler.fails(key, error, times=1 if bug else fails)

    @rule(which=st.integers(0, 50))
    def arrives_again(self, which: int) -> None:
        if self.count:
            number = which % self.count + 1
            entity = next(e for e, keys in self.posted.items() if f"stripe:evt_{number}:charge.captured" in keys)
            self.engine.post(f"evt_{number}", entity)

    @rule(seconds=st.sampled_from([0, 0.5, 1, 4, 20]))
    def time_passes(self, seconds: float) -> None:
        self.engine.advance(seconds)

    @rule()
    def restarts(self) -> None:
        self.engine.start()

    @rule()
    def the_dead_are_replayed(self) -> None:
        last = {row.item_seq: row for row in self.engine.journal.rows}
        for row in last.values():
            if row.decision == "dead":
                self.engine.command(row.item_seq, row.seq, f"c-{row.seq}")
        self.engine.batch()

    @invariant()
    def applied_in_kafkas_order_and_once(self) -> None:
        applied = [row.event_key for row in self.engine.journal.rows if row.decision == "applied"]
        assert len(applied) == len(set(applied))
        for keys in self.posted.values():
            mine = [key for key in applied if key in set(keys)]
            assert mine == keys[: len(mine)]

    @invariant()
    def every_offset_has_one_first_row(self) -> None:
        first = [(row.topic, row.offset) for row in self.engine.journal.rows if row.first]
        assert len(first) == len(set(first))
        for topic, partitions in self.engine.batches.marks.items():
            assert sorted(offset for name, offset in first if name == topic) == list(range(partitions[0]))

    @invariant()
    def nothing_is_forgotten(self) -> None:
        last = {row.item_seq: row for row in self.engine.journal.rows if row.topic == "payments.events"}
        for row in last.values():
            if row.decision in ("retry", "replayed"):
                assert row.due_at is not None
        heads: dict[str, object] = {}
        for row in sorted(last.values(), key=lambda row: row.item_seq):
            if row.blocking and row.entity_key is not None:
                heads.setdefault(row.entity_key, row)
        for head in heads.values():
            assert head.decision == "dead" or head.due_at is not None  # type: ignore[attr-defined]


Parking.TestCase.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
TestParking = Parking.TestCase
