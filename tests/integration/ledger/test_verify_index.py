"""The key index knows what the journal says: what it lacks, has too much, or holds otherwise is named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace

import pytest

from core.decision import Decision
from core.keys import hash16
from journal.index import Index
from tests.integration.ledger.conftest import EVENTS, Verify, World, body_of, fact, new_row
from tests.integration.ledger.findings import problems, wrong


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
    assert problem in problems(wrong(report, "index_equals_journal"))


def test_an_index_that_lags_is_judged_by_its_own_mark(report: Verify, world: World) -> None:
    """The processor is between its commit and the index: that is lag, no offence."""
    shutil.rmtree(world.lake.index)
    index = Index.open(world.lake.index, 1)
    first = [row for row in world.rows if row.batch_seq == 1]
    index.apply(first, {row.body_sha256: body_of(row) for row in first if row.body_sha256})
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
    world.index(lambda index: index.apply([undo], {undo.body_sha256 or "": body_of(undo)}))
    [found] = report("index_equals_journal").findings
    assert found.ok, found.offenders


def test_an_index_ahead_of_the_journal_is_named(report: Verify, world: World) -> None:
    """The journal's end was cut off: what was derived from it remembers."""
    cut = [row for row in world.rows if row.seq <= 11]
    world.rows = cut
    world.state = replace(world.state, next_seq=12, marks={**world.state.marks, EVENTS: {0: 104, 1: 4}})
    world.rewrite()
    assert "ahead of the journal" in problems(wrong(report, "index_equals_journal"))
