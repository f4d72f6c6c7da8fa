"""Selections that were frozen before an older copy of the journal was put back."""

from __future__ import annotations

import pytest

from core.decision import Decision
from dead_letters.listing import Filter
from journal.target import ItemTarget
from operations.frozen import RunState
from operations.selection.dry_run import ForecastRequest, Verdict
from operations.selection.model import RunRefused, RunRequest
from tests.unit.operations.selection.bench import SelectionBench

PURGE = RunRequest("purge", "test payments of our own")


def deaths(bench: SelectionBench) -> int:
    return sum(row.decision is Decision.DEAD for row in bench.engine.journal.rows)


def test_no_run_of_it_is_begun_and_the_record_says_why(bench: SelectionBench) -> None:
    bench.dead(1)
    older = bench.engine.copy()
    bench.dead(2)
    bench.selections.freeze(Filter(), "ada")
    bench.restore(older)
    bench.dead(2)
    for run in (PURGE, RunRequest("replay", "mended")):
        with pytest.raises(RunRefused, match="the journal was restored since it was frozen"):
            bench.runs.start(1, run, "ada")
        assert "restored" in bench.acts.acts[-1].reason
    with pytest.raises(RunRefused, match="restored"):
        bench.dry_runs.make(1, ForecastRequest())
    bench.round(3)
    assert bench.sent == []
    assert bench.selections.freeze(Filter(), "ada").count == 3
    bench.runs.start(2, PURGE, "ada")
    bench.round(3)
    assert bench.counts(2) == {"purged": 3}


def test_a_run_on_its_way_ends_and_says_why(bench: SelectionBench) -> None:
    bench.dead(4)
    bench.selections.freeze(Filter(), "ada")
    bench.runs.start(1, PURGE, "ada")
    bench.round(1)
    bench.restore(bench.engine.copy())
    bench.round(3)
    progress = bench.selections.progress(1)
    assert (progress.run.state, progress.finished) == (RunState.CANCELLED, True)
    assert "the journal was restored since it began" in str(progress.run.problem)
    assert bench.counts(1) == {"purged": 3, "unsent": 1}
    assert bench.engine.index.dead_count() == 1
    with pytest.raises(RunRefused, match="restored"):
        bench.runs.start(1, PURGE, "ada")


def test_a_run_that_the_older_copy_knows_nothing_of_is_gone_and_its_command_is_refused(bench: SelectionBench) -> None:
    """Kafka kept the command, and the processor reads it again."""
    bench.dead(1)
    older = bench.engine.copy()
    bench.dead(1)
    bench.selections.freeze(Filter(), "ada")
    bench.runs.start(1, PURGE, "ada")
    bench.round(3)
    assert bench.counts(1) == {"purged": 2}
    bench.restore(older)
    bench.dead(1)
    assert bench.selections.get(1).run is None
    bench.send(bench.sent[0])
    bench.decide()
    assert "the journal was restored since" in str(bench.engine.journal.rows[-1].reason)
    assert bench.engine.index.dead_count() == deaths(bench) == 2


def test_a_proposed_run_cannot_be_approved(bench: SelectionBench) -> None:
    bench.dead(2)
    bench.selections.freeze(Filter(), "ada")
    bench.runs.start(1, RunRequest("purge", "garbage", propose=True), "ada")
    bench.restore(bench.engine.copy())
    with pytest.raises(RunRefused, match="restored"):
        bench.runs.approve(1, "bob", "I looked")
    bench.round(2)
    assert bench.engine.index.dead_count() == 2


def test_items_are_frozen_as_they_were_seen(bench: SelectionBench) -> None:
    """One that has another row by now is named by the dry run, and refused when it is decided."""
    bench.dead(2)
    bench.index.follow()
    first, second = (one.target for one in bench.index.page(Filter()).items)
    stale = ItemTarget(second.item_seq, second.seen_seq, "0" * 16)
    bench.selections.freeze(Filter(items=(1, 2)), "ada", "", [first, stale])
    assert [one.target for one in bench.selections.items(1)] == [first, stale]
    bench.dry_runs.make(1, ForecastRequest())
    reported = bench.dry_runs.page(1)
    assert [one.verdict for one in reported] == [Verdict.IN_PLACE, Verdict.MOVED]
    assert "the journal was restored since" in reported[1].why
    bench.runs.start(1, PURGE, "ada")
    bench.round(3)
    assert bench.states(1) == ["purged", "refused"]
    assert bench.selections.items(1)[1].reason == reported[1].why
