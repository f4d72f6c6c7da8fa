"""Why an order does nothing to one of its items: a word to decide by, and a sentence to show."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dlq.command import Target


class Ground(StrEnum):
    """What stands against an item."""

    NOT_OPEN = "not_open"
    MOVED = "moved"
    """It has another row than the one that was seen."""
    RESTORED = "restored"
    """The row of the seq that was seen is another one by now: an older copy of the journal was put back."""
    NOT_DEAD = "not_dead"
    HEAD_DEAD = "head_dead"
    """It would die again with an earlier event of its entity."""
    KEY_HELD = "key_held"
    """Other content holds its event key."""
    HAS_PLACE = "has_place"
    """It isn't superseded."""
    PLACE_LOST = "place_lost"
    WORN_OUT = "worn_out"
    """The loop guard's."""
    NOT_WHOLE = "not_whole"
    """Of its entity not all that is dead would go with it."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """``why`` names the item and says what to do."""

    ground: Ground
    why: str


def restored(target: Target) -> Refusal:
    """Of a target whose row isn't the one that was seen."""
    item, row = target.item_seq, target.seen_seq
    why = f"item {item} has another row {row} than the one that was seen: the journal was restored since; look again"
    return Refusal(Ground.RESTORED, why)


def older_than_restore(seen: str, now: str) -> str | None:
    """Why nothing of a command is done that was given to a journal of the lineage ``seen``; None: it is this one's."""
    if seen == now:
        return None
    return f"the journal was restored since it was given (lineage {seen}, now {now}); look again"


def worn_out(item_seq: int, replays: int, replays_max: int) -> Refusal | None:
    """Why the loop guard refuses a dead item; None: it doesn't."""
    if replays < replays_max:
        return None
    why = f"item {item_seq} was replayed {replays} times and died each time: mend its cause, then force it"
    return Refusal(Ground.WORN_OUT, why)
