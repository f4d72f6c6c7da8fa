"""Whatever happened to a stream's events: what a dry run says of each is what its processor then decides."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from core.decision import Decision
from core.work import MissingPredecessor
from dead_letters.listing import Filter
from journal.open_item import is_other_content
from journal.schema import JournalRow
from journal.target import ItemTarget
from operations.command import ReplayMode
from operations.selection.dry_run import ForecastRequest, ItemForecast, Verdict
from operations.settings import DlqSettings
from processor.settings import DeadHead
from tests.examples import examples
from tests.unit.operations.selection.bench import SelectionBench
from tests.unit.processor.fakes import Stuck
from tests.unit.processor.ordering import run_order

REPLAYS_MAX = 2
BATCHES_MAX = 30

Step = tuple[Any, ...]
POSTS = st.tuples(
    st.just("post"),
    st.integers(0, 3),
    st.sampled_from(["", "", "other", "third"]),
    st.sampled_from(["", "", "bug", "bug", "bug bug bug", "stuck", "missing", "bug missing"]),
    st.sampled_from([None, None, "f1", "f2"]),
)
"""An event by number (each has its entity), its content, its first tries, its fact."""

ACTS = st.tuples(
    st.just("act"),
    st.sampled_from(["replay", "replay", "purge", "purge", "resolve"]),
    st.integers(0, 5),
    st.sampled_from([ReplayMode.ALONE, ReplayMode.ALONE, ReplayMode.WITH_FOLLOWERS]),
)
"""What a person does with which of the open items."""

STEPS = st.lists(st.one_of(POSTS, POSTS, ACTS, st.tuples(st.just("pass"), st.sampled_from([0, 1, 40]))), max_size=14)
ASKED = st.builds(
    ForecastRequest,
    mode=st.sampled_from([*[ReplayMode.ALONE] * 2, ReplayMode.WITH_FOLLOWERS]),
    force=st.booleans(),
)
PURGED_HOLDER: list[Step] = [
    ("post", 0, "", "bug", None),
    ("post", 0, "other", "", None),
    ("act", "purge", 0, ReplayMode.ALONE),
]
"""A key's holder died and was purged; other content lies dead."""


@dataclass
class StreamHistory:
    """What is done to one stream, step by step."""

    bench: SelectionBench

    def do(self, steps: Sequence[Step]) -> None:
        for word, *reported in steps:
            getattr(self, word if word != "pass" else "passes")(*reported)
        self.rest()

    def post(self, number: int, content: str, tries: str, fact: str | None) -> None:
        engine = self.bench.engine
        key = engine.post(f"evt_{number}", f"e{number % 2}", content, fact, ("aa" if number else "bb") * 32)
        if tries:
            _script(self.bench, key, tries.split())
        engine.batch()

    def act(self, action: str, which: int, mode: ReplayMode) -> None:
        items = [item.row for item in self.bench.engine.index.open_items()]
        if items:
            row = items[which % len(items)]
            options = {"mode": mode} if action == "replay" else {}
            run_order(self.bench.engine, action, ItemTarget.of_row(row), **options)

    def passes(self, seconds: float) -> None:
        self.bench.engine.advance(seconds)

    def rest(self) -> None:
        """Until nothing is due; what is due later waits, since no time passes."""
        for _ in range(BATCHES_MAX):
            if not self.bench.engine.batch():
                break
        self.bench.decide()


def _script(bench: SelectionBench, key: str, tries: list[str]) -> None:
    left = list(tries)
    errors = {
        "bug": ZeroDivisionError("bug"),
        "stuck": Stuck("stuck"),
        "missing": MissingPredecessor(key, "its capture"),
    }
    usual = bench.engine.handler

    def act(item: Any) -> Any:
        if left:
            raise errors[left.pop(0)]
        del usual.script[key]
        return usual(item)

    usual.script[key] = act


@pytest.mark.parametrize(
    "dead_head",
    [
        DeadHead.CONTINUE,
        pytest.param(DeadHead.WAIT, marks=pytest.mark.slow),
    ],
)
@settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
@example(before=PURGED_HOLDER, since=[], asked=ForecastRequest())
@given(before=STEPS, since=STEPS, asked=ASKED)
def test_the_dry_runs_word_is_the_processors(
    dead_head: DeadHead, before: list[Step], since: list[Step], asked: ForecastRequest
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = SelectionBench(Path(folder), dead_head=dead_head)
        bench.engine.configure(dlq=DlqSettings(replays_max=REPLAYS_MAX))
        bench.engine.batches._rules = bench.engine.rules
        history = StreamHistory(bench)
        history.do(before)
        assume(bench.engine.index.dead_count() > 0)
        number = bench.selections.freeze(Filter(), "ada").number
        history.do(since)
        asked = replace(asked, dead_head=dead_head.value, replays_max=REPLAYS_MAX)
        bench.dry_runs.make(number, asked)
        reported = list(bench.dry_runs.iterate_forecasts(number))
        _agrees(history, reported, asked)


def _agrees(history: StreamHistory, reported: Sequence[ItemForecast], asked: ForecastRequest) -> None:
    """The same words are said by deciding it, and by what becomes of it then."""
    engine = history.bench.engine
    before = {item.row.item_seq: item.row for item in engine.index.open_items()}
    run = run_order(engine, "replay", *(one.target for one in reported), mode=asked.mode, force=asked.force)
    assert run.portion is not None
    taken = {
        row.item_seq: row
        for row in engine.journal.rows
        if row.decision is Decision.REPLAYED and row.cause_seq == run.portion.seq
    }
    accepted = {one.target.item_seq for one in reported if _is_accepted(one, asked)}
    assert taken.keys() == accepted, (reported, run.refusals)
    for one in reported:
        row = taken.get(one.target.item_seq)
        if one.verdict is Verdict.IN_PLACE:
            assert row is not None and row.blocking, one
        elif one.verdict is Verdict.BEHIND:
            assert row is not None and not row.blocking, one
        elif row is None and one.verdict not in (Verdict.MOVED, Verdict.DONE):
            assert one.why in run.refusals, (one, run.refusals)
    history.rest()
    for one in reported:
        if one.target.item_seq in taken:
            _ends_as_told(history, one, before[one.target.item_seq])


def _ends_as_told(history: StreamHistory, one: ItemForecast, dead: JournalRow) -> None:
    item = history.bench.engine.index.open_item(one.target.item_seq)
    if one.verdict is Verdict.HELD:
        assert item is not None and item.row.decision in (Decision.REPLAYED, Decision.PARKED), one
    elif one.verdict is Verdict.CONFLICT:
        assert item is not None and item.row.error_class == dead.error_class == "FactConflict", one
    else:
        assert item is None or not is_other_content(item.row), one


def _is_accepted(one: ItemForecast, asked: ForecastRequest) -> bool:
    """Two words are of items that are taken, and that it does no good."""
    if one.verdict is Verdict.HELD:
        return asked.dead_head == "wait"
    if one.verdict is Verdict.CONFLICT:
        return "its fact" in one.why
    return one.verdict in (Verdict.IN_PLACE, Verdict.BEHIND, Verdict.POISON)
