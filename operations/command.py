"""Commands of operators: their actions, how large an order may be, and their parts."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from core.clock import from_rfc3339
from core.errors import PayhookError
from core.visible import KEPT_CHARS_MAX, is_kept_text
from journal.target import HASH_CHARS, ItemTarget

if TYPE_CHECKING:
    from operations.entry import ManualEntry

SEQ_MAX = 2**63 - 1
HASH_PATTERN = f"[0-9a-f]{{{HASH_CHARS}}}"
_HASH = re.compile(HASH_PATTERN)
_TEXT = re.compile(f"([1-9][0-9]{{0,18}})[.]([1-9][0-9]{{0,18}})[.]({HASH_PATTERN})")

Word = TypeVar("Word", bound=StrEnum)


def text_of(tree: Mapping[str, Any], name: str) -> str:
    value = tree[name]
    if not isinstance(value, str) or not is_kept_text(value):
        raise CommandInvalid(f"{name}: expected printable text of 1 to {KEPT_CHARS_MAX} characters")
    return value


def time_of(tree: Mapping[str, Any], name: str) -> datetime:
    try:
        return from_rfc3339(text_of(tree, name))
    except ValueError as wrong:
        raise CommandInvalid(f"{name}: {wrong}") from wrong


def word_of(tree: Mapping[str, Any], name: str, words: type[Word]) -> Word | None:
    if name not in tree:
        return None
    try:
        return words(tree[name])
    except ValueError as wrong:
        raise CommandInvalid(f"{name}: expected {' or '.join(words)}") from wrong


def flag_of(tree: Mapping[str, Any], name: str) -> bool:
    value = tree.get(name, False)
    if type(value) is not bool:
        raise CommandInvalid(f"{name}: expected true or false")
    return value


def targets_of(tree: Mapping[str, Any], name: str, most: int) -> tuple[ItemTarget, ...]:
    value = tree[name]
    if not isinstance(value, list) or not 0 < len(value) <= most:
        raise CommandInvalid(f"{name}: expected a list of 1 to {most} targets")
    targets = tuple(_parse_target(item, name) for item in value)
    if len({target.item_seq for target in targets}) != len(targets):
        raise CommandInvalid(f"{name}: an item is named twice")
    return targets


def _parse_target(item: object, name: str) -> ItemTarget:
    match item:
        case [int() as item_seq, int() as seen_seq, str() as seen_hash] if (
            0 < item_seq <= seen_seq <= SEQ_MAX and type(item_seq) is int and _HASH.fullmatch(seen_hash)
        ):
            return ItemTarget(item_seq, seen_seq, seen_hash)
    raise CommandInvalid(
        f"{name}: expected [item_seq, seen_seq, seen_hash] for each, the first not above the second, the third the "
        f"first {HASH_CHARS} hex digits of that row's hash; list the items again, and order what you then see"
    )


def target_of_text(text: str) -> ItemTarget:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise CommandInvalid(f"{text[:60]!r} names no item as it was seen; list the items again")
    return _parse_target([int(match[1]), int(match[2]), match[3]], "item")


CONTROL_TOPIC = "payments.control"
REPLAY, PURGE, RESOLVE, RELEASE = "replay", "purge", "resolve", "release"
PROPOSE_REVERSAL, REVERSE = "propose_reversal", "reverse"
PROPOSE_ENTRY, BOOK_ENTRY = "propose_entry", "book_entry"
PROPOSE_RUN, RUN = "propose_run_selection", "run_selection"
PAUSE_RUN, RESUME_RUN, CANCEL_RUN = "pause_run", "resume_run", "cancel_run"

APPROVES = {REVERSE: PROPOSE_REVERSAL, BOOK_ENTRY: PROPOSE_ENTRY, RUN: PROPOSE_RUN}
"""The proposal of each act: a second person approves it by giving the act."""

APPROVED_ALWAYS = frozenset({REVERSE, BOOK_ENTRY, RELEASE})
"""Actions, and acts of a run, that always take two people."""

REVERSAL_ACTIONS = frozenset({PROPOSE_REVERSAL, REVERSE})
"""Acts on bookings, which two people reverse."""

ENTRY_ACTIONS = frozenset({PROPOSE_ENTRY, BOOK_ENTRY})
"""A booking by hand, by two people. They carry an entry in place of targets."""

RUN_ACTIONS = frozenset({RUN, PROPOSE_RUN, PAUSE_RUN, RESUME_RUN, CANCEL_RUN})
"""Acts on the run of a frozen selection, which they name by its digest in place of targets."""

RUN_ACTS = (REPLAY, PURGE, RESOLVE, RELEASE)
"""A run does one of these with each item of its selection. A command of its own replays items too, and closes none."""

ACTIONS = frozenset({REPLAY}) | REVERSAL_ACTIONS | ENTRY_ACTIONS | RUN_ACTIONS
TARGETS_MAX = 5_000
REVERSALS_MAX = 100
"""Bookings of one reversal: each is read again from the journal while the stream waits."""


COMMAND_BYTES_MAX = 900_000
"""Below Kafka's default of 1 MiB a record; 5,000 targets take 305 KB."""

PER_S_MIN, PER_S_MAX = 0.01, 100_000.0
"""Limits of the items a second of a run that is given a rate."""


class CommandInvalid(PayhookError):
    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"not a command: {problem}")


def new_command_id() -> str:
    """Makes an id for an order that nobody gives twice. An order that may be repeated has the id of its request
    (`ingest.idempotency.store.IdempotentRun.request_id`) or of its selection (`operations.frozen.command_id_of`)."""
    return uuid.uuid4().hex


class ReplayMode(StrEnum):
    ALONE = "alone"
    """Each item for itself."""
    WITH_FOLLOWERS = "with_followers"
    """All dead items of each entity from its first target on, in Kafka's order: all of it, or none."""


@dataclass(frozen=True, slots=True)
class ApprovedProposal:
    """The proposal that a command approves: who made it, why and when. Its targets and its entry are the approval's."""

    command_id: str
    actor: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Command:
    """An operator's act on items of one stream. ``command_id`` makes copies of it harmless.

    ``lineage``: of the journal in which its targets were seen; a restore renews that, so that no command of before one
    is carried out. An approval has its proposal's.
    ``proposal``: the command that this act approves (`APPROVES`), whole. ``entry``: what is to be booked, of those that
    have no targets (`ENTRY_ACTIONS`).

    The rest is of `RUN_ACTIONS` alone. ``selection``: the digest of the frozen set that is run, paused and so on.
    ``act``: what its run does with each item (`RUN_ACTS`). Of a replay: ``mode`` (see `ReplayMode`); ``force``, which
    replays items even after `dlq.replays_max` failed replays; ``per_s``, items a second, None: as fast as live traffic
    allows.
    """

    command_id: str
    stream: str
    lineage: str
    action: str
    targets: tuple[ItemTarget, ...]
    actor: str
    reason: str
    at: datetime
    proposal: ApprovedProposal | None = None
    mode: ReplayMode = ReplayMode.ALONE
    force: bool = False
    entry: ManualEntry | None = None
    selection: str = ""
    act: str = ""
    per_s: float | None = None

    @classmethod
    def with_new_id(
        cls,
        stream: str,
        lineage: str,
        action: str,
        targets: Sequence[ItemTarget],
        actor: str,
        reason: str,
        at: datetime,
    ) -> Command:
        return cls(new_command_id(), stream, lineage, action, tuple(targets), actor, reason, at)

    @property
    def proposed_command(self) -> Command:
        assert self.proposal is not None
        first = self.proposal
        return replace(
            self,
            command_id=first.command_id,
            action=APPROVES[self.action],
            actor=first.actor,
            reason=first.reason,
            at=first.at,
            proposal=None,
        )

    def make_portion(self, targets: Sequence[ItemTarget]) -> Portion:
        """Makes the command for some items of a run. At a rate they are due one after another. With followers all are
        due at once: no entity is held for as long as its length takes at that rate."""
        spread = self.per_s is not None and len(targets) > 1 and self.mode is not ReplayMode.WITH_FOLLOWERS
        return Portion(
            **{field.name: getattr(self, field.name) for field in fields(Command) if field.name not in _OF_A_RUN},
            action=self.act,
            targets=tuple(targets),
            interval_us=round(1_000_000 / self.per_s) if spread and self.per_s else 0,
        )


_OF_A_RUN = frozenset({"action", "targets", "selection", "act", "per_s"})
"""Fields of a run's command that a portion of it has otherwise, or doesn't have."""


@dataclass(frozen=True, slots=True)
class Portion(Command):
    """A command for some items of a run. It is never sent: the processor makes it of the command that began the run.

    ``interval_us``: the k-th accepted target, from 0, is due k times so many microseconds after the decision.
    """

    interval_us: int = 0


def propose_entry(
    stream: str,
    lineage: str,
    entry: ManualEntry,
    actor: str,
    reason: str,
    at: datetime,
    command_id: str | None = None,
) -> Command:
    """Makes a command that asks for a booking by hand; nothing is booked before a second person approves it.

    ``command_id``: None is a new one.
    """
    named = command_id or new_command_id()
    return Command(named, stream, lineage, PROPOSE_ENTRY, (), actor, reason, at, entry=entry)


def approve(proposed: Command, actor: str, reason: str, at: datetime, command_id: str | None = None) -> Command:
    """Makes the command that does what was proposed. ``command_id``: None is a new one.

    :raises CommandInvalid: it isn't a proposal
    """
    action = next((act for act, proposal in APPROVES.items() if proposal == proposed.action), None)
    if action is None:
        raise CommandInvalid(f"{proposed.action} can't be approved: it isn't a proposal")
    proposal = ApprovedProposal(proposed.command_id, proposed.actor, proposed.reason, proposed.at)
    return replace(
        proposed,
        command_id=command_id or new_command_id(),
        action=action,
        actor=actor,
        reason=reason,
        at=at,
        proposal=proposal,
    )
