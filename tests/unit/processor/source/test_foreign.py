"""A topic that another program writes: its records become events of the stream by what an identity function says."""

from __future__ import annotations

import json
import pickle
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.decision import Decision
from core.source_record import Identified, NotAnEvent, RecordIdentity, SourceRecord
from journal.schema import JournalRow, TopicRecord, same_record
from processor.decide.arrivals import take_undecided
from processor.reporting.metrics import ProcessorMetrics
from processor.source.foreign import IDENTITY_S_MAX, ForeignTopic
from processor.source.map_stage import MapJob
from processor.source.opening import RecordGone
from processor.source.records import MARKERS, KafkaRecord, drop_answers, read_table
from processor.source.source_settings import TopicSource
from processor.workers.payload import make_decoder
from tests.unit.processor.harness import CONTROL, Engine, table
from tests.unit.processor.source.test_map_stage import Impure, passed, reported

ORDERS = "orders"
AT = datetime(2026, 1, 31, 11, 59, tzinfo=UTC)


def identify(record: SourceRecord) -> Identified:
    """As somebody would write it; what a test wants to go wrong stands in the value."""
    if record.value is None:
        return NotAnEvent("a tombstone")
    order = record.document()
    if order.get("sleeps"):
        time.sleep(60.0)
    if order.get("exits"):
        raise SystemExit(3)
    if order.get("answers"):
        return order["answers"]  # type: ignore[no-any-return]
    if order.get("ping"):
        return NotAnEvent("a ping")
    at = record.header("at")
    return RecordIdentity(
        f"{order['id']}:{order['type']}",
        str(order["order"]),
        order["type"],
        None if at is None else datetime.fromisoformat(at),
        tenant=record.header("tenant"),
    )


FOREIGN = ForeignTopic(ORDERS, "shop.identity:of", identify, make_decoder("json"), "live")


class Orders(Engine):
    """A stream that reads `ORDERS` through the map stage."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._offsets[ORDERS] = 0

    def start(self, *, keeps_index: bool = False) -> None:
        self.configure(source=TopicSource(topic=ORDERS))
        super().start(keeps_index=keeps_index)

    def batch(self) -> list[JournalRow]:
        before = len(self.journal.rows)
        stage: MapJob = replace(reported(Impure), foreign=FOREIGN)
        self.batches.run(passed(table(self._pending), stage))
        self._pending.clear()
        return self.journal.rows[before:]

    def write(self, value: bytes | None, headers: dict[str, str] | None = None, key: bytes | None = None) -> None:
        """Another program's record in Kafka."""
        pairs = [{"key": name, "value": text.encode()} for name, text in (headers or {}).items()]
        record = {"topic": ORDERS, "partition": 0, "offset": self._offsets[ORDERS], "value": value, "headers": pairs}
        self._pending.append({**record, "key": key, "at_ms": int(AT.timestamp() * 1_000)})
        self._offsets[ORDERS] += 1

    def place(self, number: int, kind: str = "placed", order: str = "o1", **more: object) -> None:
        self.write(json.dumps({"id": number, "type": kind, "order": order, **more}).encode())


@pytest.fixture
def engine(tmp_path: Path) -> Orders:
    return Orders(tmp_path)


def test_a_row_says_key_entity_type_and_time_by_the_function_and_whose_it_is_by_its_topic(engine: Orders) -> None:
    engine.write(
        b'{"id": 17, "type": "placed", "order": "o:1"}',
        {"at": "2026-01-31T11:00:00+00:00", "tenant": "eu", "event_key": "not ours", "received_at": "yesterday"},
    )
    [row] = engine.batch()
    assert (row.decision, row.provider, row.topic, row.offset) == (Decision.APPLIED, "kafka/orders", ORDERS, 0)
    assert (row.event_key, row.entity_key) == ("kafka/orders:17%3Aplaced", "kafka/orders:o%3A1")
    assert (row.event_type, row.mode, row.tenant, row.dedupe) == ("placed", "live", "eu", None)
    assert (row.occurred_at, row.received_at) == (datetime(2026, 1, 31, 11, tzinfo=UTC), AT)
    assert json.loads(row.headers or "")["event_key"] == "not ours"
    theirs = TopicRecord(0, b'{"id": 17, "type": "placed", "order": "o:1"}', (("event_key", b"not ours"),))
    assert same_record(row, theirs), "what another program says under our names is nothing to compare"


def test_a_copy_is_a_duplicate_and_other_content_under_the_key_is_a_conflict(engine: Orders) -> None:
    for amount in (1, 1, 2):
        engine.place(1, amount=amount)
    assert [(row.decision, row.error_class) for row in engine.batch()] == [
        (Decision.APPLIED, None),
        (Decision.DUPLICATE, None),
        (Decision.DEAD, "EventConflict"),
    ]


def test_no_events_cost_no_call_and_one_row_for_all_in_a_row(engine: Orders) -> None:
    engine.place(1)
    for _ in range(3):
        engine.place(0, ping=True)
    engine.write(None)
    engine.place(2)
    rows = engine.batch()
    assert [(row.decision, row.offset, row.offset_until, row.reason) for row in rows] == [
        (Decision.APPLIED, 0, None, None),
        (Decision.IGNORED, 1, 4, "not an event: a ping"),
        (Decision.IGNORED, 4, 5, "not an event: a tombstone"),
        (Decision.APPLIED, 5, None, None),
    ]
    assert engine.handler.calls == ["kafka/orders:1%3Aplaced", "kafka/orders:2%3Aplaced"]
    assert engine.journal.marks[ORDERS] == {0: 6}


def test_no_events_are_counted_one_by_one(engine: Orders) -> None:
    metrics = ProcessorMetrics(engine.clock)
    engine.on_decided = metrics.count_decisions
    for _ in range(3):
        engine.place(0, ping=True)
    engine.place(1)
    engine.batch()
    assert metrics.registry.get_sample_value("payhook_records_passed_over_total") == 3


def test_offsets_that_hold_no_event_are_taken_once_when_they_are_looked_at_twice() -> None:
    """A blocked stream's records are taken when they are looked at, and again when one of them is tried."""
    records = [KafkaRecord(ORDERS, 0, at, None, [], until=at + 1, why="not an event: a ping") for at in range(3)]
    once, marks = take_undecided([*records, KafkaRecord(ORDERS, 0, 5, b"", [])], {ORDERS: {0: 0}}, {ORDERS})
    assert [(one.offset, one.until, one.why) for one in once[:2]] == [
        (0, 3, "not an event: a ping"),
        (3, 5, MARKERS),
    ]
    assert take_undecided(once, {ORDERS: {0: 0}}, {ORDERS}) == (once, marks)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"{", "it raised Unparseable"),
        (b'{"type": "placed"}', "it raised KeyError: 'id'"),
        (b'{"exits": 1}', "it raised SystemExit: 3"),
        (b'{"answers": 7}', "it answered int, expected RecordIdentity or NotAnEvent"),
        (b'{"id": 1, "type": "", "order": 1}', "its event_type is ''"),
        (b'{"id": 1, "type": "poison", "order": 1}', "payhook's own types"),
        (b'{"id": 1, "type": "payhook.reversed", "order": 1}', "payhook's own types"),
        (b'{"sleeps": 1}', f"it wasn't back after {IDENTITY_S_MAX:g} s"),
    ],
)
def test_a_record_that_cannot_be_named_dies_by_reference_and_the_stream_goes_on(
    engine: Orders, value: bytes, problem: str
) -> None:
    engine.write(value)
    engine.place(2)
    dead, applied = engine.batch()
    assert (dead.decision, dead.error_class, dead.provider) == (Decision.DEAD, "IdentityFailed", "kafka/orders")
    assert problem in (dead.error_message or "")
    assert "shop.identity:of" in (dead.error_message or "")
    assert (dead.event_key, dead.entity_key, dead.body_sha256) == (None, "kafka:orders:0:0", None)
    assert (applied.decision, applied.offset) == (Decision.APPLIED, 1)
    assert same_record(dead, TopicRecord(0, value))
    assert not same_record(dead, TopicRecord(0, value + b" "))


def test_many_that_hang_cost_less_each(engine: Orders) -> None:
    for number in range(25):
        engine.place(number, sleeps=True)
    began = time.monotonic()
    assert {row.error_class for row in engine.batch()} == {"IdentityFailed"}
    assert time.monotonic() - began < 5 * IDENTITY_S_MAX + 20 * 0.2


def test_a_naive_time_is_no_time(engine: Orders) -> None:
    engine.write(b'{"id": 1, "type": "placed", "order": 1}', {"at": "2026-01-31T11:00:00"})
    [dead] = engine.batch()
    assert "expected a datetime with its zone" in (dead.error_message or "")


def test_a_stream_that_was_blocked_knows_its_records_and_why_some_cannot_be_named(engine: Orders) -> None:
    engine.place(1)
    engine.write(b"{", key=b"o1")
    engine.place(0, ping=True)
    stage: MapJob = replace(reported(Impure), foreign=FOREIGN)
    batch = passed(table(engine._pending), stage)
    assert read_table(drop_answers(batch)) == read_table(batch)
    named, refused, passed_over = read_table(batch)
    assert named.named is not None
    assert refused.refused is not None and refused.key == b"o1"
    assert passed_over.until == 3


def test_commands_of_the_stream_are_obeyed(engine: Orders) -> None:
    engine.handler.fails("kafka/orders:1%3Aplaced", ValueError("a bug"), times=1)
    engine.place(1)
    [dead] = engine.batch()
    assert dead.decision is Decision.DEAD
    engine.command(dead.item_seq, dead.seq)
    rows = engine.batch() + engine.batch()
    assert Decision.APPLIED in [row.decision for row in rows]
    assert CONTROL in engine.journal.marks


@pytest.mark.parametrize("answer", [None, "no answer within 5 s", "gone"])
def test_a_replay_of_a_record_that_was_not_named_publishes_it_again(engine: Orders, answer: str | None) -> None:
    """Its copy is decided as any other record: by what the function says then."""
    asked = []

    def put_back(row: JournalRow, mark: tuple[str, bytes]) -> str | None:
        asked.append((row.topic, row.partition, row.offset, mark))
        if answer == "gone":
            raise RecordGone(row.topic, row.partition, row.offset)
        return answer

    engine.rereads.put_back = put_back
    engine.write(b"{")
    [dead] = engine.batch()
    engine.command(dead.item_seq, dead.seq)
    rows = [row for row in [*engine.batch(), *engine.batch()] if row.item_seq == dead.item_seq]
    assert asked[0] == (ORDERS, 0, 0, ("reread_of", b"ledger/1"))
    decision, reason = {
        None: (Decision.RESOLVED, "published again at the end of orders: its copy is decided there"),
        "gone": (Decision.DEAD, "RecordGone: Kafka no longer holds orders[0]@0: have its sender publish it again"),
    }.get(answer, (Decision.PARKED, "it isn't published again yet: no answer within 5 s"))
    assert rows[-1].decision is decision
    assert (rows[-1].reason or "").startswith(reason)
    if decision is Decision.PARKED:
        engine.advance(6.0)
        assert len(asked) == 2, "it is tried again"


def test_the_function_travels_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(FOREIGN)) == FOREIGN
