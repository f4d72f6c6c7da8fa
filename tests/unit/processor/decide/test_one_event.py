"""One event costs one event: whatever a handler or an adapter does with it, the stream goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.work import Outcome, WorkItem
from journal.schema import JournalRow
from processor.settings import DeadHead
from tests.unit.processor.harness import Engine
from tests.unit.processor.hostile import MADE_SAFE, ODD_ANSWERS, ODD_ERRORS


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path)


def answering(answer: Callable[[], Any]) -> Callable[[WorkItem], Outcome]:
    return lambda _: answer()


def raising(error: Callable[[], BaseException]) -> Callable[[WorkItem], Outcome]:
    def act(_: WorkItem) -> Outcome:
        raise error()

    return act


def last(engine: Engine, event_key: str) -> JournalRow:
    return next(row for row in reversed(engine.journal.rows) if row.event_key == event_key)


def decided_beside(engine: Engine) -> str:
    """The odd event's decision, after one batch in which another entity's event and a command were decided too."""
    before = engine.post("evt_before", entity="e2")
    engine.batch()
    odd, beside = engine.post("evt_odd", entity="e1"), engine.post("evt_beside", entity="e2")
    engine.command(item_seq=1, seen_seq=1, command_id="c-odd")
    rows = engine.batch()
    assert engine.decisions(before) == engine.decisions(beside) == ["applied"]
    assert [row.decision.value for row in rows if row.provider == "payhook"] == ["ignored"]
    return last(engine, odd).decision.value


@pytest.mark.parametrize("name", ODD_ANSWERS)
def test_what_is_no_outcome_kills_its_event_at_once(engine: Engine, name: str) -> None:
    engine.handler.script["stripe:evt_odd:charge.captured"] = answering(ODD_ANSWERS[name])
    assert decided_beside(engine) == "dead"
    row = last(engine, "stripe:evt_odd:charge.captured")
    assert row.error_class == "OutcomeInvalid"
    assert "a handler returns Applied, Ignored or Held" in (row.error_message or "")
    assert engine.advance(60) == []


@pytest.mark.parametrize("name", MADE_SAFE)
def test_an_outcome_with_odd_texts_is_taken(engine: Engine, name: str) -> None:
    answer, decision = MADE_SAFE[name]
    engine.handler.script["stripe:evt_odd:charge.captured"] = answering(answer)
    assert decided_beside(engine) == decision


@pytest.mark.parametrize("name", ODD_ERRORS)
@pytest.mark.parametrize("policy", DeadHead)
def test_whatever_a_handler_raises_its_event_is_decided(tmp_path: Path, policy: DeadHead, name: str) -> None:
    engine = Engine(tmp_path, dead_head=policy)
    engine.handler.script["stripe:evt_odd:charge.captured"] = raising(ODD_ERRORS[name])
    assert decided_beside(engine) in ("dead", "retry")
    row = last(engine, "stripe:evt_odd:charge.captured")
    for text in (row.reason, row.error_class, row.error_code, row.error_message, row.error_stack, row.log_lines):
        assert len((text or "").encode("utf-8")) <= 20_000
