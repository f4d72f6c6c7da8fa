"""What was proposed (reversals, entries by hand, reprocessing), and whether another person approved it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from core.decision import Decision
from core.errors import PayhookError
from dlq.commands import (
    APPROVES,
    PROPOSE_ENTRY,
    PROPOSE_REPROCESS,
    PROPOSE_REVERSAL,
    Command,
    CommandInvalid,
    decode,
)
from dlq.orders import command_entity
from journal.bodies import BodyStore
from journal.reader import lineage_of
from journal.schema import JournalRow
from ledger.reversals.bookings import rows_where

PROPOSALS = (PROPOSE_REVERSAL, PROPOSE_ENTRY, PROPOSE_REPROCESS)
APPROVALS = tuple(act for act, proposal in APPROVES.items() if proposal in PROPOSALS)
_BOOKED = (Decision.REVERSED, Decision.APPLIED, Decision.REPLAYED)

PROPOSALS_MAX = 1_000
"""The newest that are read."""


class ProposalUnknown(PayhookError):
    """There is no such proposal to approve."""

    def __init__(self, command_id: str, problem: str) -> None:
        self.command_id = command_id
        self.problem = problem
        super().__init__(f"proposal {command_id}: {problem}. `payhook ledger proposals` lists what can be approved")


@dataclass(frozen=True, slots=True)
class Proposed:
    """A proposal as the journal holds it. ``approved``: what it asks for was done. ``outdated``: the journal
    was restored since, so that an approval would be refused."""

    row: JournalRow
    command: Command
    approved: bool
    outdated: bool

    @property
    def waits(self) -> bool:
        """Whether another person can approve it."""
        return not (self.approved or self.outdated)

    @property
    def state(self) -> str:
        """For people."""
        return "approved" if self.approved else "older than a restore" if self.outdated else "waits"


def proposals(journal: str, bodies: str, control_topic: str) -> list[Proposed]:
    """What was proposed and taken down, newest first."""
    is_command = (pc.field("topic") == control_topic) & pc.field("first")
    acts = pa.array([*PROPOSALS, *APPROVALS], pa.string())
    rows = rows_where(journal, is_command & pc.field("event_type").isin(acts))
    taken = [row for row in rows if row.event_type in PROPOSALS and row.decision is Decision.RESOLVED]
    newest = taken[: -PROPOSALS_MAX - 1 : -1]
    approvals = [row for row in rows if row.event_type in APPROVALS and row.decision in _BOOKED]
    found, lineage = _commands(bodies, [*newest, *approvals]), lineage_of(journal)
    approved = {
        command.proposal.command_id
        for row in approvals
        if (command := found.get(row.seq)) is not None and command.proposal is not None
    }
    return [
        Proposed(row, command, command.command_id in approved, outdated=command.lineage != lineage)
        for row in newest
        if (command := found.get(row.seq)) is not None
    ]


def proposal(journal: str, bodies: str, control_topic: str, command_id: str) -> Proposed:
    """One that waits for its approval.

    :raises ProposalUnknown: there is none of this id, it was refused, or it was approved before
    """
    named = (pc.field("topic") == control_topic) & (pc.field("entity_key") == command_entity(command_id))
    rows = [row for row in rows_where(journal, named) if row.first and row.event_type in PROPOSALS]
    if not rows:
        raise ProposalUnknown(command_id, "there is none, or the processor hasn't come to it yet")
    if rows[0].decision is not Decision.RESOLVED:
        raise ProposalUnknown(command_id, f"it was refused: {rows[0].reason}")
    for found in proposals(journal, bodies, control_topic):
        if found.command.command_id == command_id:
            if found.approved:
                raise ProposalUnknown(command_id, "it was approved before")
            if found.outdated:
                raise ProposalUnknown(command_id, "the journal was restored since: propose it again")
            return found
    raise ProposalUnknown(command_id, "its bytes aren't kept any more, or older code wrote them: propose it again")


def _commands(bodies: str, rows: Sequence[JournalRow]) -> dict[int, Command]:
    """The commands of control rows, by their seq; one whose bytes are gone is left out."""
    if not rows:
        return {}
    kept = BodyStore(bodies, may_create=False).fetch([row.body_sha256 for row in rows if row.body_sha256 is not None])
    commands: dict[int, Command] = {}
    for row in rows:
        try:
            commands[row.seq] = decode(kept[row.body_sha256 or ""])
        except (KeyError, CommandInvalid):
            continue
    return commands
