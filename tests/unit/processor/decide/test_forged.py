"""What others than payhook put on its topics is dead with its reason, and takes nothing from what it looks like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from core.record_keys import RecordKeys
from operations.command import Command
from operations.commands import encode
from processor.source.map_stage import MapJob
from tests.unit.processor.harness import CONTROL, EVENTS, NOW, Engine, table
from tests.unit.processor.source.test_map_stage import passed, reported

KEY = "0123456789abcdef" * 2


class SignedEngine(Engine):
    """A stream that believes one key. ``mapped``: records go through the map stage."""

    mapped = False

    def __init__(self, folder: Path) -> None:
        (folder / "records").write_text(f"{KEY}\n")
        self.keys = RecordKeys(folder / "records")
        super().__init__(folder)

    def start(self, *, keeps_index: bool = False) -> None:
        self.rules = replace(self.rules, record_keys=self.keys)
        super().start(keeps_index=keeps_index)

    def batch(self) -> list:  # type: ignore[type-arg]
        if not self.mapped:
            return super().batch()
        before = len(self.journal.rows)
        stage: MapJob = replace(reported(), keys=self.keys.now)
        self.batches.run(passed(table(self._pending), stage))
        self._pending.clear()
        return self.journal.rows[before:]


@pytest.fixture(params=[False, True], ids=["driver", "map stage"])
def engine(tmp_path: Path, request: pytest.FixtureRequest) -> SignedEngine:
    made = SignedEngine(tmp_path)
    made.mapped = request.param
    return made


def forge(engine: SignedEngine, change: Callable[[dict[str, object]], None], fact: str | None = None) -> str:
    """A signed event that somebody changed; the key of the one that it looks like."""
    key = engine.post("evt_1", fact=fact)
    change(engine._pending[-1])
    return key


def without_mac(record: dict[str, object]) -> None:
    record["headers"] = [one for one in record["headers"] if one["key"] != "mac"]  # type: ignore[attr-defined]


def other_body(record: dict[str, object]) -> None:
    record["value"] = b"evt_1 of more money"


def other_key(record: dict[str, object]) -> None:
    """It would be on another partition."""
    record["key"] = b"another"


def other_header(record: dict[str, object]) -> None:
    for one in record["headers"]:  # type: ignore[attr-defined]
        if one["key"] == "entity_key":
            one["value"] = b"e2"


FORGERIES = [without_mac, other_body, other_key, other_header]


@pytest.mark.parametrize("change", FORGERIES)
def test_a_forged_event_is_dead_with_its_reason_and_is_never_handled(
    engine: SignedEngine, change: Callable[[dict[str, object]], None]
) -> None:
    forge(engine, change)
    [row] = engine.batch()
    assert (row.decision, row.error_class) == ("dead", "Forged")
    assert "who else may write to the topic" in (row.error_message or "")
    assert engine.handler.calls == []


@pytest.mark.parametrize("change", FORGERIES)
def test_it_holds_no_key_no_fact_and_no_entity(
    engine: SignedEngine, change: Callable[[dict[str, object]], None]
) -> None:
    forge(engine, change, fact="stripe:ch_1:capture")
    true = engine.post("evt_1", fact="stripe:ch_1:capture")
    forged, row = engine.batch()
    assert (forged.event_key, forged.fact_key) == (None, None)
    assert forged.entity_key == f"kafka:{EVENTS}:0:0"
    assert (row.event_key, row.decision) == (true, "applied")


def test_a_replay_of_it_dies_again(engine: SignedEngine) -> None:
    forge(engine, without_mac)
    engine.batch()
    engine.command(item_seq=1, seen_seq=1)
    engine.batch()
    engine.clock.advance(60)
    engine.batch()
    assert [row.decision for row in engine.journal.rows if row.item_seq == 1][-1] == "dead"
    assert engine.handler.calls == []


def test_a_copy_of_a_true_record_is_a_duplicate(engine: SignedEngine) -> None:
    """It is signed: whoever copies it, it says nothing new."""
    engine.post("evt_1")
    record = engine._pending[-1]
    engine.put(EVENTS, record["value"], [(one["key"], one["value"]) for one in record["headers"]])  # type: ignore[arg-type,attr-defined]
    assert [row.decision for row in engine.batch()] == ["applied", "duplicate"]


def test_a_forged_command_is_refused_and_changes_nothing(engine: SignedEngine) -> None:
    engine.handler.fails("stripe:evt_1:charge.captured", ValueError("a bug"))
    engine.post("evt_1")
    engine.batch()
    target = (engine.target(1, 1),)
    command = Command("c1", "ledger", engine.lineage, "replay", target, "mallory", "money", NOW)
    engine.put(CONTROL, encode(command), [])
    [row] = engine.batch()
    assert (row.topic, row.decision, row.error_class, row.actor) == (CONTROL, "dead", "Forged", None)
    signed = replace(command, command_id="c1", actor="ada")
    engine.send(CONTROL, encode(signed), [])
    rows = engine.batch()
    assert [row.actor for row in rows if row.topic == CONTROL and row.first] == ["ada"], "it took no command's id"


def test_commands_that_come_while_the_stream_is_blocked_are_checked_too(tmp_path: Path) -> None:
    engine = SignedEngine(tmp_path)
    command = Command("c1", "ledger", engine.lineage, "replay", (), "mallory", "money", NOW)
    engine.put(CONTROL, encode(command) if command.targets else b"{}", [])
    [row] = engine.obey()
    assert (row.decision, row.error_class) == ("dead", "Forged")
