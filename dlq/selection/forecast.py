"""What a replay of one item would do, by what is known of it now. The processor stays the judge."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dlq.acceptance import worn_out
from dlq.board.item import Entry, ItemState, Mark
from dlq.commands import ReplayMode, Target


class Verdict(StrEnum):
    """What would become of an item."""

    IN_PLACE = "in_place"
    """It runs before every later event of its entity."""
    BEHIND = "behind"
    """Its place is gone: it runs behind what was applied since."""
    POISON = "poison"
    """Its bytes are read again, by the adapter as it is now."""
    HELD = "held"
    """Another dead event of its entity stands before it and isn't in the selection."""
    MOVED = "moved"
    """It has another row since it was frozen: refused."""
    DONE = "done"
    """It ended since it was frozen: nothing is to be done."""
    CONFLICT = "conflict"
    """Its key or fact is held with other content: it would die again."""
    NO_BODY = "no_body"
    """Its bytes aren't kept any more: it can't run."""
    LOOP = "loop"
    """It was replayed in vain too often: refused, unless forced."""
    REFUSED = "refused"
    """The asked mode isn't for it."""


RUNS = frozenset({Verdict.IN_PLACE, Verdict.BEHIND, Verdict.POISON})


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of an item. ``entry``: as the board has it; None: it doesn't hold it.

    ``applied_after``: the latest event of its entity that came after it and is applied. ``dead_before``: the first dead
    one that came before it and isn't in the selection. ``followers`` wait for it. ``has_body``: its bytes are there.
    """

    target: Target
    entry: Entry | None
    applied_after: int | None
    dead_before: int | None
    followers: int
    has_body: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """How the replay is meant. ``dead_head``: what followers of a dead event do in this stream (`continue`,
    `die_with_it`, `wait`). ``replays_max``: of the loop guard."""

    mode: ReplayMode = ReplayMode.ALONE
    dead_head: str = "wait"
    in_place: bool = False
    force: bool = False
    replays_max: int = 5


@dataclass(frozen=True, slots=True)
class Forecast:
    """``followers`` run after it by themselves."""

    target: Target
    verdict: Verdict
    why: str
    followers: int


def forecast(facts: Facts, asked: Asked) -> Forecast:
    """What the processor would say, as far as that can be known before."""
    verdict, why = _verdict(facts, asked)
    return Forecast(facts.target, verdict, why, facts.followers if verdict in RUNS else 0)


def _verdict(facts: Facts, asked: Asked) -> tuple[Verdict, str]:
    entry, target = facts.entry, facts.target
    if entry is None:
        return Verdict.DONE, "it isn't open any more"
    if entry.state not in (ItemState.OPEN, ItemState.WAITING):
        return Verdict.DONE, f"{entry.decision} since (row {entry.seen_seq})"
    if entry.seen_seq != target.seen_seq:
        return Verdict.MOVED, f"{entry.decision} in row {entry.seen_seq}, frozen at row {target.seen_seq}: select anew"
    return _standing(facts, entry, asked)


def _standing(facts: Facts, entry: Entry, asked: Asked) -> tuple[Verdict, str]:
    """Of an item that is as it was frozen."""
    if not facts.has_body:
        return Verdict.NO_BODY, f"body {entry.body_sha256} isn't kept any more: resolve or purge it"
    if entry.mark == Mark.CONFLICT:
        return Verdict.CONFLICT, "its key or fact is held with other content: that one must be purged first"
    if not asked.force and (worn := worn_out(entry.item_seq, entry.replays, asked.replays_max)) is not None:
        return Verdict.LOOP, worn
    if facts.dead_before is not None and (held := _held(facts.dead_before, asked)) is not None:
        return Verdict.HELD, held
    if entry.mark == Mark.POISON:
        return Verdict.POISON, "its bytes are read again, and it runs at the end of whatever entity they name"
    return _place(facts, entry, asked)


def _held(head: int, asked: Asked) -> str | None:
    if asked.dead_head == "die_with_it":
        return f"item {head} of its entity is dead before it, and it would die with that one: replay that one too"
    if asked.dead_head == "wait":
        return f"item {head} of its entity is dead before it: it would wait until that one is decided"
    return None


def _place(facts: Facts, entry: Entry, asked: Asked) -> tuple[Verdict, str]:
    is_passed = not entry.blocking and facts.applied_after is not None
    if is_passed and asked.in_place:
        return Verdict.REFUSED, f"item {facts.applied_after} was applied since, and in place was asked for"
    if is_passed:
        return Verdict.BEHIND, f"its place is gone: it runs behind item {facts.applied_after}"
    if asked.mode is ReplayMode.SUPERSEDED:
        return Verdict.REFUSED, "nothing was applied after it: it isn't superseded"
    return Verdict.IN_PLACE, "before every later event of its entity"
