"""Journals that were divided among two shards: each holds by itself, and what took effect in both is found."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import orjson
import pytest
from deltalake import DeltaTable

from core.clock import ManualClock, to_rfc3339
from core.decision import Decision, ErrorKind
from core.money import Money
from core.routing import Shard
from dlq.record import DlqRecord, build_record
from journal.anchors import Anchor
from journal.bodies import BodyStore
from journal.index import Index
from journal.journals import own_after
from journal.reader import JournalReader
from journal.schema import JournalRow, TopicRecord
from journal.writer import JournalWriter
from ledger.postings import PostingsWriter
from ledger.verify import Lake, Options, Report, verify
from ledger.verify.engine import SqlEngine
from ledger.verify.evidence import VerifyLimits
from ledger.verify.kafka import Ends
from tests.integration.ledger.conftest import (
    ANCHORS,
    AT,
    CONTROL,
    EVENTS,
    KEYS,
    FakeKafka,
    World,
    body_of,
    booking,
    fact,
    later_row,
    new_row,
    posted,
)
from tests.integration.ledger.findings import failed, only, problems

DIVIDED_AT = AT + timedelta(seconds=14.5)
COPIED = 14
"""Rows that both journals have. Of their four open items the first shard goes on with item 12."""

REFUND = posted("merchant:m-1:refunds", "provider:stripe:clearing", Money(400, "EUR"))
DIED: dict[str, Any] = {"error_class": "MerchantUnknown", "error_message": "none", "error_kind": ErrorKind.SNBE}


@dataclass
class ShardsKafka(FakeKafka):
    """The second shard has a topic of dead letters, and its anchors have its name."""

    second_letters: list[DlqRecord] = field(default_factory=list)
    second_anchors: list[bytes] = field(default_factory=list)

    def find_ends(self, topics: Sequence[str]) -> Ends:
        letters = {0: (0, 0), 1: (0, len(self.second_letters))}
        anchors = {0: (0, len(self.anchors) + len(self.second_anchors))}
        known: Ends = {"dlq.ledger.1": letters, ANCHORS: anchors}
        return {**super().find_ends(topics), **{topic: known[topic] for topic in topics if topic in known}}

    def records(self, topic: str) -> Iterator[tuple[int, TopicRecord]]:
        yield from super().records(topic)
        if topic == "dlq.ledger.1":
            for n, one in enumerate(self.second_letters):
                yield one.partition, TopicRecord(n, one.value, tuple(one.headers))
        if topic == ANCHORS:
            for n, anchor in enumerate(self.second_anchors, len(self.anchors)):
                yield 0, TopicRecord(n, anchor, key=b"ledger.1")


@dataclass
class Shards:
    """Two shards of one ledger; each has been opened by its processor since."""

    lakes: tuple[Lake, Lake]
    kafka: ShardsKafka

    def commit(self, number: int, *rows: JournalRow) -> None:
        """As the processor of a shard does: bodies, journal, index, postings, dead letters."""
        lake = self.lakes[number]
        journal = JournalReader(str(lake.journal)).state()
        writer = JournalWriter.create_or_open(str(lake.journal), lake.stream)
        state = writer.begin_epoch({})
        assert state.next_seq == journal.next_seq
        marks = {topic: dict(partitions) for topic, partitions in state.marks.items()}
        for row in rows:
            row.handler_version = row.handler_version or "ledger-1"
            if row.first:
                marks[row.topic][row.partition] = row.offset + 1
        bodies = {row.body_sha256 or "": body_of(row) for row in rows}
        BodyStore(str(lake.bodies_table)).append(list(bodies.items()))
        writer.commit(list(rows), marks, rows[-1].seq)
        index = Index.open(lake.index, state.epoch)
        index.apply_rows(rows, bodies)
        index.close()
        PostingsWriter.open(str(lake.postings)).follow(rows)
        letters = self.kafka.second_letters if number else self.kafka.letters
        dead = [row for row in rows if row.decision is Decision.DEAD]
        letters += [build_record(row, body_of(row), f"payhook-{lake.stream}") for row in dead]
        self.kafka.decided = [*self.kafka.decided, *rows]
        for sha256, body in bodies.items():
            self.kafka.bodies[sha256] = body
        for topic, partitions in marks.items():
            for partition, until in partitions.items():
                low, high = self.kafka.held[topic][partition]
                self.kafka.held[topic][partition] = low, max(high, until)

    def go_on(self) -> None:
        """Each decides something of its own: the second one continues an item, and gives money back."""
        first, second = ({row.seq: row for row in rows_of(lake)} for lake in self.lakes)
        assert first.keys() == second.keys()
        self.commit(0, decided(0, 15, 105, "evt_14", postings=booking(capture=True), **fact("ch_14")))
        self.commit(
            1,
            later_row(second[5], 15, Decision.APPLIED, blocking=False, postings=None, due_at=None, error_class=None),
            decided(1, 16, 5, "evt_9", entity_key="stripe:acct_1:evt_1", postings=REFUND, **fact("re_1")),
            decided(1, 17, 6, "evt_10", decision=Decision.DEAD, **DIED),
        )


def decided(shard: int, seq: int, offset: int, event: str, **more: Any) -> JournalRow:
    """A first row after the division."""
    decision = more.pop("decision", Decision.APPLIED)
    return new_row(seq, EVENTS, shard, offset, decision, event, history=2, **more)


def rows_of(lake: Lake) -> list[JournalRow]:
    return [row for rows in JournalReader(str(lake.journal)).rows_after(0) for row in rows]


def copied(lake: Lake, other: Lake) -> None:
    """What a division copies, and the start of the table of postings of a journal that began as a copy."""
    for name in ("journal", "bodies_table", "index"):
        shutil.copytree(getattr(lake, name), getattr(other, name))
    postings = PostingsWriter.open(str(other.postings))
    postings._commit_lines(DeltaTable(str(lake.postings)).to_pyarrow_dataset().schema.empty_table(), COPIED)


@pytest.fixture
def unkept(world: World) -> Shards:
    """Divided, and no processor was started since."""
    lakes = world.lake, Lake(world.lake.places.of_shard(1))
    copied(*lakes)
    for number, lake in reversed(list(enumerate(lakes))):
        writer = JournalWriter.create_or_open(str(lake.journal), lake.stream)
        writer.divide_journal(EVENTS, Shard(number, 2), DIVIDED_AT, f"{number:032}" if number else None)
    old = world.kafka
    held = {EVENTS: {0: (0, 105), 1: (0, 5)}, CONTROL: {0: (0, 1)}}
    letters = [*old.letters, build_record(world.row(12), body_of(world.row(12)), "payhook-ledger")]
    return Shards(lakes, ShardsKafka(held, letters, decided=old.decided, bodies=old.bodies))


@pytest.fixture
def shards(unkept: Shards) -> Shards:
    for number, lake in enumerate(unkept.lakes):
        index = Index.open(lake.index, 2)
        index.keep_part(Shard(number, 2))
        index.close()
    return unkept


LookAt = Callable[..., Report]
Look = Callable[..., tuple[Report, Report]]


@pytest.fixture
def look_at(engine: SqlEngine) -> LookAt:
    """Verifies a shard by those invariants that are named, some hours later where that is given."""

    def answer(
        number: int, shards: Shards, *names: str, options: Options | None = None, later: timedelta = timedelta()
    ) -> Report:
        clock = ManualClock(AT + timedelta(minutes=5) + later)
        return verify(engine, shards.lakes[number], shards.kafka, KEYS, VerifyLimits(), clock, options, names=names)

    return answer


@pytest.fixture
def look(look_at: LookAt) -> Look:
    """As `look_at`, both shards."""
    return lambda *asked, **options: (look_at(0, *asked, **options), look_at(1, *asked, **options))


def figures(report: Report, name: str) -> dict[str, Any]:
    return next(one.figures for one in report.findings if one.name == name)


def test_each_shard_holds_by_itself(shards: Shards, look: Look) -> None:
    shards.go_on()
    for report in look(shards):
        assert report.ok, report.as_json()


def test_bodies_and_records_are_whole_in_each(shards: Shards, look: Look) -> None:
    shards.go_on()
    names = ("bodies_whole", "records_are_those_decided")
    for report in look(shards, *names, options=Options(deep=True)):
        assert report.ok, report.as_json()
        assert [one.name for one in report.findings] == list(names)


def test_open_items_are_in_one_of_them(shards: Shards, look: Look) -> None:
    first, second = look(shards, "in_flight", "index_equals_journal")
    assert (figures(first, "in_flight")["waiting"], figures(first, "in_flight")["dead"]) == (0, 1)
    assert (figures(second, "in_flight")["waiting"], figures(second, "in_flight")["dead"]) == (2, 1)
    assert [figures(one, "index_equals_journal")["open"] for one in (first, second)] == [1, 3]


def test_what_another_shard_does_not_decide_is_not_too_old_here(shards: Shards, look: Look) -> None:
    first, second = look(shards, "in_flight", later=timedelta(hours=30))
    assert "in_flight" not in failed(first)
    assert "waited too long" in problems(failed(second)["in_flight"])


def test_it_holds_before_a_processor_forgets_the_items_of_others(unkept: Shards, look: Look) -> None:
    for report in look(unkept, "index_equals_journal", "dlq_equals_open_dead", "anchors_hold"):
        assert report.ok, report.as_json()


def test_an_item_that_an_index_forgot_though_it_is_its_own_is_found(shards: Shards, look_at: LookAt) -> None:
    index = Index.open(shards.lakes[1].index, 3)
    index.keep_part(Shard(0, 2))
    index.close()
    assert "open item" in problems(only(look_at(1, shards, "index_equals_journal"), "index_equals_journal"))


def test_postings_of_rows_from_the_other_journal_are_found(shards: Shards, look_at: LookAt) -> None:
    shards.go_on()
    shutil.rmtree(shards.lakes[1].postings)
    PostingsWriter.open(str(shards.lakes[1].postings)).follow(rows_of(shards.lakes[1]))
    found = only(look_at(1, shards, "postings_equal_journal"), "postings_equal_journal")
    assert {one["seq"] for one in found.offenders} == {1, 9, 11}
    assert {one["journal_minus_postings"] for one in found.offenders} == {-1}


def test_a_copy_leaves_dead_letters_of_earlier_rows_to_the_other_journal(unkept: Shards) -> None:
    """The newest commits don't know yet that theirs were published."""
    first, second = (JournalReader(str(lake.journal)).state() for lake in unkept.lakes)
    assert (first.published_upto, second.published_upto) == (11, COPIED)


def test_dead_letters_of_rows_from_the_other_journal_are_found(shards: Shards, look_at: LookAt) -> None:
    shards.go_on()
    copy = next(row for row in rows_of(shards.lakes[1]) if row.seq == 4)
    shards.kafka.second_letters.append(build_record(copy, body_of(copy), "payhook-ledger"))
    assert [
        one["seq"] for one in only(look_at(1, shards, "dlq_equals_open_dead"), "dlq_equals_open_dead").offenders
    ] == [4]


class TestAnchors:
    def test_those_of_the_earlier_journal_are_not_missed(self, shards: Shards, look_at: LookAt, world: World) -> None:
        lake = shards.lakes[1]
        shards.go_on()
        state = JournalReader(str(lake.journal)).state()
        assert (own_after(state.notes), state.notes.get("anchored")) == (COPIED, None)
        second = World(lake, shards.kafka, rows_of(lake), state)
        second.state = replace(state, notes={**state.notes, "anchored": "11"})
        second.rewrite()
        assert "anchors_hold" not in failed(look_at(1, shards, "anchors_hold"))
        second.state = replace(state, notes={**state.notes, "anchored": "17"})
        second.rewrite()
        assert "are gone" in problems(failed(look_at(1, shards, "anchors_hold"))["anchors_hold"])

    def test_one_of_its_own_is_compared(self, shards: Shards, look_at: LookAt) -> None:
        shards.go_on()
        state = JournalReader(str(shards.lakes[1].journal)).state()
        right = Anchor("ledger.1", state.epoch, 17, state.chain, AT, state.lineage)
        shards.kafka.second_anchors = [KEYS.encode(right)]
        assert not failed(look_at(1, shards, "anchors_hold"))
        shards.kafka.second_anchors = [KEYS.encode(replace(right, chain="0" * 64))]
        assert "isn't what was anchored" in problems(only(look_at(1, shards, "anchors_hold"), "anchors_hold"))


class TestOffsets:
    def test_those_of_another_shards_partition_do_not_wait_here(self, shards: Shards, look: Look) -> None:
        shards.kafka.held[EVENTS][0] = (0, 110)
        first, second = look(shards, "in_flight")
        assert [figures(one, "in_flight")["undecided"] for one in (first, second)] == [5, 0]

    def test_one_that_was_passed_over_is_found(self, shards: Shards, look_at: LookAt) -> None:
        shards.go_on()
        lake = shards.lakes[1]
        second = World(lake, shards.kafka, rows_of(lake), JournalReader(str(lake.journal)).state())
        second.row(17).offset = 7
        second.rewrite()
        assert "offsets_accounted" in failed(look_at(1, shards, "offsets_accounted"))

    def test_another_record_is_found_by_the_shard_that_reads_it(self, shards: Shards, look: Look) -> None:
        shards.go_on()
        of_first = next(row for row in rows_of(shards.lakes[0]) if (row.partition, row.offset) == (0, 104))
        shards.kafka.bodies = {**shards.kafka.bodies, of_first.body_sha256: b"another"}
        first, second = look(shards, "records_are_those_decided", options=Options(deep=True))
        assert "records_are_those_decided" in failed(first)
        assert "records_are_those_decided" not in failed(second)


def receipt(key: str) -> bytes:
    return orjson.dumps(
        {"provider": "stripe", "outcome": "claimed", "status": 200, "at": to_rfc3339(AT), "event_key": key}
    )


def test_the_decision_of_a_receipt_may_be_in_any_shard(shards: Shards, look: Look, look_at: LookAt) -> None:
    shards.go_on()
    names = ("evt_1", "evt_14", "evt_9")
    shards.kafka.receipts = [receipt(f"stripe:{name}:charge") for name in names]
    first, second = look(shards, "receipts_have_decisions", "offsets_accounted")
    assert not failed(first), "each is there"
    assert "receipts_have_decisions" not in {one.name for one in second.findings}, "they are looked at once"
    shards.kafka.receipts.append(receipt("stripe:evt_gone:charge"))
    found = only(look_at(0, shards, "receipts_have_decisions"), "receipts_have_decisions")
    assert [one["event_key"] for one in found.offenders] == ["stripe:evt_gone:charge"]


def test_a_receipt_waits_for_the_slowest_shard(shards: Shards, look_at: LookAt) -> None:
    shards.kafka.receipts = [receipt("stripe:evt_late:charge")]
    assert "receipts_have_decisions" in failed(look_at(0, shards, "receipts_have_decisions"))
    shards.kafka.held[EVENTS][1] = (0, 6)
    shards.kafka.written_at = AT
    assert "receipts_have_decisions" not in failed(look_at(0, shards, "receipts_have_decisions"))


EFFECTS = ("one_effect_in_all_shards", "one_effect_per_event_key", "one_effect_per_fact_key")
PAYMENTS = ("refunds_have_captures", "undos_have_movements")


class TestWhatCrossesShards:
    def test_an_event_that_took_effect_in_both_is_named(self, shards: Shards, look: Look) -> None:
        shards.go_on()
        shards.commit(0, decided(0, 16, 106, "evt_15", postings=booking(capture=True), **fact("ch_15")))
        shards.commit(1, decided(1, 18, 7, "evt_15", entity_key="stripe:acct_1:evt_2", **fact("other")))
        first, second = look(shards, *EFFECTS)
        assert not failed(second), "by itself it holds"
        (offender,) = only(first, "one_effect_in_all_shards").offenders
        assert offender["event_key"] == "stripe:evt_15:charge"
        assert offender["in"] == [{"stream": "ledger", "seq": 16}, {"stream": "ledger.1", "seq": 18}]

    def test_a_movement_that_both_booked_is_named(self, shards: Shards, look: Look) -> None:
        shards.go_on()
        shards.commit(1, decided(1, 18, 7, "evt_12", postings=booking(capture=True), **fact("ch_14")))
        first, second = look(shards, *EFFECTS)
        assert not failed(second)
        (offender,) = only(first, "one_effect_in_all_shards").offenders
        assert offender["fact_key"] == "stripe:ch_14"
        assert offender["in"] == [{"stream": "ledger", "seq": 15}, {"stream": "ledger.1", "seq": 18}]

    def test_what_an_earlier_copy_holds_is_found_in_the_copy_itself(self, shards: Shards, look: Look) -> None:
        shards.go_on()
        shards.commit(1, decided(1, 18, 7, "evt_12", postings=booking(capture=True), **fact("ch_1")))
        first, second = look(shards, *EFFECTS)
        assert "one_effect_per_fact_key" in failed(second)
        assert "one_effect_in_all_shards" in failed(first), "the first one's row is its own"

    @pytest.mark.parametrize(("since", "found"), [(16, True), (AT + timedelta(seconds=16), True), (19, False)])
    def test_only_what_is_recent_is_looked_at_where_that_is_asked(
        self, shards: Shards, look_at: LookAt, since: Any, found: bool
    ) -> None:
        shards.go_on()
        shards.commit(1, decided(1, 18, 7, "evt_12", postings=booking(capture=True), **fact("ch_14")))
        first = look_at(0, shards, *EFFECTS, options=Options(since=since))
        finding = next(one for one in first.findings if one.name == "one_effect_in_all_shards")
        assert (not finding.ok) is found
        assert finding.unknown == "what took effect in both of them earlier"


def test_without_shards_nothing_crosses_them(engine: SqlEngine, world: World) -> None:
    found = verify(engine, world.lake, world.kafka, KEYS, VerifyLimits(), ManualClock(AT + timedelta(minutes=5)))
    assert "one_effect_in_all_shards" not in {one.name for one in found.findings}


@pytest.mark.parametrize("has_postings", [True, False])
def test_a_payment_is_judged_by_its_shard_from_all_lines(shards: Shards, look: Look, has_postings: bool) -> None:
    """Captured before the division, refunded after it: more than was captured is found in the shard, and only there."""
    shards.go_on()
    if not has_postings:
        shutil.rmtree(shards.lakes[0].postings)
    first, second = look(shards, *PAYMENTS)
    assert not (failed(first).keys() | failed(second).keys()) & {"refunds_have_captures", "undos_have_movements"}
    more = posted("merchant:m-1:refunds", "provider:stripe:clearing", Money(700, "EUR"))
    entity = "stripe:acct_1:evt_1"
    shards.commit(1, decided(1, 18, 7, "evt_12", entity_key=entity, postings=more, **fact("re_2")))
    first, second = look(shards, *PAYMENTS)
    assert "refunds_have_captures" not in failed(first)
    (offender,) = failed(second)["refunds_have_captures"].offenders
    assert (offender["entity_key"], offender["refunded"], offender["captured"]) == (entity, 1_100, 1_000)
