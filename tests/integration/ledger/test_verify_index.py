"""The key index knows what the journal says: what it lacks, has too much, or holds otherwise is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace

import pytest

from core.decision import Decision
from core.keys import hash_key
from journal import index_layout as layout
from journal.bodies import BodyStore
from journal.index import Index
from journal.reader import JournalReader
from journal.schema import JournalRow
from ledger.verify import Options
from tests.integration.ledger.conftest import EVENTS, Verify, World, body_of, booking, fact, later_row, new_row
from tests.integration.ledger.findings import problems, wrong


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda index: index._store._db.delete(b"e" + hash_key("stripe:evt_1:charge")), "doesn't know an event key"),
        (
            lambda index: index._store._db.put(b"e" + hash_key("stripe:evt_1:charge"), b"x" * 9),
            "event key with other content",
        ),
        (
            lambda index: index._store._db.put(b"e" + hash_key("stripe:evt_x:charge"), b"x" * 9),
            "another number of event",
        ),
        (lambda index: index._store._db.delete(b"f" + hash_key("stripe:ch_1")), "doesn't know an applied fact"),
        (lambda index: index._store._db.put(b"f" + hash_key("stripe:ch_1"), b"x" * 8), "fact with other content"),
        (lambda index: index._store._db.put(b"f" + hash_key("stripe:ch_x"), b"x" * 8), "another number of fact"),
        (lambda index: index._store._db.delete(b"i" + (12).to_bytes(8, "big")), "doesn't hold an open item"),
    ],
)
def test_an_index_that_is_not_the_journals_is_named(
    report: Verify, world: World, change: Callable[[Index], None], problem: str
) -> None:
    world.index(change)
    assert problem in problems(wrong(report, "index_equals_journal"))


def test_an_index_that_lags_is_judged_by_its_own_mark(report: Verify, world: World) -> None:
    """The processor is between its commit and the index: that is lag, no offence."""
    shutil.rmtree(world.lake.index)
    index = Index.open(world.lake.index, 1)
    first = [row for row in world.rows if row.batch_seq == 1]
    index.apply_rows(first, {row.body_sha256: body_of(row) for row in first if row.body_sha256})
    index.close()
    found = report("index_equals_journal")
    assert found.ok, found.as_json()
    figures = next(one for one in found.findings if one.name == "index_equals_journal").figures
    assert (figures["seq"], figures["behind"]) == (6, 8)


def test_the_fact_of_an_unknown_undo_is_the_indexs_too(report: Verify, world: World) -> None:
    undo = new_row(
        15, EVENTS, 2, 9, Decision.UNKNOWN, "evt_undo", batch_seq=9, pair="-stripe:po_9:5:EUR", **fact("po_9")
    )
    world.rows.append(undo)
    world.state = replace(world.state, next_seq=16)
    world.rewrite()
    world.index(lambda index: index.apply_rows([undo], {undo.body_sha256 or "": body_of(undo)}))
    [found] = report("index_equals_journal").findings
    assert found.ok, found.offenders


def test_an_index_ahead_of_the_journal_is_named(report: Verify, world: World) -> None:
    """The journal's end was cut off: what was derived from it remembers."""
    cut = [row for row in world.rows if row.seq <= 11]
    world.rows = cut
    world.state = replace(world.state, next_seq=12, marks={**world.state.marks, EVENTS: {0: 104, 1: 4}})
    world.rewrite()
    assert "ahead of the journal" in problems(wrong(report, "index_equals_journal"))


DONE, EARLY, TWICE = (f"stripe:po_{name}:payout_paid:500:EUR" for name in ("done", "early", "twice"))


def rows_with_pairs() -> list[JournalRow]:
    """A movement that was undone, two undos before their movement, and one movement that is booked twice."""

    def new(seq: int, decision: Decision, **more: object) -> JournalRow:
        return new_row(seq, EVENTS, 2, seq, decision, f"evt_{seq}", batch_seq=9, **fact(f"po_{seq}"), **more)

    booked, taken = booking(capture=False), {"attempt": 1, "error_class": "Slow", "due_at": None}
    undo, dead = new(17, Decision.UNKNOWN, pair=f"-{EARLY}"), new(21, Decision.DEAD, **taken)
    return [
        new(15, Decision.APPLIED, pair=f"+{DONE}", postings=booked),
        new(16, Decision.APPLIED, pair=f"-{DONE}", postings=booking(capture=True)),
        undo,
        new(18, Decision.UNKNOWN, pair=f"-{EARLY}"),
        new(19, Decision.APPLIED, pair=f"+{EARLY}", reason="books nothing: the undo of it came first"),
        new(20, Decision.APPLIED, pair=f"+{TWICE}", postings=booked),
        dead,
        later_row(undo, 22, Decision.REPLAYED),
        later_row(undo, 23, Decision.DUPLICATE_FACT),
        later_row(dead, 24, Decision.REPLAYED),
        later_row(dead, 25, Decision.APPLIED, pair=f"+{TWICE}", postings=booked),
    ]


@pytest.fixture
def with_pairs(world: World) -> World:
    rows = rows_with_pairs()
    world.rows += rows
    world.state = replace(world.state, next_seq=26)
    world.rewrite()
    world.index(lambda index: index.apply_rows(rows, {row.body_sha256 or "": body_of(row) for row in rows}))
    return world


def keep_count(pair: str, count: int | None) -> Callable[[Index], None]:
    key = layout.PAIR + hash_key(pair)
    if count is None:
        return lambda index: index._store._db.delete(key)
    return lambda index: index._store._db.put(key, layout.COUNT.pack(count))


@pytest.mark.parametrize("made_again", [False, True])
def test_an_index_that_counts_pairs_as_the_journal_does_holds(
    report: Verify, with_pairs: World, made_again: bool
) -> None:
    if made_again:
        shutil.rmtree(with_pairs.lake.index)
        bodies = BodyStore(str(with_pairs.lake.bodies_table))
        with_pairs.index(lambda index: index.catch_up(JournalReader(str(with_pairs.lake.journal)), bodies))
    counts: dict[str, int] = {}
    with_pairs.index(lambda index: counts.update(index.booked_of([DONE, EARLY, TWICE])))
    assert counts == {DONE: 0, EARLY: -1, TWICE: 2}
    [found] = report("index_equals_journal").findings
    assert found.ok, found.offenders


@pytest.mark.parametrize(
    ("pair", "count", "offender"),
    [
        (DONE, 1, {"index": 1, "journal": 0, "pair": DONE}),
        (EARLY, 0, {"index": 0, "journal": -1, "pair": EARLY}),
        (EARLY, None, {"index": 0, "journal": -1, "pair": EARLY}),
        (TWICE, 1, {"index": 1, "journal": 2, "pair": TWICE}),
        (TWICE, -(1 << 63), {"index": -(1 << 63), "journal": 2, "pair": TWICE}),
        ("of no row", 1, {"index": 1, "journal": 0, "pair": f"hash {hash_key('of no row').hex()}"}),
    ],
)
def test_an_index_that_counts_a_pair_otherwise_is_named(
    report: Verify, with_pairs: World, pair: str, count: int | None, offender: dict[str, object]
) -> None:
    with_pairs.index(keep_count(pair, count))
    assert list(wrong(report, "index_equals_journal").offenders) == [
        {"problem": "the index has another count of a pair's movements less its undos", **offender}
    ]


@pytest.mark.parametrize(("pair", "count"), [(DONE, None), ("of no row", 0)])
def test_a_count_of_zero_is_as_good_as_none(report: Verify, with_pairs: World, pair: str, count: int | None) -> None:
    with_pairs.index(keep_count(pair, count))
    [found] = report("index_equals_journal").findings
    assert found.ok, found.offenders


def test_of_the_newest_rows_alone_nothing_is_said_of_counts(report: Verify, with_pairs: World) -> None:
    with_pairs.index(keep_count(DONE, 1))
    [found] = report("index_equals_journal", options=Options(since=15)).findings
    assert found.ok and "counts of pairs" in (found.unknown or ""), found
