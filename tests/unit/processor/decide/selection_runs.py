"""Dead events in a bench of the engine, frozen as a selection, and the run that is ordered of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from core.decision import Decision
from journal.schema import JournalRow
from journal.target import ItemTarget
from operations.command import PAUSE_RUN, PROPOSE_RUN, RESUME_RUN, RUN, Command
from operations.commands import encode
from operations.frozen import PortionResult, command_id_of
from tests.unit.processor.harness import CONTROL, NOW, Engine
from tests.unit.processor.ordering import freeze


def dead(engine: Engine, count: int, entity: str = "", times: int = 1) -> None:
    for number in range(count):
        name = f"evt_{len(engine.journal.rows)}_{number}"
        engine.handler.fails(engine.post(name, entity or name), ZeroDivisionError("division by zero"), times=times)
    engine.batch()


def last_rows(engine: Engine) -> dict[int, JournalRow]:
    return {row.item_seq: row for row in engine.journal.rows if row.decision is not Decision.PORTION}


def frozen(engine: Engine, seqs: Sequence[int] = ()) -> str:
    """The digest of what is dead, or of single items, as they are now."""
    rows = [row for row in last_rows(engine).values() if row.decision is Decision.DEAD or row.item_seq in seqs]
    rows = [row for row in rows if not seqs or row.item_seq in seqs]
    return freeze(engine, [ItemTarget.of_row(row) for row in rows])


def command(engine: Engine, digest: str, action: str = RUN, **more: Any) -> Command:
    names = {PAUSE_RUN: "pause", RESUME_RUN: "resume"}
    name = command_id_of(digest) if action not in names else f"{names[action]}-{len(engine.journal.rows)}"
    act = {"act": more.pop("act", "replay")} if action in (RUN, PROPOSE_RUN) else {}
    reported: dict[str, Any] = {"actor": "ada", "reason": "mended", "lineage": engine.lineage, **act, **more}
    return Command(name, "ledger", action=action, targets=(), at=NOW, selection=digest, **reported)


def order(engine: Engine, digest: str, action: str = RUN, **more: Any) -> JournalRow:
    """Decides one command about a run; its row."""
    engine.send(CONTROL, encode(command(engine, digest, action, **more)), [])
    return next(row for row in engine.batch() if row.topic == CONTROL and row.first)


def portions(engine: Engine, digest: str = "") -> list[PortionResult]:
    """What the portions of one run came to, or of all runs."""
    rows = [row for row in engine.journal.rows if row.decision is Decision.PORTION]
    return [PortionResult.of_headers(row.headers) for row in rows if digest in (row.entity_key or "")]


def taken(engine: Engine, digest: str) -> list[int]:
    """Items with a row by each portion."""
    rows = engine.journal.rows
    mine = [row.seq for row in rows if row.decision is Decision.PORTION and row.entity_key == f"payhook:{digest}"]
    counted = Counter(row.cause_seq for row in rows if row.cause_seq in mine)
    return [counted[seq] for seq in mine]


def decisions(engine: Engine) -> Counter[str]:
    return Counter(row.decision.value for row in last_rows(engine).values() if row.topic != CONTROL)


def go(engine: Engine, batches: int = 12, seconds: float = 1.0) -> None:
    for _ in range(batches):
        engine.advance(seconds)
