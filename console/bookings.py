"""What two people book in a ledger (entries, reversals, reprocessing): proposed by one and approved by another."""

from __future__ import annotations

from collections.abc import Sequence

from console.access.users import Users, hands_of
from core.clock import Clock
from core.errors import PayhookError
from core.layout import StreamLayout
from dlq.commands import Command, approve, propose_entry
from dlq.entry import Entry
from dlq.hands import in_common, same_person
from dlq.orders import Orders
from journal.reader import lineage_of
from ledger.reversals import Proposed, proposal, proposals


class AnotherPersonWanted(PayhookError):
    """An approval by one who proposed it, or who could have."""

    def __init__(self, command_id: str, proposer: str, approver: str) -> None:
        self.command_id = command_id
        self.proposer = proposer
        self.approver = approver
        could = "" if same_person(proposer) == same_person(approver) else f", and {approver} could have in their name"
        super().__init__(f"{proposer} proposed it{could}: another person approves it; nothing was booked")


class BookingDesk:
    """Blocks; threads may share it."""

    def __init__(
        self,
        ledger: StreamLayout,
        control_topic: str,
        orders: Orders,
        users: Users,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._control_topic = control_topic
        self._orders = orders
        self._users = users
        self._clock = clock

    def proposals(self) -> Sequence[Proposed]:
        """What was proposed, newest first, and what became of it."""
        return proposals(*self._tables())

    def propose_entry(self, entry: Entry, actor: str, reason: str) -> Command:
        """Sends a proposal; the processor takes it down.

        :raises CommandNotSent: Kafka didn't acknowledge it
        :raises AuditLogUnwritable: it can't be put on record
        """
        hands = hands_of(self._users.all(), actor) - same_person(actor)
        lineage, stream = lineage_of(str(self._ledger.journal)), self._ledger.stream
        command = propose_entry(stream, lineage, entry, actor, reason, self._clock.now(), hands)
        self._orders.send(command, f"{stream} {entry.entity_key}")
        return command

    def approve(self, command_id: str, actor: str, reason: str) -> Command:
        """Sends the approval of a proposal that waits; the processor books it, once.

        :raises ProposalUnknown: there is none that waits
        :raises AnotherPersonWanted: it is one's own, or of somebody who could be oneself
        :raises CommandNotSent: Kafka didn't acknowledge it
        :raises AuditLogUnwritable: it can't be put on record
        """
        what = f"{self._ledger.stream} proposal {command_id}"
        with self._orders.giving(actor, "approve_booking", what, reason) as giving:
            found = proposal(*self._tables(), command_id).command
            known = self._users.all()
            if in_common({*found.hands, *hands_of(known, found.actor)}, hands_of(known, actor)):
                raise AnotherPersonWanted(command_id, found.actor, actor)
            approval = approve(found, actor, reason, self._clock.now())
            giving.send(approval)
            return approval

    def _tables(self) -> tuple[str, str, str]:
        return str(self._ledger.journal), str(self._ledger.bodies), self._control_topic
