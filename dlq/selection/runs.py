"""Runs as they are kept: one a selection, the commands they sent, and who sends them just now."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from core.clock import from_rfc3339, to_rfc3339
from dlq.commands import TARGETS_MAX, ReplayMode, Target
from dlq.selection.errors import RunRefused
from dlq.selection.model import Approval, Run, RunItemState, RunKept, RunState, Selection

COMMAND_ID_CHARS = 32
LOOK_S_MIN = 1.0
LATEST_WEIGHT = 0.3
"""Of the latest look in the speed: about the last four seconds count."""


class Part(StrEnum):
    """Of a run that two people are needed for, first all of it is proposed, then all of it is done."""

    PROPOSE = "propose"
    ACT = "act"


@dataclass(frozen=True, slots=True)
class Chunk:
    """One command of a run: ``count`` items from turn ``first_turn`` on."""

    number: int
    part: Part
    chunk: int
    command_id: str
    first_turn: int
    count: int
    at: datetime


def command_id(stream: str, selection: Selection, run: Run, part: Part, chunk: int) -> str:
    """The same for every try, by any process. The digest holds when and by whom it was frozen, so no other selection,
    of a lost file's successor neither, has it."""
    text = "\x1f".join([stream, str(selection.number), selection.digest, run.action, run.mode, part, str(chunk)])
    return hashlib.sha256(text.encode()).hexdigest()[:COMMAND_ID_CHARS]


def insert(db: sqlite3.Connection, kept: RunKept, upto: int) -> None:
    """A new run. ``upto``: the journal's last row then; what becomes of its items comes after it."""
    run = kept.run
    db.execute(
        "INSERT INTO runs (number, action, mode, per_s, in_place, force, propose, two_people, command_items, reason,"
        " actor, hands, started_at, state, upto) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(kept.number, run.action, run.mode.value, run.per_s, run.in_place, run.force, run.propose),
            *(kept.two_people, kept.command_items, run.reason, kept.actor, " ".join(sorted(kept.hands))),
            *(to_rfc3339(kept.started_at), kept.state.value, upto),
        ),
    )


def find(db: sqlite3.Connection, number: int) -> RunKept | None:
    row = db.execute("SELECT * FROM runs WHERE number = ?", (number,)).fetchone()
    return None if row is None else _run(row)


def read(db: sqlite3.Connection, number: int) -> RunKept:
    """
    :raises RunRefused: the selection has none
    """
    found = find(db, number)
    if found is None:
        raise RunRefused(number, "nothing was begun with it; `payhook dlq replay`, `purge` or `resolve` does")
    return found


def proposed(db: sqlite3.Connection) -> list[RunKept]:
    """Those that wait for a second person, oldest first."""
    return [_run(row) for row in db.execute("SELECT * FROM runs WHERE state = 'proposed' ORDER BY number")]


def unfinished(db: sqlite3.Connection) -> list[RunKept]:
    """Those that something is still to become of, oldest first."""
    return [_run(row) for row in db.execute("SELECT * FROM runs WHERE finished_at IS NULL ORDER BY number")]


def set_state(db: sqlite3.Connection, number: int, state: RunState, by: str | None = None) -> None:
    """``by``: the person, where it was one."""
    db.execute(
        "UPDATE runs SET state = ?, changed_by = coalesce(?, changed_by), problem = NULL WHERE number = ?",
        (state.value, by, number),
    )


def approve(db: sqlite3.Connection, number: int, approval: Approval) -> None:
    db.execute(
        "UPDATE runs SET state = 'running', approver = ?, approval_reason = ?, approved_at = ? WHERE number = ?",
        (approval.actor, approval.reason, to_rfc3339(approval.at), number),
    )


def say(db: sqlite3.Connection, number: int, problem: str | None) -> None:
    """Why it doesn't go on just now."""
    db.execute("UPDATE runs SET problem = ? WHERE number = ? AND problem IS NOT ?", (problem, number, problem))


def lease(db: sqlite3.Connection, number: int, owner: str, now_s: float, until_s: float) -> bool:
    """Takes or keeps the run for one process; False: another one has it. Times are of the wall clock."""
    taken = db.execute(
        "UPDATE runs SET owner = ?, lease_until = ? WHERE number = ? AND (owner IS ? OR lease_until <= ?)",
        (owner, until_s, number, owner, now_s),
    )
    return taken.rowcount == 1


def release(db: sqlite3.Connection, owner: str) -> None:
    """The process ends: others needn't wait for its leases."""
    db.execute("UPDATE runs SET lease_until = 0 WHERE owner = ?", (owner,))


def holder(db: sqlite3.Connection, number: int, now_s: float) -> str | None:
    row = db.execute("SELECT owner FROM runs WHERE number = ? AND lease_until > ?", (number, now_s)).fetchone()
    return None if row is None else str(row[0])


def next_chunk(db: sqlite3.Connection, number: int, part: Part) -> tuple[int, int]:
    """The number of the part's next command, and the turn at which it begins."""
    row = db.execute(
        "SELECT count(*), coalesce(max(first_turn + count), 0) FROM commands WHERE number = ? AND part = ?",
        (number, part.value),
    ).fetchone()
    return row[0], row[1]


def whole_lines(db: sqlite3.Connection, number: int, first_turn: int, count: int) -> int:
    """How many items from ``first_turn`` on make one command of about ``count``: a line is never parted, unless it is
    longer than any command, and the processor then says so."""
    row = db.execute("SELECT line FROM items WHERE number = ? AND turn = ?", (number, first_turn + count)).fetchone()
    if row is None or row[0] == first_turn + count:
        return count
    if row[0] > first_turn:
        return int(row[0]) - first_turn
    behind = db.execute("SELECT max(turn) FROM items WHERE number = ? AND line = ?", (number, row[0])).fetchone()
    return min(int(behind[0]) + 1 - first_turn, TARGETS_MAX)


def line_up(db: sqlite3.Connection, number: int, turns: Iterable[tuple[int, int, int]]) -> None:
    """Gives every item of a selection its turn: (turn, the turn at which its line begins, item); none: as frozen."""
    given = list(turns)
    if given:
        db.execute("UPDATE items SET turn = -1 - turn WHERE number = ?", (number,))
    db.executemany(
        "UPDATE items SET turn = ?, line = ? WHERE number = ? AND item_seq = ?",
        ((turn, line, number, item_seq) for turn, line, item_seq in given),
    )


def write_down(db: sqlite3.Connection, chunk: Chunk) -> None:
    """Before it is sent: whoever comes after a crash sends exactly this again."""
    db.execute(
        "INSERT INTO commands (number, part, chunk, command_id, first_turn, count, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            *(chunk.number, chunk.part.value, chunk.chunk, chunk.command_id),
            *(chunk.first_turn, chunk.count, to_rfc3339(chunk.at)),
        ),
    )
    if chunk.part is Part.ACT:
        db.execute(
            "UPDATE items SET state = 'sent' WHERE number = ? AND turn >= ? AND turn < ? AND state = 'unsent'",
            (chunk.number, chunk.first_turn, chunk.first_turn + chunk.count),
        )


def acknowledged(db: sqlite3.Connection, command_id: str, offset: int) -> None:
    """Kafka holds it there."""
    db.execute("UPDATE commands SET offset = ? WHERE command_id = ?", (offset, command_id))


def needless(db: sqlite3.Connection, command_id: str) -> None:
    """Everything that it would name had moved by another command of this run before."""
    db.execute("UPDATE commands SET offset = -1, decided_seq = 0 WHERE command_id = ?", (command_id,))


def give_up(db: sqlite3.Connection, number: int, why: str, at: datetime) -> None:
    """Ends a run of which nothing more can be known: what is on its way counts as refused, and nothing is sent."""
    db.execute(
        "UPDATE items SET state = 'refused', reason = ? WHERE number = ?"
        " AND state IN ('sent', 'replayed', 'retry', 'parked')",
        (why, number),
    )
    db.execute(
        "UPDATE commands SET offset = coalesce(offset, -1), decided_seq = 0 WHERE number = ? AND decided_seq IS NULL",
        (number,),
    )
    db.execute(
        "UPDATE runs SET state = 'cancelled', problem = ?, finished_at = ? WHERE number = ?",
        (why, to_rfc3339(at), number),
    )


def unacknowledged(db: sqlite3.Connection, number: int) -> Chunk | None:
    """The command that was written down, and of which nobody knows whether Kafka has it."""
    row = db.execute(f"{_CHUNKS} AND offset IS NULL AND decided_seq IS NULL LIMIT 1", (number,)).fetchone()
    return None if row is None else _chunk(row)


def undecided(db: sqlite3.Connection, number: int) -> list[Chunk]:
    """Commands that the journal hasn't decided, as far as it was followed."""
    return [_chunk(row) for row in db.execute(f"{_CHUNKS} AND decided_seq IS NULL", (number,))]


def targets(db: sqlite3.Connection, chunk: Chunk, *, as_proposed: bool) -> list[Target]:
    """What a command names: what hasn't moved by another command of the run, or all of it as it was proposed."""
    rows = db.execute(
        "SELECT item_seq, seen_seq, seen_hash FROM items WHERE number = ? AND turn >= ? AND turn < ?"
        " AND (state = 'sent' OR ?) ORDER BY turn",
        (chunk.number, chunk.first_turn, chunk.first_turn + chunk.count, as_proposed),
    )
    return [Target(*row) for row in rows]


def counts(db: sqlite3.Connection, number: int) -> dict[RunItemState, int]:
    """Items by state."""
    rows = db.execute("SELECT state, count(*) FROM items WHERE number = ? GROUP BY state", (number,))
    return {RunItemState(state): count for state, count in rows}


def before_a_try(db: sqlite3.Connection) -> int:
    """Items of all runs that wait for the stream."""
    return int(
        db.execute(
            "SELECT count(*) FROM items JOIN runs ON runs.number = items.number"
            " WHERE runs.finished_at IS NULL AND items.state IN ('sent', 'replayed')"
        ).fetchone()[0]
    )


def look(db: sqlite3.Connection, number: int, ended: int, now_s: float) -> None:
    """How many items ended by now: what the speed is made of. ``now_s``: of the wall clock."""
    row = db.execute("SELECT looked_at, looked_ended, seen_per_s FROM runs WHERE number = ?", (number,)).fetchone()
    looked_at, looked_ended, seen = row
    passed_s = now_s - looked_at
    if looked_at and passed_s < LOOK_S_MIN:
        return
    if looked_at and passed_s > 0:
        latest = max(0, ended - looked_ended) / passed_s
        seen = latest if seen is None else (1 - LATEST_WEIGHT) * seen + LATEST_WEIGHT * latest
    db.execute(
        "UPDATE runs SET looked_at = ?, looked_ended = ?, seen_per_s = ? WHERE number = ?", (now_s, ended, seen, number)
    )


def seen_per_s(db: sqlite3.Connection, number: int) -> float | None:
    """Items that ended in a second, of late."""
    row = db.execute("SELECT seen_per_s FROM runs WHERE number = ?", (number,)).fetchone()
    return None if row is None else row[0]


_CHUNKS = "SELECT number, part, chunk, command_id, first_turn, count, at FROM commands WHERE number = ?"


def _chunk(row: sqlite3.Row) -> Chunk:
    number, part, chunk, name, first_turn, count, at = row
    return Chunk(number, Part(part), chunk, name, first_turn, count, from_rfc3339(at))


def _run(row: sqlite3.Row) -> RunKept:
    approval = None
    if row["approver"] is not None:
        approval = Approval(row["approver"], row["approval_reason"], from_rfc3339(row["approved_at"]))
    return RunKept(
        number=row["number"],
        run=Run(
            row["action"],
            row["reason"],
            ReplayMode(row["mode"]),
            row["per_s"],
            in_place=bool(row["in_place"]),
            force=bool(row["force"]),
            propose=bool(row["propose"]),
        ),
        actor=row["actor"],
        hands=frozenset(row["hands"].split()),
        started_at=from_rfc3339(row["started_at"]),
        state=RunState(row["state"]),
        two_people=bool(row["two_people"]),
        command_items=row["command_items"],
        approval=approval,
        problem=row["problem"],
        changed_by=row["changed_by"],
        finished_at=None if row["finished_at"] is None else from_rfc3339(row["finished_at"]),
    )
