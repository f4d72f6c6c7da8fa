"""One event costs one event: whatever a handler or an adapter does with it, the stream goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.event import Dedupe, poison_event, to_headers
from core.work import Outcome, WorkItem
from journal.schema import JournalRow
from journal.target import ItemTarget
from processor.settings import DeadHead
from processor.workers.execute import Results
from tests.unit.processor.fakes import ignored
from tests.unit.processor.harness import CONTROL, EVENTS, NOW, Engine
from tests.unit.processor.hostile import HALF, MADE_SAFE, ODD_ANSWERS, ODD_ERRORS, Awkward
from tests.unit.processor.hostile_records import (
    ODD_COMMANDS,
    ODD_EVENTS,
    ODD_FACTS,
    ODD_HASHES,
    ODD_HEADERS,
    OddAdapter,
    odd_event,
)
from tests.unit.processor.ordering import close, command, decided, order, run_order


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
    assert "a handler returns Applied, Ignored, Unknown or Held" in (row.error_message or "")
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


@pytest.mark.parametrize("name", ODD_HASHES)
def test_content_that_cannot_be_compared_ends_the_copy_and_holds_no_key(engine: Engine, name: str) -> None:
    """The copy comes from a receiver whose adapter leaves other fields out, and this one's can't tell what it did."""
    first = engine.post("evt_odd")
    engine.batch()
    engine.adapters["stripe"] = OddAdapter(ODD_HASHES[name])
    engine.post("evt_odd", content_version=9)
    assert decided_beside_the_copy(engine) == ["applied"]
    copy = last(engine, first)
    assert (copy.decision.value, copy.error_class, copy.blocking) == ("dead", "EventConflict", False)
    assert "whether this copy says the same can't be found out" in (copy.error_message or "")
    assert copy.error_code is not None
    assert copy.error_stack
    engine.post("evt_odd")
    engine.post("evt_odd", content_version=9)
    assert [row.decision.value for row in engine.batch()] == ["duplicate", "duplicate"]
    dead = ItemTarget.of_row(copy)
    command(engine, "replay", dead)
    assert decided(engine).decision.value == "ignored", "the first copy holds the key"
    run_order(engine, "purge", dead)
    assert last(engine, copy.event_key or "").decision.value == "purged"


def decided_beside_the_copy(engine: Engine) -> list[str]:
    beside = engine.post("evt_beside")
    engine.batch()
    return engine.decisions(beside)


@pytest.mark.parametrize("name", ODD_EVENTS)
def test_poison_that_its_adapter_makes_something_odd_of_stays_dead(engine: Engine, name: str) -> None:
    poison = poison_event("stripe", b"{", "live", "no JSON")
    engine.send(EVENTS, b"{", to_headers(poison, NOW, Dedupe.CLAIMED))
    engine.batch()
    engine.adapters["stripe"] = OddAdapter(ODD_EVENTS[name])
    order(engine, "replay", poison.event_key)
    engine.advance(0)
    assert decided_beside_the_copy(engine) == ["applied"]
    row = last(engine, poison.event_key)
    assert (row.decision.value, row.blocking) == ("dead", False)
    assert row.error_stack
    close(engine, "purge", poison.event_key)
    assert engine.decisions(poison.event_key)[-1] == "purged"


@pytest.mark.parametrize("name", ODD_FACTS)
def test_an_adapter_that_fails_on_an_ignored_event_ends_its_replay_alone(engine: Engine, name: str) -> None:
    key = "stripe:evt_odd:charge.captured"
    engine.handler.script[key] = ignored
    engine.post("evt_odd")
    engine.batch()
    engine.adapters["stripe"] = OddAdapter(ODD_FACTS[name])
    assert order(engine, "replay", key).decision.value == "replayed"
    assert decided_beside_the_copy(engine) == ["applied"]
    engine.advance(0)
    assert engine.decisions(key) == ["ignored", "replayed", "ignored"]


@pytest.mark.parametrize("name", ODD_FACTS)
def test_a_person_can_close_what_its_adapter_fails_on(engine: Engine, name: str) -> None:
    key = engine.post("evt_odd")
    engine.handler.fails(key, KeyError("merchant"))
    engine.batch()
    engine.adapters["stripe"] = OddAdapter(ODD_FACTS[name])
    close(engine, "purge", key)
    assert engine.decisions(key) == ["dead", "purged"]


@pytest.mark.parametrize("name", ODD_COMMANDS)
def test_a_command_that_is_none_ends_alone(engine: Engine, name: str) -> None:
    engine.send(CONTROL, ODD_COMMANDS[name], [])
    assert decided_beside_the_copy(engine) == ["applied"]
    [row] = [row for row in engine.journal.rows if row.topic == CONTROL]
    assert (row.decision.value, row.blocking, row.event_key) == ("dead", False, None)


@pytest.mark.parametrize("name", ODD_HEADERS)
def test_a_record_with_odd_headers_ends_alone(engine: Engine, name: str) -> None:
    header, value = ODD_HEADERS[name]
    event = odd_event()()[0]
    headers = [one for one in to_headers(event, NOW, Dedupe.CLAIMED) if one[0] != header]
    engine.send(EVENTS, event.body, [*headers, (header, value)])
    assert decided_beside_the_copy(engine) == ["applied"]
    row = engine.journal.rows[0]
    assert len(row.error_message or "") <= 2_000


@pytest.mark.parametrize("policy", DeadHead)
@pytest.mark.parametrize("result", [object(), Awkward(), 7, HALF])
def test_a_result_that_cannot_be_decided_ends_its_event_like_a_handlers_bug(
    tmp_path: Path, policy: DeadHead, result: Any
) -> None:
    """Should a worker let something through: deciding it is about this event alone."""
    engine = Engine(tmp_path, dead_head=policy)
    run = engine.handlers._executor.run

    def odd(groups: Any, *, suspect: bool = False) -> Results:
        results = run(groups, suspect=suspect)
        for seq in [item.item_seq for group in groups for item in group if item.event_key == key]:
            results.by_item[seq] = result
        return results

    key = "stripe:evt_odd:charge.captured"
    engine.handlers._executor.run = odd  # type: ignore[method-assign]
    engine.post("evt_odd")
    assert decided_beside_the_copy(engine) == ["applied" if policy is DeadHead.CONTINUE else "parked"]
    row = last(engine, key)
    assert (row.decision.value, row.blocking) == ("dead", policy is DeadHead.WAIT)
