"""In every world of a small scope the engine decides what the model says: nothing is left to chance examples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.work import MissingPredecessor
from processor.settings import DeadHead
from tests.unit.processor.harness import Engine
from tests.unit.processor.memory import use_memory
from tests.unit.processor.scopes import SCOPES
from tests.unit.processor.search import Search


@pytest.mark.row("A2")
@pytest.mark.parametrize(
    "policy", [DeadHead.WAIT, pytest.param(DeadHead.CONTINUE, marks=pytest.mark.more(reason="the ledger waits"))]
)
@pytest.mark.parametrize("name", SCOPES)
def test_engine_and_model_agree_in_every_world(
    name: str,
    policy: DeadHead,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    """Until no world is new; `python -m tests.unit.processor.scopes` prints how many there are."""
    use_memory(monkeypatch.setattr)
    search = Search(SCOPES[name](policy))
    search.run()
    record_property("worlds", search.states)
    assert search.states > 100, "the scope lets nothing happen"


def test_an_event_that_was_passed_is_out_of_order_though_it_waits_behind_another_meanwhile(tmp_path: Path) -> None:
    """The second lets the third pass, then waits behind the first, which died: it is known as passed all the same."""
    engine = Engine(tmp_path, dead_head=DeadHead.WAIT)
    first, second, third = (f"stripe:evt_{number}:charge.captured" for number in (1, 2, 3))
    for key in (first, second):
        engine.handler.fails(key, MissingPredecessor(key, "its capture"), times=1)
    engine.post("evt_1")
    engine.batch()
    engine.post("evt_2")
    engine.post("evt_3")
    engine.batch()
    assert engine.decisions(third) == ["applied"]
    engine.handler.fails(first, ZeroDivisionError("division by zero"), times=1)
    engine.advance(2)
    head = [row for row in engine.journal.rows if row.event_key == first][-1]
    assert head.decision.value == "dead"
    engine.command(head.item_seq, head.seq)
    engine.batch()
    assert engine.decisions(second)[-1] == "parked"
    engine.advance(1)
    passed = [row for row in engine.journal.rows if row.event_key == second][-1]
    assert (passed.decision.value, passed.out_of_order) == ("applied", True)
