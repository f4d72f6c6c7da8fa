"""An order that was given before an older copy of the journal was put back: its seqs name other payments by now."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.decision import Decision
from journal.schema import JournalRow
from operations.command import PROPOSE_REVERSAL, PROPOSE_RUN, Command, approve
from operations.commands import encode
from tests.unit.processor.fakes import ignored
from tests.unit.processor.harness import CONTROL, NOW, Engine
from tests.unit.processor.ordering import approve_run, decided, decided_run, given, given_run, last, target

BUG = ZeroDivisionError("division by zero")
SAME, RENEWED = "1" * 32, "2" * 32
LINEAGES = pytest.mark.parametrize("lineage", [SAME, RENEWED], ids=["copied by hand", "restored"])


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """With one event that is applied, as row 1."""
    engine = Engine(tmp_path)
    engine.post("evt_1", "e1")
    engine.batch()
    return engine


def fails(engine: Engine, event_id: str) -> str:
    key = engine.post(event_id, f"of {event_id}")
    engine.handler.fails(key, BUG)
    engine.batch()
    return key


def is_ignored(engine: Engine, event_id: str) -> str:
    key = engine.post(event_id, f"of {event_id}")
    engine.handler.script[key] = ignored
    engine.batch()
    return key


def is_applied(engine: Engine, event_id: str) -> str:
    key = engine.post(event_id, f"of {event_id}")
    engine.batch()
    return key


def send(engine: Engine, command: Command) -> JournalRow:
    engine.send(CONTROL, encode(command), [])
    return decided(engine)


def was_refused(control: JournalRow) -> bool:
    return control.decision is Decision.IGNORED and "the journal was restored since" in (control.reason or "")


@LINEAGES
def test_a_replay_of_a_dead_event_does_nothing_to_another_one(engine: Engine, lineage: str) -> None:
    older = engine.copy()
    seen = given(engine, "replay", target(engine, fails(engine, "evt_2")))
    engine.restore(older, lineage)
    other = fails(engine, "evt_3")
    assert (last(engine, other).item_seq, last(engine, other).seq) == (2, 2)
    assert was_refused(send(engine, seen))
    assert engine.decisions(other) == ["dead"]
    assert engine.advance(3600) == []


@LINEAGES
@pytest.mark.parametrize("act", ["replay", "purge", "resolve"])
def test_a_run_of_a_dead_event_does_nothing_to_another_one(engine: Engine, act: str, lineage: str) -> None:
    older = engine.copy()
    run = given_run(engine, act, target(engine, fails(engine, "evt_2")))
    engine.restore(older, lineage)
    other = fails(engine, "evt_3")
    engine.send(CONTROL, encode(run), [])
    assert "the journal was restored since" in decided_run(engine, run).refusals
    assert engine.decisions(other) == ["dead"]


@LINEAGES
@pytest.mark.parametrize("act", ["purge", "resolve"])
def test_an_approved_closing_closes_nothing_else(engine: Engine, act: str, lineage: str) -> None:
    older = engine.copy()
    first = given_run(engine, act, target(engine, fails(engine, "evt_2")), action=PROPOSE_RUN)
    engine.restore(older, lineage)
    other = fails(engine, "evt_3")
    engine.send(CONTROL, encode(first), [])
    decided(engine)
    assert "the journal was restored since" in approve_run(engine, first).refusals
    assert engine.decisions(other) == ["dead"]


@LINEAGES
def test_an_approved_reversal_reverses_no_other_booking(engine: Engine, lineage: str) -> None:
    older = engine.copy()
    booked = target(engine, is_applied(engine, "evt_2"))
    first = Command.with_new_id("ledger", engine.lineage, PROPOSE_REVERSAL, [booked], "ada", "captured twice", NOW)
    second = approve(first, "bob", "I looked", NOW)
    engine.restore(older, lineage)
    other = is_applied(engine, "evt_3")
    assert last(engine, other).seq == booked.seen_seq
    assert was_refused(send(engine, first))
    send(engine, second)
    assert engine.decisions(other) == ["applied"]


@LINEAGES
def test_a_replay_takes_up_no_other_ignored_event(engine: Engine, lineage: str) -> None:
    older = engine.copy()
    seen = given(engine, "replay", target(engine, is_ignored(engine, "evt_2")))
    engine.restore(older, lineage)
    other = is_ignored(engine, "evt_3")
    assert was_refused(send(engine, seen))
    assert engine.decisions(other) == ["ignored"]


def test_what_was_approved_before_a_restore_is_proposed_again(engine: Engine) -> None:
    """The rows are the same ones, and so is the proposal: an order of before a restore is refused all the same."""
    booked = is_applied(engine, "evt_2")
    first = Command.with_new_id(
        "ledger", engine.lineage, PROPOSE_REVERSAL, [target(engine, booked)], "ada", "captured twice", NOW
    )
    send(engine, first)
    engine.restore(engine.copy(), RENEWED)
    assert was_refused(send(engine, approve(first, "bob", "I looked", NOW)))
    again = Command.with_new_id(
        "ledger", engine.lineage, PROPOSE_REVERSAL, [target(engine, booked)], "ada", "captured twice", NOW
    )
    assert send(engine, again).decision is Decision.RESOLVED
    assert send(engine, approve(again, "bob", "I looked", NOW)).decision is Decision.REVERSED


def test_an_order_of_another_lineage_has_one_row_and_names_both(engine: Engine) -> None:
    key = fails(engine, "evt_2")
    seen = given(engine, "replay", target(engine, key))
    engine.restore(engine.copy(), RENEWED)
    control = send(engine, seen)
    assert (control.first, control.decision, control.event_type, control.actor) == (
        True,
        Decision.IGNORED,
        "replay",
        "ada",
    )
    assert SAME in str(control.reason) and RENEWED in str(control.reason)
    assert send(engine, seen).decision is Decision.DUPLICATE
    assert engine.decisions(key) == ["dead"]


def test_of_several_targets_only_the_one_that_is_another_row_is_refused(engine: Engine) -> None:
    """The journal was put back by hand, so its lineage is the same."""
    same = fails(engine, "evt_2")
    older = engine.copy()
    seen = given(engine, "replay", target(engine, same), target(engine, fails(engine, "evt_3")))
    engine.restore(older, SAME)
    other = fails(engine, "evt_4")
    control = send(engine, seen)
    assert control.reason == (
        "1 of 2 accepted; refused: item 3 has another row 3 than the one that was seen: the journal was restored "
        "since; look again"
    )
    assert (engine.decisions(same), engine.decisions(other)) == (["dead", "replayed"], ["dead"])
