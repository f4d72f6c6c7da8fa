"""Applied rows as another stream's records: named so that keys, order and marks are the receiver's own."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from core.decision import Decision
from core.event import from_record
from core.routing import Shard
from core.tracing import span_id_of, with_span
from journal.errors import BatchInvalid
from journal.kafka_log import Held
from journal.reader import JournalReader
from journal.schema import JournalRow, to_arrow
from journal.state import JournalState, Marks, check_movement
from journal.writer import JournalWriter
from processor.decide.arrivals import OffsetHole, take_undecided
from processor.history.check import HistoryRefused, check_history, find_other_records
from processor.history.losses import find_losses
from processor.source import journal_source
from processor.source.feed import FeedRecords, OwnFeed
from processor.source.journal_source import FirstNamed, JournalSource
from processor.source.records import RECORD_SCHEMA, KafkaRecord, read_table
from tests.unit.journal.rows import NOW, begin_journal, marks, row
from tests.unit.processor.harness import Engine
from tests.unit.processor.history.logs import MemoryLog
from tests.unit.processor.ordering import last, order

SHOP, BANK = "journal.ledger/shop", "journal.ledger/bank"


def records(*receivers: str) -> FeedRecords:
    return FeedRecords("notify", ["ledger"], OwnFeed("notify"), receivers or ("shop", "bank"))


class NoControl:
    """Kafka's control topic, with nothing on it."""

    topics = ("payments.control",)

    def log(self):
        return MemoryLog([], topic="payments.control")

    def find_start_marks(self, state, held):
        return {topic: {0: ends[0][0]} for topic, ends in held.items()}


def test_each_receiver_gets_a_record_of_a_row_under_keys_of_its_own() -> None:
    found = read_table(records().make_table("ledger", [row(7, mode="live", account="acct")]))
    assert [(record.topic, record.partition, record.offset) for record in found] == [(SHOP, 0, 7), (BANK, 0, 7)]
    events = [from_record(record.value, record.headers).event for record in found]
    assert [event.event_key for event in events] == [
        f"notify:{name}:stripe%3Aevt_6%3Acharge.succeeded" for name in ("shop", "bank")
    ]
    assert [event.entity_key for event in events] == [
        f"notify:{name}:stripe%3Aacct%3Api_6" for name in ("shop", "bank")
    ]
    assert {event.provider for event in events} == {"payhook"}
    assert events[0].content_sha256 == events[0].body_sha256
    assert json.loads(events[0].body)["event_key"] == "stripe:evt_6:charge.succeeded"


def test_what_was_made_safe_for_a_header_once_is_not_encoded_again() -> None:
    (record, _) = read_table(records().make_table("ledger", [row(1, mode="test", event_type="a%3Ab", account="x%25")]))
    event = from_record(record.value, record.headers).event
    assert (event.event_type, event.account, event.mode) == ("a%3Ab", "x%25", "test")


def test_a_body_is_the_same_whenever_it_is_asked_for() -> None:
    again = [read_table(records().make_table("ledger", [row(3, mode="live")]))[0].value for _ in range(2)]
    assert again[0] == again[1]


class FeedWithoutBodies(OwnFeed):
    """Knows no body of the row with seq 2, and gives a text for the one with seq 3."""

    def body(self, row: JournalRow) -> bytes:
        if row.seq == 2:
            raise KeyError("amount")
        return "a text" if row.seq == 3 else super().body(row)  # type: ignore[return-value]


def test_a_row_whose_body_the_feed_cannot_make_dies_and_holds_up_no_other(tmp_path: Path) -> None:
    """A replay sends no receiver an empty body: the feed's error stands again in what becomes of it."""
    feed = FeedRecords("notify", ["ledger"], FeedWithoutBodies("notify"), ["shop"])
    engine = Engine(tmp_path)
    engine.batches.run(feed.make_table("ledger", [row(seq, mode="live") for seq in (1, 2, 3, 4)]))
    assert [one.decision for one in engine.journal.rows] == ["applied", "dead", "dead", "applied"]
    dead = engine.journal.rows[1:3]
    assert [one.error_message for one in dead] == [
        "the feed makes no body of row 2 of ledger: KeyError: 'amount'",
        "the feed makes no body of row 3 of ledger: TypeError: a body is bytes, not str",
    ]
    order(engine, "replay", dead[0].event_key or "")
    engine.advance(0)
    assert last(engine, dead[0].event_key or "").decision == "dead"
    assert len(engine.handler.calls) == 2


def record(topic: str, offset: int) -> KafkaRecord:
    return KafkaRecord(topic, 0, offset, b"", [])


def test_gaps_between_seqs_are_no_holes_and_what_is_below_a_mark_is_dropped() -> None:
    before: Marks = {SHOP: {0: 5}, BANK: {0: 9}}
    taken, after = take_undecided([record(SHOP, 12), record(BANK, 7), record(SHOP, 4), record(SHOP, 5)], before)
    assert [(one.topic, one.offset) for one in taken] == [(SHOP, 5), (SHOP, 12)]
    assert after == {SHOP: {0: 13}, BANK: {0: 9}}
    with pytest.raises(OffsetHole):
        take_undecided([record("payments.events", 6)], {"payments.events": {0: 5}})


@pytest.mark.parametrize(
    ("offsets", "until", "fits"),
    [
        ([5, 9, 12], 13, True),
        ([], 5, True),
        ([12], 13, True),
        ([5, 9], 13, False),
        ([], 6, False),
        ([4, 12], 13, False),
        ([5, 5, 12], 13, False),
        ([5, 13], 13, False),
    ],
)
def test_a_mark_over_seqs_goes_with_the_last_of_them(offsets: list[int], until: int, fits: bool) -> None:
    rows = [row(seq, offset, topic=SHOP) for seq, offset in enumerate(offsets, 1)]
    before, after = {SHOP: {0: 5}}, {SHOP: {0: until}}
    if fits:
        check_movement(rows, before, after)
    else:
        with pytest.raises(BatchInvalid):
            check_movement(rows, before, after)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Twelve rows in four commits; every third one wasn't applied."""
    path = tmp_path / "journal"
    writer = begin_journal(str(path))
    for first in (1, 4, 7, 10):
        rows = [row(seq, mode="live") for seq in range(first, first + 3)]
        rows[2].decision = Decision.IGNORED
        writer.commit(rows, marks(first + 2), 0)
    return path


def source(journal: Path, *receivers: str, since: FirstNamed | None = None) -> JournalSource:
    return JournalSource({"ledger": journal}, records(*receivers), NoControl(), since or FirstNamed())  # type: ignore[arg-type]


def held_by(subject: JournalSource) -> Held:
    return subject.log().read_held_offsets(subject.topics)


def backlog(journal: Path, marks: Marks) -> list[list[tuple[str, int]]]:
    tables = source(journal).read_backlog(marks)
    return [[(one.topic, one.offset) for one in read_table(table)] for table in tables]


def test_a_new_receiver_begins_with_what_is_applied_from_now_on(journal: Path) -> None:
    held = held_by(source(journal))
    assert held[SHOP] == held[BANK] == {0: (1, 13)}
    assert source(journal).find_start_marks(None, held) == {"payments.control": {0: 0}, SHOP: {0: 13}, BANK: {0: 13}}
    assert backlog(journal, {SHOP: {0: 13}, BANK: {0: 13}}) == []


def test_what_is_applied_while_the_stream_takes_its_time_to_begin_is_for_those_who_were_named_before(
    journal: Path, tmp_path: Path
) -> None:
    since = FirstNamed()
    since.note_receivers([SHOP], tmp_path / "not-begun")
    since.note_receivers([SHOP, BANK], journal)
    subject = source(journal, since=since)
    assert subject.find_start_marks(None, held_by(subject))[SHOP] == {0: 1}
    assert subject.find_start_marks(None, held_by(subject))[BANK] == {0: 13}


def test_a_receiver_never_begins_beyond_the_journals_end(journal: Path) -> None:
    """It was made again, shorter, since the receiver was named."""
    since = FirstNamed()
    since.note_receivers([SHOP], journal)
    assert since.start(SHOP, following=4) == 4


def test_the_backlog_is_what_was_applied_since_the_slowest_mark_in_seq_order(journal: Path) -> None:
    ((*found,),) = backlog(journal, {SHOP: {0: 8}, BANK: {0: 11}})
    assert found == [(SHOP, 8), (BANK, 8), (SHOP, 10), (BANK, 10), (SHOP, 11), (BANK, 11)]


def test_what_took_a_booking_back_is_a_record_and_the_command_that_ordered_it_is_not(journal: Path) -> None:
    writer = begin_journal(str(journal))
    command = row(13, mode="live", decision=Decision.REVERSED)
    entry = row(14, item_seq=11, first=False, mode="live", decision=Decision.REVERSED)
    writer.commit([command, entry], marks(13), 0)
    ((*found,),) = backlog(journal, {SHOP: {0: 11}, BANK: {0: 12}})
    assert found == [(SHOP, 11), (BANK, 11), (SHOP, 14), (BANK, 14)]


def test_a_reversal_has_a_key_and_a_type_of_its_own_in_the_line_of_what_it_reverses() -> None:
    applied = row(7, mode="live", event_type="charge.succeeded")
    entry = replace(applied, seq=9, first=False, decision=Decision.REVERSED)
    before, after = (
        from_record(record.value, record.headers).event
        for record in read_table(records("shop").make_table("ledger", [applied, entry]))
    )
    assert (before.event_type, after.event_type) == ("charge.succeeded", "payhook.reversed")
    assert after.event_key == f"{before.event_key}:reversed"
    assert after.entity_key == before.entity_key
    assert [json.loads(event.body)["decision"] for event in (before, after)] == ["applied", "reversed"]


def test_a_shard_that_began_as_a_copy_is_read_from_its_first_own_row_and_after_the_other_one(
    journal: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(journal, copy)
    JournalWriter.create_or_open(str(copy), "ledger.1").divide_journal("payments.events", Shard(1, 2), NOW, "b" * 32)
    for path, stream, number, offset in ((journal, "ledger", 0, 12), (copy, "ledger.1", 1, 0)):
        writer = JournalWriter.create_or_open(str(path), stream)
        writer.begin_epoch({"payments.events": {number: offset}})
        decided = row(13, offset, partition=number, mode="live")
        writer.commit([decided], {"payments.events": {number: offset + 1}}, 0)
    both = FeedRecords("notify", ["ledger", "ledger.1"], OwnFeed("notify"), ["shop"])
    journals = {"ledger": journal, "ledger.1": copy}
    subject = JournalSource(journals, both, NoControl(), FirstNamed())  # type: ignore[arg-type]
    known = notify(tmp_path / "notify", journal, 7, 8, 10)
    starts = subject.find_start_marks(known, held_by(subject))
    other = "journal.ledger.1/shop"
    assert starts[other] == {0: 13}
    assert subject.find_start_marks(None, held_by(subject))[other] == {0: 14}, (
        "a new receiver begins where the journals end"
    )
    tables = list(subject.read_backlog({SHOP: {0: 11}, other: starts[other]}))
    found = [(one.topic, one.offset) for table in tables for one in read_table(table)]
    assert found == [(SHOP, 11), (SHOP, 13), (other, 13)]


def test_a_long_backlog_comes_in_pieces(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_source, "RECORDS_PER_BATCH_MAX", 6)
    pieces = backlog(journal, {SHOP: {0: 1}, BANK: {0: 1}})
    assert [len(piece) for piece in pieces] == [6, 6, 4]
    assert [offset for piece in pieces for topic, offset in piece if topic == SHOP] == [1, 2, 4, 5, 7, 8, 10, 11]


def notify(path: Path, journal: Path, *seqs: int) -> JournalState:
    """The reading stream's journal after it decided what these rows of the source became, for the shop."""
    rows = JournalReader(str(journal)).rows_of(seqs)
    found = read_table(records("shop").make_table("ledger", rows))
    events = [from_record(record.value, record.headers).event for record in found]
    writer = JournalWriter.create_or_open(str(path), "notify")
    writer.begin_epoch({SHOP: {0: seqs[0]}})
    decided = [
        row(
            at,
            one.seq,
            topic=SHOP,
            event_key=event.event_key,
            body_sha256=event.body_sha256,
            received_at=one.decided_at,
        )
        for at, (one, event) in enumerate(zip(rows, events, strict=True), 1)
    ]
    writer.commit(decided, {SHOP: {0: seqs[-1] + 1}}, 0)
    return JournalReader(str(path)).state()


def looked_at(path: Path, subject: JournalSource) -> None:
    reader = JournalReader(str(path))
    check_history("notify", reader.state(), reader, subject.log(), subject.topics)


def test_a_journal_that_holds_what_was_read_of_it_is_gone_on_with(journal: Path, tmp_path: Path) -> None:
    """However a feed words its records by now."""
    state = notify(tmp_path / "notify", journal, 7, 8, 10)
    reader = JournalReader(str(tmp_path / "notify"))
    reworded = replace(reader.rows_of([3])[0], body_sha256="0" * 64)
    log = source(journal, "shop").log()
    looked_at(tmp_path / "notify", source(journal, "shop"))
    assert list(find_other_records([reworded], log, log.read_held_offsets([SHOP]))) == []
    assert state.marks[SHOP] == {0: 11}


def test_a_journal_that_ends_before_a_mark_is_refused(journal: Path, tmp_path: Path) -> None:
    shutil.copytree(journal, tmp_path / "older")
    writer = begin_journal(str(journal))
    writer.commit([row(seq, mode="live") for seq in (13, 14)], marks(14), 0)
    notify(tmp_path / "notify", journal, 13, 14)
    with pytest.raises(HistoryRefused, match="offset 15 is next, the journal ends before 13"):
        looked_at(tmp_path / "notify", source(tmp_path / "older", "shop"))


def test_a_journal_that_is_gone_disagrees_from_its_first_row_on(journal: Path, tmp_path: Path) -> None:
    state = notify(tmp_path / "notify", journal, 7, 8)
    subject, reader = source(journal, "shop"), JournalReader(str(tmp_path / "notify"))
    shutil.rmtree(journal)
    [parted] = find_losses("notify", state, reader, subject.log(), subject.topics).parted
    assert (parted.partings[0].high, parted.partings[0].begins) == (1, 1)


def test_a_journal_that_went_back_and_grew_past_the_mark_is_refused_and_it_is_known_from_where(
    journal: Path, tmp_path: Path
) -> None:
    older = tmp_path / "older"
    shutil.copytree(journal, older)
    for path, at in ((journal, NOW), (older, NOW + timedelta(minutes=1))):
        writer = begin_journal(str(path))
        writer.commit([row(seq, mode="live", decided_at=at) for seq in range(13, 18)], marks(17), 0)
    notify(tmp_path / "notify", journal, 10, 11, 13, 14)
    subject, reader = source(older, "shop"), JournalReader(str(tmp_path / "notify"))
    with pytest.raises(HistoryRefused, match="offset 14 holds another record than the one that row 4 decided"):
        looked_at(tmp_path / "notify", subject)
    findings = find_losses("notify", reader.state(), reader, subject.log(), subject.topics)
    ((parting,),) = [parted.partings for parted in findings.parted]
    assert (parting.topic, parting.until, parting.begins, parting.decided_beyond) == (SHOP, 15, 13, 2)


def test_a_row_that_became_no_record_is_another_one(journal: Path) -> None:
    """Every third row of the journal was ignored."""
    log = source(journal, "shop").log()
    assert list(log.records_at([(SHOP, 0, 8), (SHOP, 0, 9), (SHOP, 0, 99)])) == [(SHOP, 0, 8)]


def test_a_batch_holds_kafkas_records_and_the_journals_side_by_side(journal: Path) -> None:
    subject = source(journal, "shop")
    columns = records("shop").columns
    rows = to_arrow([row(8, mode="live"), row(7, mode="live")]).select(columns)
    beside = rows.rename_columns([f"journal_{name}" for name in columns])
    beside = beside.append_column("journal_source", pa.array(["ledger"] * 2))
    command = pa.Table.from_pylist(
        [{"topic": "payments.control", "partition": 0, "offset": 3, "value": b"{}", "headers": []}], RECORD_SCHEMA
    )
    tick = pa.Table.from_pylist([dict.fromkeys(RECORD_SCHEMA.names)], RECORD_SCHEMA)
    batch = pa.concat_tables([command, beside, tick], promote_options="default")
    found = read_table(subject.records(batch))
    assert [(one.topic, one.offset) for one in found] == [("payments.control", 3), (SHOP, 7), (SHOP, 8)]
    assert read_table(subject.records(batch.slice(3))) == []


def test_a_record_goes_on_with_its_rows_trace_where_traces_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = f"00-{'4b' * 16}-00f067aa0ba902b7-01"
    traced = replace(row(7, mode="live"), headers=json.dumps({"traceparent": sent}, separators=(",", ":")))
    assert "headers" not in records().columns
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    assert "headers" in records().columns
    (goes_on, _, plain, _) = read_table(records().make_table("ledger", [traced, row(8, mode="live")]))
    of_the_try = with_span(sent, span_id_of(traced.event_key or "", 0)).encode()
    assert ("traceparent", of_the_try) in goes_on.headers
    assert "traceparent" not in dict(plain.headers)
