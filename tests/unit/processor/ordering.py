"""Events that die, the handler that is mended since, and orders as an operator gives them: of events by their keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from journal.schema import JournalRow
from journal.target import ItemTarget
from operations.command import ApprovedProposal, Command
from operations.commands import encode
from processor.settings import DeadHead
from tests.unit.processor.harness import CONTROL, NOW, Engine

BUG = ZeroDivisionError("division by zero")


def dying(engine: Engine, *ids: str, entity: str = "e1", times: int = 10**6) -> list[str]:
    keys = []
    for event_id in ids:
        key = engine.post(event_id, entity)
        engine.handler.fails(key, BUG, times=times)
        keys.append(key)
    engine.batch()
    return keys


def passing(tmp_path: Path) -> Engine:
    """A stream whose followers go on past a dead head."""
    return Engine(tmp_path, dead_head=DeadHead.CONTINUE)


def mended(engine: Engine) -> None:
    engine.handler.script.clear()
    engine.handler.calls.clear()


def last(engine: Engine, key: str) -> JournalRow:
    """The last row of the item that was the last to come under a key."""
    item = max(row.item_seq for row in engine.journal.rows if row.event_key == key)
    return next(row for row in reversed(engine.journal.rows) if row.item_seq == item)


def target(engine: Engine, key: str) -> ItemTarget:
    return ItemTarget.of_row(last(engine, key))


def given(engine: Engine, action: str, *targets: ItemTarget, actor: str = "ada", **options: Any) -> Command:
    """An order, not sent yet."""
    number = f"{action}-{len(engine.journal.rows)}-{actor}-{targets[0].item_seq}"
    return Command(number, "ledger", engine.lineage, action, targets, actor, "garbage", NOW, **options)


def command(engine: Engine, action: str, *targets: ItemTarget, actor: str = "ada", **options: Any) -> Command:
    """Sends it; nothing is decided yet."""
    reported = given(engine, action, *targets, actor=actor, **options)
    engine.send(CONTROL, encode(reported), [])
    return reported


def order(engine: Engine, action: str, *keys: str, **options: Any) -> JournalRow:
    """Sends an order and lets it be decided; its row."""
    command(engine, action, *(target(engine, key) for key in keys), **options)
    return decided(engine)


def decided(engine: Engine) -> JournalRow:
    """A batch; the row of the last order in it."""
    return [row for row in engine.batch() if row.topic == CONTROL and row.first][-1]


def approval(first: Command) -> ApprovedProposal:
    return ApprovedProposal(first.command_id, first.actor, first.reason, first.at)
