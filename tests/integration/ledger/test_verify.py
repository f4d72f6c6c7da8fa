"""Each invariant holds on a clean lake and names the corruption that is planted against it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from core.clock import ManualClock
from core.decision import Decision
from core.keys import hash16
from dlq.record import build_record
from journal.chain import GENESIS
from journal.index import Index
from journal.schema import JournalRow
from ledger.settings import VerifySettings
from ledger.verify import Finding, Report, VerifyImpossible, verify
from ledger.verify.job import INVARIANTS
from tests.integration.ledger.conftest import AT, CONTROL, DLQ, EVENTS, KEYS, World, body_of, booking, later_row

Verify = Callable[..., Report]


@pytest.fixture
def report(spark: SparkSession, world: World) -> Verify:
    """Verifies the world: by every invariant, or by the one that is named."""

    def check(name: str | None = None) -> Report:
        chosen = [invariant for invariant in INVARIANTS if name in (None, invariant.name)]
        clock = ManualClock(AT + timedelta(minutes=5))
        return verify(spark, world.lake, world.kafka, KEYS, VerifySettings(), clock, chosen)

    return check


def failed(report: Report) -> dict[str, Finding]:
    return {finding.name: finding for finding in report.findings if not finding.ok}


def only(report: Report, name: str) -> Finding:
    """The one finding that isn't fine."""
    assert set(failed(report)) == {name}, report.as_json()
    return failed(report)[name]


def problems(finding: Finding) -> str:
    return " ".join(str(offender.get("problem", "")) for offender in finding.offenders)


def test_a_clean_lake_verifies(report: Verify) -> None:
    found = report()
    assert found.ok, found.as_json()
    assert found.seq == 14
    figures = {finding.name: finding.figures for finding in found.findings}
    assert figures["offsets_accounted"] == {"offsets": 11}
    assert figures["in_flight"]["waiting"] == 2
    assert figures["in_flight"]["dead"] == 2
    assert figures["index_equals_journal"] == {"seq": 14, "behind": 0, "event": 9, "open": 4, "dead": 2}
    assert figures["postings_equal_journal"]["mark"] == 11
    assert figures["chain_whole"] == {"commits": 3}


def test_the_report_names_each_invariant_once_and_is_json(report: Verify) -> None:
    names = [finding.name for finding in report().findings]
    assert names == [invariant.name for invariant in INVARIANTS]
    assert len(set(names)) == len(names)


def test_derived_tables_that_are_gone_are_no_offence(report: Verify, world: World) -> None:
    """They can be made again from the journal; a start does it."""
    shutil.rmtree(world.lake.index)
    shutil.rmtree(world.lake.postings)
    assert report().ok


def test_no_journal_is_said_plainly(report: Verify, world: World) -> None:
    shutil.rmtree(world.lake.journal)
    with pytest.raises(VerifyImpossible, match="no journal"):
        report()


# offsets_accounted


def test_an_offset_without_a_decision_is_named(report: Verify, world: World) -> None:
    world.row(8).offset = 1_000_000
    world.row(8).first = False
    world.rewrite()
    found = failed(report())["offsets_accounted"]
    assert {"problem": "an offset with no first row", "topic": EVENTS, "partition": 0, "offset": 103} in found.offenders


def test_an_offset_with_two_first_decisions_is_named(report: Verify, world: World) -> None:
    world.row(8).offset = 102
    world.rewrite()
    found = only(report(), "offsets_accounted")
    assert [(one["offset"], one["problem"]) for one in found.offenders] == [
        (102, "an offset with several first rows"),
        (103, "an offset with no first row"),
    ]


def test_a_mark_beyond_the_rows_is_named(report: Verify, world: World) -> None:
    """The end of a partition was lost: the mark says that offsets were decided which have no row."""
    world.state.marks[EVENTS][1] = 6
    world.kafka.held[EVENTS][1] = (0, 6)
    world.rewrite()
    assert only(report(), "offsets_accounted").offenders[0]["offset"] == 5


def test_rows_beyond_the_mark_are_named(report: Verify, world: World) -> None:
    world.state.marks[EVENTS][1] = 4
    world.rewrite()
    assert "beyond the marks" in problems(only(report(), "offsets_accounted"))


def test_rows_of_a_partition_without_a_mark_are_named(report: Verify, world: World) -> None:
    del world.state.marks[CONTROL]
    world.rewrite()
    assert "without a mark" in problems(only(report(), "offsets_accounted"))


def test_decided_offsets_that_kafka_never_had_are_named(report: Verify, world: World) -> None:
    """The topic was made anew under a journal that remembers the old one."""
    world.kafka.held[EVENTS][0] = (0, 3)
    assert "never had" in problems(only(report(), "offsets_accounted"))


# in_flight


def test_what_waits_in_kafka_is_counted_and_is_no_offence(report: Verify, world: World) -> None:
    world.kafka.held[EVENTS][0] = (0, 111)
    world.kafka.held[EVENTS][2] = (0, 3)
    found = report()
    assert found.ok
    assert next(one for one in found.findings if one.name == "in_flight").figures["undecided"] == 9


def test_an_offset_that_waits_too_long_is_named(report: Verify, world: World) -> None:
    world.kafka.held[EVENTS][0] = (0, 106)
    world.kafka.written_at = AT - timedelta(days=2)
    found = only(report(), "in_flight")
    assert (found.offenders[0]["partition"], found.offenders[0]["offset"]) == (0, 105)


def test_an_event_that_is_parked_too_long_is_named(report: Verify, world: World) -> None:
    world.row(13).received_at = AT - timedelta(days=2)
    world.rewrite()
    assert only(report(), "in_flight").offenders[0]["item_seq"] == 13


def test_undecided_offsets_that_kafka_dropped_are_named(report: Verify, world: World) -> None:
    world.kafka.held[EVENTS][0] = (110, 120)
    assert only(report(), "in_flight").offenders[0]["lost"] == [105, 110]


# one effect


def test_an_event_that_took_effect_twice_is_named(report: Verify, world: World) -> None:
    world.row(2).decision = Decision.APPLIED
    world.row(2).fact_key = None
    world.rewrite()
    found = failed(report())["one_effect_per_event_key"]
    assert (found.offenders[0]["event_key"], found.offenders[0]["applied"]) == ("stripe:evt_1:charge", 2)


def test_a_key_that_was_held_twice_is_named(report: Verify, world: World) -> None:
    """A second copy passed deduplication, even though its handler then booked nothing."""
    world.row(2).decision = Decision.IGNORED
    world.rewrite()
    assert failed(report())["one_effect_per_event_key"].offenders[0]["held"] == 2


def test_a_duplicate_of_nothing_is_named(report: Verify, world: World) -> None:
    """An event that was called a duplicate while no copy of it was kept is a lost event."""
    world.row(8).decision = Decision.DUPLICATE
    world.rewrite()
    assert failed(report())["one_effect_per_event_key"].offenders[0]["event_key"] == "stripe:evt_5:charge"


def test_a_duplicate_before_its_first_copy_is_named(report: Verify, world: World) -> None:
    first, copy = world.row(1), world.row(2)
    for name in ("seq", "item_seq", "offset"):
        mine, theirs = getattr(first, name), getattr(copy, name)
        setattr(first, name, theirs)
        setattr(copy, name, mine)
    world.rewrite()
    assert "one_effect_per_event_key" in failed(report())


def test_a_fact_that_was_booked_under_two_events_is_named(report: Verify, world: World) -> None:
    world.row(3).decision = Decision.APPLIED
    world.rewrite()
    found = only(report(), "one_effect_per_fact_key")
    assert (found.offenders[0]["fact_key"], found.offenders[0]["applied"]) == ("stripe:ch_1", 2)


def test_a_duplicate_fact_that_nobody_booked_is_named(report: Verify, world: World) -> None:
    world.row(3).fact_key = "stripe:ch_9"
    world.rewrite()
    assert only(report(), "one_effect_per_fact_key").offenders[0]["applied"] == 0


def test_a_decision_after_the_closing_one_is_named(report: Verify, world: World) -> None:
    again = later_row(world.row(11), 14, Decision.IGNORED, postings=None)
    again.batch_seq, again.epoch = world.row(14).batch_seq, world.row(14).epoch
    world.rows[-1] = again
    world.rewrite()
    found = failed(report())["items_close_once"]
    assert (found.offenders[0]["item_seq"], found.offenders[0]["closings"]) == (6, 2)


def test_a_decision_on_an_item_that_was_never_open_is_named(report: Verify, world: World) -> None:
    world.row(14).item_seq = 8
    world.rewrite()
    assert failed(report())["items_close_once"].offenders[0]["item_seq"] == 8


# one mode


@pytest.mark.parametrize("mode", ["test", None])
def test_an_event_of_another_mode_is_named(report: Verify, world: World, mode: str | None) -> None:
    world.row(2).mode = mode
    world.rewrite()
    found = only(report(), "one_mode")
    assert [(one["seq"], one["mode"]) for one in found.offenders] == [(2, mode)]


def test_a_refused_record_has_neither_mode_nor_key_and_is_no_offence(report: Verify, world: World) -> None:
    world.row(2).mode = world.row(2).event_key = None
    world.rewrite()
    assert "one_mode" not in failed(report())


def test_a_test_ledger_is_held_to_its_own_mode(report: Verify, world: World) -> None:
    """The whole live lake under the test stream's name: everything in it is of the wrong mode."""
    world.lake = replace(world.lake, stream="ledger-test")
    assert len(failed(report("one_mode"))["one_mode"].offenders) == VerifySettings().sample_max


# bookings


@pytest.mark.parametrize(
    "postings",
    [
        '[{"account":"a:b:c","side":"debit","amount_minor":1,"currency":"EUR"}]',
        '[{"account":"a:b:c","side":"debit","amount_minor":2,"currency":"EUR"},'
        '{"account":"a:b:d","side":"credit","amount_minor":1,"currency":"EUR"}]',
        '[{"account":"a:b:c","side":"debit","amount_minor":1,"currency":"EUR"},'
        '{"account":"a:b:d","side":"credit","amount_minor":1,"currency":"USD"}]',
        '[{"account":"a:b:c","side":"debit","amount_minor":-1,"currency":"EUR"},'
        '{"account":"a:b:d","side":"credit","amount_minor":-1,"currency":"EUR"}]',
        '[{"account":"a:b:c","side":"left","amount_minor":1,"currency":"EUR"},'
        '{"account":"a:b:d","side":"credit","amount_minor":1,"currency":"EUR"}]',
        "[]",
        "not json",
    ],
)
def test_a_booking_that_does_not_balance_is_named(report: Verify, world: World, postings: str) -> None:
    world.row(9).postings = postings
    world.rewrite()
    assert only(report("balanced"), "balanced").offenders[0]["seq"] == 9


def test_a_booking_of_what_took_no_effect_is_named(report: Verify, world: World) -> None:
    world.row(8).postings = booking(capture=True)
    world.rewrite()
    assert only(report(), "balanced").offenders[0]["seq"] == 8


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda lines: lines.pop(), "a line is missing"),
        (lambda lines: lines.append(dict(lines[0])), "a line is there twice"),
        (lambda lines: lines[0].update(amount_minor=1), "an amount was changed"),
        (lambda lines: lines[0].update(account="merchant:m-2:payable"), "an account was changed"),
        (lambda lines: lines[0].update(merchant="m-2"), "a merchant was changed"),
        (lambda lines: lines[0].update(occurred_at=AT), "a time was changed"),
        (lambda lines: lines.append(lines[0] | {"seq": 12}), "a line was made up"),
        (lambda lines: lines.append(lines[0] | {"seq": 99}), "a line is ahead of the journal"),
    ],
)
def test_postings_that_are_not_the_journals_are_named(
    report: Verify, world: World, change: Callable[[list[dict[str, Any]]], None], name: str
) -> None:
    world.rewrite_postings(change)
    assert only(report("postings_equal_journal"), "postings_equal_journal").offenders, name


# index


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda index: index._store._db.delete(b"e" + hash16("stripe:evt_1:charge")), "doesn't know an event key"),
        (
            lambda index: index._store._db.put(b"e" + hash16("stripe:evt_1:charge"), b"x" * 9),
            "event key with other content",
        ),
        (lambda index: index._store._db.put(b"e" + hash16("stripe:evt_x:charge"), b"x" * 9), "another number of event"),
        (lambda index: index._store._db.delete(b"f" + hash16("stripe:ch_1")), "doesn't know an applied fact"),
        (lambda index: index._store._db.put(b"f" + hash16("stripe:ch_1"), b"x" * 8), "fact with other content"),
        (lambda index: index._store._db.put(b"f" + hash16("stripe:ch_x"), b"x" * 8), "another number of fact"),
        (lambda index: index._store._db.delete(b"i" + (12).to_bytes(8, "big")), "doesn't hold an open item"),
    ],
)
def test_an_index_that_is_not_the_journals_is_named(
    report: Verify, world: World, change: Callable[[Index], None], problem: str
) -> None:
    world.index(change)
    assert problem in problems(only(report("index_equals_journal"), "index_equals_journal"))


def test_an_index_that_lags_is_judged_by_its_own_mark(report: Verify, world: World) -> None:
    """The processor is between its commit and the index: that is lag, no offence."""
    shutil.rmtree(world.lake.index)
    index = Index.open(world.lake.index, 1)
    first = [row for row in world.rows if row.batch_seq == 1]
    index.apply(first, {row.body_sha256: body_of(row) for row in first if row.body_sha256})
    index.close()
    found = report()
    assert found.ok, found.as_json()
    figures = next(one for one in found.findings if one.name == "index_equals_journal").figures
    assert (figures["seq"], figures["behind"]) == (6, 8)


def test_an_index_ahead_of_the_journal_is_named(report: Verify, world: World) -> None:
    """The journal's end was cut off: what was derived from it remembers."""
    cut = [row for row in world.rows if row.seq <= 11]
    world.rows = cut
    world.state = replace(world.state, next_seq=12, marks={**world.state.marks, EVENTS: {0: 104, 1: 4}})
    world.rewrite()
    assert "ahead of the journal" in problems(failed(report())["index_equals_journal"])


# dlq


def test_a_dead_letter_that_never_arrived_is_named(report: Verify, world: World) -> None:
    world.kafka.letters = [one for one in world.kafka.letters if one.seq != 10]
    assert only(report(), "dlq_equals_open_dead").offenders[0]["seq"] == 10


def test_a_dead_letter_may_arrive_twice_or_early_or_by_reference(report: Verify, world: World) -> None:
    world.kafka.letters += world.kafka.letters
    world.kafka.letters.append(build_record(world.row(12), body_of(world.row(12)), "g"))
    world.kafka.letters[0] = build_record(world.row(4), b"", "g", by_reference=True)
    assert report().ok


def test_a_record_of_what_is_not_dead_is_named(report: Verify, world: World) -> None:
    world.kafka.letters.append(build_record(world.row(1), body_of(world.row(1)), "g"))
    assert only(report(), "dlq_equals_open_dead").offenders[0]["seq"] == 1


def test_a_record_that_nobody_here_wrote_is_named(report: Verify, world: World) -> None:
    world.kafka.letters.append(replace(world.kafka.letters[0], headers=[("payhook.seq", b"x")]))
    assert only(report(), "dlq_equals_open_dead").offenders[0]["dead_rows"] == 0


def test_a_record_with_other_bytes_is_named(report: Verify, world: World) -> None:
    world.kafka.letters[0] = replace(world.kafka.letters[0], value=b"forged")
    assert only(report(), "dlq_equals_open_dead").offenders[0]["seq"] == 4


def test_a_record_on_another_partition_is_named(report: Verify, world: World) -> None:
    world.kafka.letters[0] = replace(world.kafka.letters[0], partition=0)
    assert only(report(), "dlq_equals_open_dead").offenders[0]["seq"] == 4


def test_a_dead_letter_that_retention_took_is_no_offence(report: Verify, world: World) -> None:
    kept = [one for one in world.kafka.letters if one.seq != 4]
    world.kafka.letters = kept
    world.kafka.held[DLQ] = {0: (0, 0), 1: (1, 2)}
    world.kafka.written_at = world.row(10).decided_at
    assert report().ok


# chain


def test_a_check_that_cannot_be_run_is_not_passed(report: Verify, world: World) -> None:
    """A file is gone: what rests on it may not come out as held."""
    next(Path(world.lake.postings).glob("*.parquet")).unlink()
    assert "could not be run" in problems(only(report(), "postings_equal_journal"))


@pytest.mark.parametrize(
    "change",
    [
        lambda row: setattr(row, "reason", "nothing to see"),
        lambda row: setattr(row, "decided_at", row.decided_at + timedelta(microseconds=1)),
        lambda row: setattr(row, "headers", '{"ce_id":"a"}'),
        lambda row: setattr(row, "blocking", not row.blocking),
        lambda row: setattr(row, "error_stack", ""),
        lambda row: setattr(row, "row_hash", "0" * 64),
    ],
)
def test_a_row_that_was_edited_is_named(report: Verify, world: World, change: Callable[[JournalRow], None]) -> None:
    change(world.row(8))
    world.rewrite(forge=False)
    found = only(report("chain_whole"), "chain_whole")
    assert {"problem": "rows aren't what their hash says", "seq": 8, "rows": 1} in found.offenders


def test_a_row_that_was_edited_with_its_hash_breaks_the_chain(report: Verify, world: World) -> None:
    chain = world.state.chain
    world.row(8).reason = "nothing to see"
    world.rewrite()
    world.state = replace(world.state, chain=chain)
    world.rewrite(forge=False)
    assert "head" in problems(only(report(), "chain_whole"))


def test_a_commit_of_an_epoch_that_was_over_is_named(report: Verify, world: World) -> None:
    for row in world.rows:
        row.epoch = 2 if row.batch_seq == 1 else 1
    world.rewrite()
    assert "after its successor" in problems(only(report(), "chain_whole"))


def test_a_chain_without_rows_has_the_first_head(report: Verify, world: World) -> None:
    world.state = replace(world.state, chain=GENESIS)
    world.rewrite(forge=False)
    assert "head" in problems(only(report(), "chain_whole"))


# seq


def test_a_row_that_was_removed_is_named(report: Verify, world: World) -> None:
    world.rows = [row for row in world.rows if row.seq != 2]
    world.rewrite()
    found = failed(report())
    assert found["seq_without_gaps"].offenders[0]["rows"] == 5
    assert "offsets_accounted" in found


def test_a_number_that_was_given_twice_is_named(report: Verify, world: World) -> None:
    world.row(9).seq = 8
    world.rewrite()
    assert "aren't numbered once each" in problems(failed(report())["seq_without_gaps"])


def test_a_commit_that_was_removed_is_named(report: Verify, world: World) -> None:
    world.rows = [row for row in world.rows if row.batch_seq != 7]
    world.rewrite()
    assert failed(report())["seq_without_gaps"].offenders[0]["expected"] == 7


def test_rows_that_were_cut_off_at_the_end_are_named(report: Verify, world: World) -> None:
    world.rows = [row for row in world.rows if row.seq <= 11]
    world.rewrite()
    assert "missing at the end" in problems(failed(report())["seq_without_gaps"])


def test_a_sample_of_offenders_is_bounded(spark: SparkSession, world: World) -> None:
    for row in world.rows:
        row.reason = "edited"
        row.postings = "not json"
    world.rewrite(forge=False)
    found = verify(spark, world.lake, world.kafka, KEYS, VerifySettings(sample_max=2), ManualClock(AT))
    assert len(next(one for one in found.findings if one.name == "chain_whole").offenders) == 2
    assert not found.ok
    assert all(len(finding.offenders) <= 2 for finding in found.findings)
