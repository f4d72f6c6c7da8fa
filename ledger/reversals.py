"""Acts that take two people: bookings to be reversed, entries by hand, and the proposals that wait for an approval."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from core.decision import Decision
from core.errors import PayhookError
from core.layout import StreamLayout
from core.work import Posting, postings_from_json, reversed_postings
from journal.bodies import BodyStore
from journal.reader import lineage_of, rows_where
from journal.schema import JournalRow
from ledger.accounts import is_account
from ledger.queries.journals import LedgerJournals
from operations.command import APPROVES, PROPOSE_ENTRY, PROPOSE_REVERSAL, Command, CommandInvalid
from operations.commands import decode
from operations.entry import ManualEntry, check_booking
from operations.orders import command_entity


class NotReversible(PayhookError):
    def __init__(self, key: str, problem: str) -> None:
        self.key = key
        self.problem = problem
        super().__init__(f"{key}: {problem}; nothing was sent")


def build_reversal(booking: JournalRow) -> tuple[Posting, ...]:
    return reversed_postings(postings_from_json(booking.postings))


def find_bookings(journal: str, keys: Sequence[str]) -> list[JournalRow]:
    """Finds the row by which each event key or fact key booked something.

    :param journal: the path of the ledger's journal
    :raises NotReversible: one of them booked nothing, or was reversed before
    """
    names = pa.array(keys, pa.string())
    rows = rows_where(journal, pc.field("event_key").isin(names) | pc.field("fact_key").isin(names))
    return [
        _find_booking(key, [row for row in rows if key in (row.event_key, row.fact_key)]) for key in dict.fromkeys(keys)
    ]


def _find_booking(key: str, rows: Collection[JournalRow]) -> JournalRow:
    booked = [row for row in rows if row.decision is Decision.APPLIED and row.postings is not None]
    if not rows:
        raise NotReversible(key, "there is no such event or fact")
    if not booked:
        raise NotReversible(key, f"it booked nothing: {', '.join(sorted({row.decision.value for row in rows}))}")
    items = {row.item_seq for row in booked}
    if any(row.decision is Decision.REVERSED and row.item_seq in items for row in rows):
        raise NotReversible(key, "it was reversed before")
    return booked[0]


_CHUNK_BYTES = 1 << 20


class EntryUnfit(PayhookError):
    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"{problem}; nothing was sent")


def build_entry(
    entity_key: str, occurred_at: datetime, evidence_sha256: str, postings: Sequence[Posting]
) -> ManualEntry:
    """
    :raises EntryUnfit: an account isn't one of the chart
    :raises CommandInvalid: it doesn't balance, or has a wrong amount or number of lines
    """
    for line in postings:
        if not is_account(line.account):
            raise EntryUnfit(
                f"{line.account!r} isn't an account of the ledger: `payhook ledger balances` lists those that are in "
                "use, docs/finance.md what each is for"
            )
    check_booking(postings)
    return ManualEntry(entity_key, occurred_at, evidence_sha256, tuple(postings))


def hash_evidence(path: Path) -> str:
    """
    :raises EntryUnfit: it can't be read, or is empty
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as document:
            size = 0
            while chunk := document.read(_CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
    except OSError as wrong:
        raise EntryUnfit(f"the evidence can't be read: {wrong}") from wrong
    if size == 0:
        raise EntryUnfit(f"the evidence {path} is empty")
    return digest.hexdigest()


PROPOSALS = (PROPOSE_REVERSAL, PROPOSE_ENTRY)
APPROVALS = tuple(act for act, proposal in APPROVES.items() if proposal in PROPOSALS)
_BOOKED = (Decision.REVERSED, Decision.APPLIED, Decision.REPLAYED)

PROPOSALS_MAX = 1_000


class ProposalUnknown(PayhookError):
    def __init__(self, command_id: str, problem: str) -> None:
        self.command_id = command_id
        self.problem = problem
        super().__init__(f"proposal {command_id}: {problem}. `payhook ledger proposals` lists what can be approved")


@dataclass(frozen=True, slots=True)
class ReadProposal:
    """A proposal as the journal holds it. ``approved``: what it asks for was done.

    ``outdated``: the journal was restored since, so that an approval would be refused. ``moved``: another journal has
    what it is about.
    """

    row: JournalRow
    command: Command
    approved: bool
    outdated: bool
    moved: bool = False

    @property
    def waits(self) -> bool:
        return not (self.approved or self.outdated or self.moved)

    @property
    def state(self) -> str:
        if self.approved:
            return "approved"
        return "older than a restore" if self.outdated else "older than a split" if self.moved else "waits"


def read_all_proposals(ledger: LedgerJournals, control_topic: str) -> list[ReadProposal]:
    if not ledger.is_divided:
        return read_proposals(str(ledger.first_place.journal), str(ledger.first_place.bodies_table), control_topic)
    every = [proposal for at in ledger.places for proposal in _read_own_proposals(ledger, at, control_topic)]
    return sorted(every, key=lambda proposal: (proposal.row.decided_at, proposal.row.seq), reverse=True)[:PROPOSALS_MAX]


def _read_own_proposals(ledger: LedgerJournals, at: StreamLayout, control_topic: str) -> list[ReadProposal]:
    own_after = ledger.own_after(at)
    own = [
        proposal
        for proposal in read_proposals(str(at.journal), str(at.bodies_table), control_topic)
        if proposal.row.seq > own_after
    ]
    return [replace(proposal, moved=proposal.waits and _has_moved(ledger, at, proposal.command)) for proposal in own]


def _has_moved(ledger: LedgerJournals, at: StreamLayout, command: Command) -> bool:
    if command.entry is not None:
        return not ledger.decides_entity(at, command.entry.entity_key)
    named = pa.array([target.seen_seq for target in command.targets], pa.int64())
    return not all(ledger.is_decided_in(at, row) for row in rows_where(at.journal, pc.field("seq").isin(named)))


def find_proposed_journal(ledger: LedgerJournals, control_topic: str, command_id: str) -> StreamLayout:
    """Finds the journal that a proposal is for. Each has a row of it; the first one, where none knows it."""
    if ledger.is_divided:
        named = (pc.field("topic") == control_topic) & (pc.field("entity_key") == command_entity(command_id))
        for at in ledger.places:
            for command in _read_commands(str(at.bodies_table), rows_where(at.journal, named)).values():
                return ledger.find_place(command.stream)
    return ledger.first_place


def find_waiting_proposal(ledger: LedgerJournals, control_topic: str, command_id: str) -> ReadProposal:
    """Finds a proposal (`find_proposal`) in whichever journal it is for.

    :raises ProposalUnknown: no such proposal waits, or its entity is decided in another journal now
    """
    at = find_proposed_journal(ledger, control_topic, command_id)
    proposed = find_proposal(str(at.journal), str(at.bodies_table), control_topic, command_id)
    if ledger.is_divided and _has_moved(ledger, at, proposed.command):
        raise ProposalUnknown(command_id, "its entity belongs to another shard now: propose it again")
    return proposed


def read_proposals(journal: str, bodies: str, control_topic: str) -> list[ReadProposal]:
    is_command = (pc.field("topic") == control_topic) & pc.field("first")
    acts = pa.array([*PROPOSALS, *APPROVALS], pa.string())
    rows = rows_where(journal, is_command & pc.field("event_type").isin(acts))
    accepted = [row for row in rows if row.event_type in PROPOSALS and row.decision is Decision.RESOLVED]
    newest = accepted[: -PROPOSALS_MAX - 1 : -1]
    approvals = [row for row in rows if row.event_type in APPROVALS and row.decision in _BOOKED]
    commands, lineage = _read_commands(bodies, [*newest, *approvals]), lineage_of(journal)
    approved = {
        command.proposal.command_id
        for row in approvals
        if (command := commands.get(row.seq)) is not None and command.proposal is not None
    }
    return [
        ReadProposal(row, command, command.command_id in approved, outdated=command.lineage != lineage)
        for row in newest
        if (command := commands.get(row.seq)) is not None
    ]


def find_proposal(journal: str, bodies: str, control_topic: str, command_id: str) -> ReadProposal:
    """Finds a proposal that waits for its approval.

    :raises ProposalUnknown: there is none of this id, it was refused, or it was approved before
    """
    named = (pc.field("topic") == control_topic) & (pc.field("entity_key") == command_entity(command_id))
    rows = [row for row in rows_where(journal, named) if row.first and row.event_type in PROPOSALS]
    if not rows:
        raise ProposalUnknown(command_id, "there is none, or the processor hasn't come to it yet")
    if rows[0].decision is not Decision.RESOLVED:
        raise ProposalUnknown(command_id, f"it was refused: {rows[0].reason}")
    for proposed in read_proposals(journal, bodies, control_topic):
        if proposed.command.command_id == command_id:
            if proposed.approved:
                raise ProposalUnknown(command_id, "it was approved before")
            if proposed.outdated:
                raise ProposalUnknown(command_id, "the journal was restored since: propose it again")
            return proposed
    raise ProposalUnknown(command_id, "its bytes are kept no more, or lie in a lost file: propose it again")


def _read_commands(bodies: str, rows: Sequence[JournalRow]) -> dict[int, Command]:
    if not rows:
        return {}
    stored_bodies = BodyStore(bodies, may_create=False).fetch(
        [row.body_sha256 for row in rows if row.body_sha256 is not None]
    )
    commands: dict[int, Command] = {}
    for row in rows:
        try:
            commands[row.seq] = decode(stored_bodies[row.body_sha256 or ""])
        except (KeyError, CommandInvalid):
            continue
    return commands
