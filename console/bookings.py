"""What two people book in a ledger (entries, reversals, reprocessing): proposed by one and approved by another."""

from __future__ import annotations

from collections.abc import Sequence

from console.access.users import Users, hands_of
from core.clock import Clock
from core.errors import PayhookError
from core.layout import StreamLayout
from dlq.commands import Command, Producer, approve, propose_entry, send
from dlq.entry import Entry
from dlq.hands import in_common, same_person
from dlq.witness import Recorder, witnessed
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


class BookingService:
    """Blocks; threads may share it. Every act through it is on record, each refusal too.

    ``channel``: through which acts come, ``page`` or ``api``.
    """

    def __init__(
        self,
        ledger: StreamLayout,
        control_topic: str,
        producer: Producer,
        users: Users,
        acts: Recorder,
        clock: Clock,
        channel: str,
    ) -> None:
        self._ledger = ledger
        self._control_topic = control_topic
        self._producer = producer
        self._users = users
        self._acts = acts
        self._clock = clock
        self._channel = channel

    def proposals(self) -> Sequence[Proposed]:
        """What was proposed, newest first, and what became of it."""
        return proposals(*self._tables())

    def propose_entry(self, entry: Entry, actor: str, reason: str) -> Command:
        """Sends a proposal; the processor takes it down.

        :raises CommandNotSent: Kafka didn't acknowledge it
        :raises ActsUnwritable: it can't be put on record
        """
        hands = hands_of(self._users.all(), actor) - same_person(actor)
        lineage, stream = lineage_of(str(self._ledger.journal)), self._ledger.stream
        with witnessed(
            self._acts, self._clock, actor, self._channel, "propose_entry", f"{stream} {entry.entity_key}", reason
        ) as act:
            command = propose_entry(stream, lineage, entry, actor, reason, self._clock.now(), hands)
            send(self._producer, command, self._control_topic)
            act.after = f"proposal {command.command_id}"
            return command

    def approve(self, command_id: str, actor: str, reason: str) -> Command:
        """Sends the approval of a proposal that waits; the processor books it, once.

        :raises ProposalUnknown: there is none that waits
        :raises AnotherPersonWanted: it is one's own, or of somebody who could be oneself
        :raises CommandNotSent: Kafka didn't acknowledge it
        :raises ActsUnwritable: it can't be put on record
        """
        what = f"{self._ledger.stream} proposal {command_id}"
        with witnessed(self._acts, self._clock, actor, self._channel, "approve_booking", what, reason) as act:
            found = proposal(*self._tables(), command_id).command
            known = self._users.all()
            if in_common({*found.hands, *hands_of(known, found.actor)}, hands_of(known, actor)):
                raise AnotherPersonWanted(command_id, found.actor, actor)
            approval = approve(found, actor, reason, self._clock.now())
            send(self._producer, approval, self._control_topic)
            act.after = f"command {approval.command_id}"
            return approval

    def _tables(self) -> tuple[str, str, str]:
        return str(self._ledger.journal), str(self._ledger.bodies), self._control_topic
