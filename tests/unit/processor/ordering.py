"""Orders as an operator gives them: of events by their keys, as they are now."""

from __future__ import annotations

from typing import Any

from dlq.command import Command, Proposal, Target
from dlq.commands import encode
from journal.schema import JournalRow
from tests.unit.processor.harness import CONTROL, NOW, Engine


def last(engine: Engine, key: str) -> JournalRow:
    """The last row of the item that was the last to come under a key."""
    item = max(row.item_seq for row in engine.journal.rows if row.event_key == key)
    return next(row for row in reversed(engine.journal.rows) if row.item_seq == item)


def target(engine: Engine, key: str) -> Target:
    return Target.of(last(engine, key))


def given(engine: Engine, action: str, *targets: Target, actor: str = "ada", **options: Any) -> Command:
    """An order, not sent yet."""
    number = f"{action}-{len(engine.journal.rows)}-{actor}-{targets[0].item_seq}"
    return Command(number, "ledger", engine.lineage, action, targets, actor, "garbage", NOW, **options)


def command(engine: Engine, action: str, *targets: Target, actor: str = "ada", **options: Any) -> Command:
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


def approval(first: Command) -> Proposal:
    return Proposal(first.command_id, first.actor, first.reason, first.at)
