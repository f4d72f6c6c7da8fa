"""Ignored and unknown events are selected, looked at and replayed like dead ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from dead_letters.item import ItemState
from dead_letters.listing import Filter, FilterInvalid
from operations.frozen import SPAN_SEQS_MAX, ItemOrder
from operations.selection.dry_run import ForecastRequest, Verdict
from operations.selection.model import RunRefused, RunRequest, SelectionEmpty
from tests.unit.operations.selection.bench import SelectionBench
from tests.unit.processor.fakes import ignored, unknown

IGNORED, UNKNOWN = Filter(states=(ItemState.IGNORED,)), Filter(states=(ItemState.UNKNOWN,))


@pytest.fixture
def bench(tmp_path: Path) -> SelectionBench:
    return SelectionBench(tmp_path)


def passed_over(bench: SelectionBench, *ids: str, entity: str = "") -> list[str]:
    """Events that no handler took, and that one knows by now."""
    keys = [bench.engine.post(event_id, entity or event_id) for event_id in ids]
    bench.engine.handler.script.update(dict.fromkeys(keys, ignored))
    bench.decide()
    bench.engine.handler.script.clear()
    return keys


def test_they_are_frozen_and_replayed_by_a_run_once(bench: SelectionBench) -> None:
    keys = passed_over(bench, "evt_1", "evt_2")
    bench.dead(1)
    frozen = bench.selections.freeze(IGNORED, "ada")
    assert (frozen.count, frozen.state, frozen.unknown_amounts) == (2, "ignored", 2)
    made = bench.dry_runs.make(frozen.number, ForecastRequest())
    assert (dict(made.counts), made.runnable_count) == ({Verdict.IN_PLACE: 2}, 2)
    bench.replay(frozen.number)
    bench.round(4)
    assert bench.states(frozen.number) == ["applied", "applied"]
    assert [bench.engine.decisions(key) for key in keys] == [["ignored", "replayed", "applied"]] * 2
    with pytest.raises(SelectionEmpty):
        bench.selections.freeze(IGNORED, "ada")


def test_unknown_events_are_selected_apart_and_their_run_says_what_became_of_them(bench: SelectionBench) -> None:
    passed_over(bench, "evt_1")
    keys = [bench.engine.post(event_id, event_id) for event_id in ("evt_2", "evt_3")]
    bench.engine.handler.script.update(dict.fromkeys(keys, unknown))
    bench.decide()
    del bench.engine.handler.script[keys[0]]
    assert bench.selections.freeze(IGNORED, "ada").count == 1
    frozen = bench.selections.freeze(UNKNOWN, "ada")
    assert (frozen.count, frozen.state) == (2, "unknown")
    assert dict(bench.dry_runs.make(frozen.number, ForecastRequest()).counts) == {Verdict.IN_PLACE: 2}
    with pytest.raises(RunRefused, match=r"its events are unknown.* a release would do nothing"):
        bench.runs.start(frozen.number, RunRequest("release", "garbage"), "ada")
    bench.replay(frozen.number)
    bench.round(4)
    assert bench.states(frozen.number) == ["applied", "unknown"]
    left = bench.selections.freeze(UNKNOWN, "ada").number
    bench.runs.start(left, RunRequest("purge", "known to move nothing for us"), "ada")
    bench.round(4)
    assert bench.states(left) == ["purged"]
    assert bench.engine.decisions(keys[1]) == ["unknown", "replayed", "unknown", "purged"]
    with pytest.raises(SelectionEmpty):
        bench.selections.freeze(UNKNOWN, "ada")
    with pytest.raises(FilterInvalid, match="text: an unknown event has none"):
        bench.selections.freeze(Filter(states=UNKNOWN.states, text="type"), "ada")


def test_what_is_ignored_again_can_be_selected_again(bench: SelectionBench) -> None:
    [key] = passed_over(bench, "evt_1")
    bench.engine.handler.script[key] = ignored
    for number in (1, 2):
        bench.selections.freeze(IGNORED, "ada")
        bench.replay(number)
        bench.round(4)
        assert bench.states(number) == ["ignored"]


def test_one_that_moved_on_since_it_was_frozen_is_refused_as_the_dry_run_says(bench: SelectionBench) -> None:
    passed_over(bench, "evt_1")
    first, second = (bench.selections.freeze(IGNORED, actor).number for actor in ("ada", "bob"))
    bench.replay(first)
    bench.round(4)
    assert dict(bench.dry_runs.make(second, ForecastRequest()).counts) == {Verdict.MOVED: 1}
    bench.replay(second)
    bench.round(4)
    [shown] = bench.selections.items(second)
    assert (shown.state.value, shown.reason) == ("refused", "item 1 has moved on since row 1; look again")


def test_one_that_later_events_passed_runs_behind_them_as_the_dry_run_says(bench: SelectionBench) -> None:
    [key] = passed_over(bench, "evt_1", entity="e1")
    bench.engine.post("evt_2", "e1")
    bench.decide()
    frozen = bench.selections.freeze(IGNORED, "ada").number
    bench.dry_runs.make(frozen, ForecastRequest())
    [one] = bench.dry_runs.page(frozen)
    assert (one.verdict, one.why) == (Verdict.BEHIND, "a later event was applied: it runs after item 2")
    bench.replay(frozen)
    bench.round(4)
    assert [row.out_of_order for row in bench.engine.journal.rows if row.event_key == key] == [False, True, True]


def test_they_can_be_narrowed_but_not_by_an_error(bench: SelectionBench) -> None:
    passed_over(bench, "evt_1", "evt_2")
    assert bench.selections.freeze(Filter(states=IGNORED.states, entity="evt_2"), "ada").count == 1
    assert bench.selections.freeze(Filter(states=IGNORED.states, providers=("stripe",)), "ada").count == 2
    with pytest.raises(SelectionEmpty):
        bench.selections.freeze(Filter(states=IGNORED.states, types=("payout.paid",)), "ada")
    with pytest.raises(FilterInvalid, match="classes: an ignored event has none"):
        bench.selections.freeze(Filter(states=IGNORED.states, classes=("Stuck",)), "ada")


def test_nothing_of_them_can_be_closed(bench: SelectionBench) -> None:
    passed_over(bench, "evt_1")
    frozen = bench.selections.freeze(IGNORED, "ada").number
    with pytest.raises(RunRefused, match="a purge would do nothing"):
        bench.runs.start(frozen, RunRequest("purge", "garbage"), "ada")


def test_a_portion_spans_no_more_of_the_journal_than_live_traffic_may_wait_for(
    bench: SelectionBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SPAN_SEQS_MAX == 250_000
    monkeypatch.setattr("operations.frozen.SPAN_SEQS_MAX", 3)
    passed_over(bench, *(f"evt_{number}" for number in range(7)))
    frozen = bench.selections.freeze(IGNORED, "ada")
    turns = ItemOrder(bench.selections.files.read(frozen.digest), RunRequest("replay", "").mode)
    assert [turns.end(begin, 5) for begin in (0, 3, 6)] == [3, 6, 7]
