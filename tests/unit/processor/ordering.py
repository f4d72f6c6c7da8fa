"""Events that die, the handler that is mended since, and orders as an operator gives them: of events by their keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from core.decision import Decision
from journal.schema import JournalRow
from journal.target import ItemTarget
from operations.command import PROPOSE_RUN, RUN, Command, approve
from operations.commands import encode
from operations.frozen import SCHEMA, FrozenSelection, PortionResult, Selection, command_id_of, each_line
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


def given(engine: Engine, action: str, *targets: ItemTarget, actor: str = "ada") -> Command:
    """An order, not sent yet."""
    number = f"{action}-{len(engine.journal.rows)}-{actor}-{targets[0].item_seq}"
    return Command(number, "ledger", engine.lineage, action, targets, actor, "garbage", NOW)


def command(engine: Engine, action: str, *targets: ItemTarget, actor: str = "ada") -> Command:
    """Sends it; nothing is decided yet."""
    reported = given(engine, action, *targets, actor=actor)
    engine.send(CONTROL, encode(reported), [])
    return reported


def order(engine: Engine, action: str, *keys: str, actor: str = "ada") -> JournalRow:
    """Sends an order and lets it be decided; its row."""
    command(engine, action, *(target(engine, key) for key in keys), actor=actor)
    return decided(engine)


def decided(engine: Engine) -> JournalRow:
    """A batch; the row of the last order in it."""
    return [row for row in engine.batch() if row.topic == CONTROL and row.first][-1]


def freeze(engine: Engine, targets: Sequence[ItemTarget]) -> str:
    """Freezes items as they were seen; the selection's digest."""
    entities = {row.item_seq: row.entity_key for row in engine.journal.rows}
    frozen = sorted(targets, key=lambda seen: seen.item_seq)
    columns = [
        [seen.item_seq for seen in frozen],
        [seen.seen_seq for seen in frozen],
        [int(seen.seen_hash, 16) for seen in frozen],
        list(each_line(entities.get(seen.item_seq) for seen in frozen)),
    ]
    table = pa.table(dict(zip(SCHEMA.names, columns, strict=True)), schema=SCHEMA)
    selection = Selection("ledger", NOW, "ada", "", "{}", len(frozen), len(engine.journal.rows), engine.lineage)
    return engine.selections.put(FrozenSelection(selection, table)).digest


@dataclass(frozen=True)
class RunDecision:
    """What became of a run: ``begun`` is its command's row, ``portion`` the one that its items' rows name."""

    begun: JournalRow
    portion: JournalRow | None

    @property
    def refusals(self) -> str:
        """Why it didn't begin, or why not with each of its items."""
        if self.portion is None:
            return self.begun.reason or ""
        return "; ".join(refusal.why_refused for refusal in PortionResult.of_headers(self.portion.headers).refused)


def given_run(
    engine: Engine, act: str, *targets: ItemTarget, actor: str = "ada", action: str = RUN, **options: Any
) -> Command:
    """The run of a selection of such items, not sent yet."""
    digest = freeze(engine, targets)
    name = command_id_of(digest)
    return Command(
        name, "ledger", engine.lineage, action, (), actor, "garbage", NOW, selection=digest, act=act, **options
    )


def send_run(engine: Engine, act: str, *targets: ItemTarget, **options: Any) -> Command:
    """Sends it: the next batch begins the run, and the one after that acts on its items."""
    run = given_run(engine, act, *targets, **options)
    engine.send(CONTROL, encode(run), [])
    return run


def run_order(engine: Engine, act: str, *targets: ItemTarget, **options: Any) -> RunDecision:
    """Sends the run of a selection of such items, and lets it be carried out."""
    return decided_run(engine, send_run(engine, act, *targets, **options))


def decided_run(engine: Engine, run: Command) -> RunDecision:
    """Two batches, in which a run that was sent begins and acts."""
    rows = [row for _ in range(2) for row in engine.batch() if row.entity_key == f"payhook:{run.selection}"]
    portions = [row for row in rows if row.decision is Decision.PORTION]
    return RunDecision(rows[0], portions[0] if portions else None)


def close(engine: Engine, act: str, *keys: str, **options: Any) -> RunDecision:
    """Has the last items of some keys purged, resolved or released."""
    return run_order(engine, act, *(target(engine, key) for key in keys), **options)


def approved_run(engine: Engine, act: str, *targets: ItemTarget, by: str = "grace", **options: Any) -> RunDecision:
    """Ada proposes a run, and another person approves it."""
    proposed = send_run(engine, act, *targets, action=PROPOSE_RUN, **options)
    assert decided(engine).decision is Decision.RESOLVED
    return approve_run(engine, proposed, by)


def approve_run(engine: Engine, proposed: Command, by: str = "grace") -> RunDecision:
    approval_given = approve(proposed, by, proposed.reason, NOW, proposed.command_id)
    engine.send(CONTROL, encode(approval_given), [])
    return decided_run(engine, approval_given)
