"""Selections that were frozen before an older copy of the journal was put back."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from core.decision import Decision
from core.layout import Layout
from dlq.commands import Target, encode
from dlq.index import Filter
from dlq.selection import Asked, DryRuns, Run, RunRefused, RunState, SelectionFile, Verdict
from tests.unit.dlq.selection.bench import SelectionBench
from tests.unit.processor.harness import CONTROL

PURGE = Run("purge", "test payments of our own")


@pytest.fixture
def bench(tmp_path: Path) -> SelectionBench:
    return SelectionBench(tmp_path)


def deaths(bench: SelectionBench) -> int:
    return sum(row.decision is Decision.DEAD for row in bench.engine.journal.rows)


def test_no_run_of_it_is_begun_and_the_record_says_why(bench: SelectionBench) -> None:
    bench.dead(1)
    older = bench.engine.copy()
    bench.dead(2)
    bench.selections.freeze(Filter(), "ada")
    bench.restore(older)
    bench.dead(2)
    for run in (PURGE, Run("replay", "mended")):
        with pytest.raises(RunRefused, match="the journal was restored since it was frozen"):
            bench.selections.start(1, run, "ada")
    with pytest.raises(RunRefused, match="restored"):
        DryRuns(bench.file, bench.board, bench.finder, bench.engine.clock).make(1, Asked())
    bench.round(3)
    assert bench.kafka.sent == []
    assert bench.selections.freeze(Filter(), "ada").count == 3
    bench.selections.start(2, PURGE, "ada")
    bench.round(3)
    assert bench.counts(2) == {"purged": 3}


def test_a_run_on_its_way_ends_and_says_why(bench: SelectionBench) -> None:
    bench.dead(1)
    older = bench.engine.copy()
    bench.dead(3)
    bench.selections.freeze(Filter(), "ada")
    bench.selections.start(1, PURGE, "ada")
    bench.runner.step()
    [sent] = bench.kafka.sent
    assert len(sent.targets) == 3
    bench.restore(older)
    bench.dead(3)
    bench.engine.clock.advance(1.0)
    bench.round(3)
    progress = bench.selections.progress(1)
    assert (progress.run.state, progress.finished) == (RunState.CANCELLED, True)
    assert "the journal was restored since it was frozen" in str(progress.run.problem)
    assert bench.counts(1) == {"refused": 3, "unsent": 1}
    assert all("restored" in str(one.reason) for one in bench.selections.items(1)[:3])
    assert (bench.kafka.sent, deaths(bench)) == ([sent], 4)
    assert bench.engine.index.dead_count() == 4


def test_what_its_run_had_sent_is_refused_by_the_processor(bench: SelectionBench) -> None:
    """Kafka kept the command, and the processor reads it again."""
    bench.dead(1)
    older = bench.engine.copy()
    bench.dead(1)
    bench.selections.freeze(Filter(), "ada")
    bench.selections.start(1, PURGE, "ada")
    bench.round(3)
    assert bench.counts(1) == {"purged": 2}
    bench.restore(older)
    bench.dead(1)
    bench.engine.send(CONTROL, encode(bench.kafka.sent[0]), [])
    bench.decide()
    assert "the journal was restored since" in str(bench.engine.journal.rows[-1].reason)
    assert bench.engine.index.dead_count() == 2


def test_a_proposed_run_cannot_be_approved(bench: SelectionBench) -> None:
    bench.dead(2)
    bench.selections.freeze(Filter(), "ada")
    bench.selections.start(1, Run("purge", "garbage", propose=True), "ada")
    bench.restore(bench.engine.copy())
    with pytest.raises(RunRefused, match="restored"):
        bench.selections.approve(1, "bob", "I looked")
    bench.engine.clock.advance(10.0)
    bench.round(2)
    assert bench.selections.progress(1).run.state is RunState.CANCELLED


def test_items_are_frozen_as_they_were_seen(bench: SelectionBench) -> None:
    """One that has another row by now is told by the dry run, and refused when it is decided."""
    bench.dead(2)
    bench.board.follow()
    first, second = (one.target for one in bench.board.page(Filter()).items)
    stale = Target(second.item_seq, second.seen_seq, "0" * 16)
    bench.selections.freeze(Filter(items=(1, 2)), "ada", "", [first, stale])
    assert [one.target for one in bench.selections.items(1)] == [first, stale]
    bench.selections.start(1, PURGE, "ada")
    bench.round(3)
    assert bench.states(1) == ["purged", "refused"]
    assert "item 2 has another row 2" in str(bench.selections.items(1)[1].reason)


def test_the_dry_run_tells_of_each_item_whether_it_is_another_row(bench: SelectionBench) -> None:
    bench.dead(2)
    bench.board.follow()
    first, second = (one.target for one in bench.board.page(Filter()).items)
    bench.selections.freeze(Filter(), "ada", "", [first, Target(second.item_seq, second.seen_seq, "0" * 16)])
    dry_runs = DryRuns(bench.file, bench.board, bench.finder, bench.engine.clock)
    dry_runs.make(1, Asked())
    told = dry_runs.page(1)
    assert [one.verdict for one in told] == [Verdict.IN_PLACE, Verdict.MOVED]
    assert "the journal was restored since" in told[1].why


def test_what_older_code_froze_can_be_read_and_not_run(bench: SelectionBench, tmp_path: Path) -> None:
    bench.dead(2)
    bench.selections.freeze(Filter(), "ada")
    path = Layout(tmp_path).ledger().selections
    with sqlite3.connect(path) as db:
        db.execute("ALTER TABLE selections DROP COLUMN lineage")
        db.execute("ALTER TABLE items DROP COLUMN seen_hash")
        db.execute("ALTER TABLE runs DROP COLUMN hands")
        db.execute("PRAGMA user_version = 1")
    db.close()
    file = SelectionFile(path)
    with file.reading() as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == 3
    assert [one.target for one in bench.selections.items(1)] == [Target(1, 1, ""), Target(2, 2, "")]
    with pytest.raises(RunRefused, match="restored"):
        bench.selections.start(1, PURGE, "ada")
