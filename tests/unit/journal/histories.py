"""Random journals: any mixture of new events, later rows of the same items, and commands."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from hypothesis import strategies as st

from core.decision import OPEN_DECISIONS, Decision
from journal.schema import JournalRow, stamp_rows
from tests.unit.journal.rows import NOW, row, sha

DECISIONS = list(Decision)
BODY_NAMES = ["", "a", "b", "c"]


@dataclass(frozen=True)
class DraftRow:
    """One row in the making. ``of`` picks an earlier item of those there are; None makes a new one."""

    of: int | None
    decision: Decision
    event: int
    entity: int
    content: int
    fact: int | None
    due_s: int | None
    blocking: bool
    conflict: bool
    command: bool


steps = st.builds(
    DraftRow,
    of=st.none() | st.integers(0, 30),
    decision=st.sampled_from(DECISIONS),
    event=st.integers(0, 5),
    entity=st.integers(0, 2),
    content=st.integers(0, 3),
    fact=st.none() | st.integers(0, 2),
    due_s=st.none() | st.integers(-3, 3),
    blocking=st.booleans(),
    conflict=st.booleans(),
    command=st.booleans(),
)


@st.composite
def histories(draw: st.DrawFn, size_max: int = 30) -> list[JournalRow]:
    """Rows with their hashes, in seq order from 1."""
    rows: list[JournalRow] = []
    for seq, step in enumerate(draw(st.lists(steps, min_size=1, max_size=size_max)), 1):
        firsts = [one for one in rows if one.first]
        of = firsts[step.of % len(firsts)] if step.of is not None and firsts else None
        rows.append(_new(seq, step, len(firsts), _purged(rows)) if of is None else _later(seq, step, of))
    stamp_rows(rows, 1, 1)
    return rows


def _purged(rows: Sequence[JournalRow]) -> set[str]:
    return {one.event_key for one in rows if one.decision is Decision.PURGED and one.event_key is not None}


def _new(seq: int, step: DraftRow, offset: int, purged: set[str]) -> JournalRow:
    """A purged event's key stays held: what comes under it again is a duplicate or a conflict."""
    dead_conflict = step.decision is Decision.DEAD and step.conflict
    if f"stripe:evt_{step.event}:x" in purged and not dead_conflict:
        step = replace(step, decision=Decision.DUPLICATE)
    return row(
        seq,
        offset,
        event_key=None if step.command and step.event == 0 else f"stripe:evt_{step.event}:x",
        entity_key=f"entity-{step.entity}",
        content_sha256=sha(f"content {step.content}"),
        content_version=step.content,
        fact_key=None if step.fact is None else f"fact-{step.fact}",
        fact_sha256=None if step.fact is None else sha(f"fact {step.fact} {step.content}"),
        body_sha256=sha(BODY_NAMES[step.content]),
        decision=step.decision,
        error_class="EventConflict" if dead_conflict else None,
        headers='{"ce_id":"ä"}',
        **_waiting(step),
    )


def _later(seq: int, step: DraftRow, of: JournalRow) -> JournalRow:
    same = ("event_key", "entity_key", "content_sha256", "content_version", "fact_key", "fact_sha256", "body_sha256")
    identities = {name: getattr(of, name) for name in same}
    return row(
        seq, of.offset, item_seq=of.seq, first=False, decision=step.decision, attempt=1, **identities, **_waiting(step)
    )


def _waiting(step: DraftRow) -> dict[str, object]:
    if step.decision not in OPEN_DECISIONS:
        return {}
    due_at = None if step.due_s is None else NOW + timedelta(seconds=step.due_s)
    return {"blocking": step.blocking, "due_at": due_at}


def bodies() -> dict[str, bytes]:
    """Every body that a history refers to."""
    return {hashlib.sha256(name.encode()).hexdigest(): name.encode() for name in BODY_NAMES}


def portions(rows: Sequence[JournalRow], cuts: Sequence[int]) -> Iterator[list[JournalRow]]:
    """The rows as batches that end where ``cuts`` say."""
    places = sorted({cut % len(rows) for cut in cuts} - {0})
    for since, until in zip([0, *places], [*places, len(rows)], strict=True):
        yield list(rows[since:until])
