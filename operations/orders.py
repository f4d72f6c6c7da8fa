"""Orders: checked against the journal, sent as a command and acknowledged, and recorded in the audit log.

Nothing is sent of a part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from core.clock import Clock
from core.decision import Decision
from core.errors import PayhookError
from core.keys import join_key
from core.location import Location
from journal.journals import own_items
from journal.reader import lineage_of, rows_where
from journal.schema import JournalRow
from journal.target import ItemTarget
from operations.command import ACTIONS, APPROVES, REPLAY, Command
from operations.commands import CommandProducer, SentCommand, send
from operations.recorder import ActChanges, Recorder
from operations.refusals import refuse_restored

SENT_CHARS_MAX = 500
"""Characters of the ids of an act's commands in the audit log."""


class OrderRefused(PayhookError):
    """Nothing was sent. ``unknown`` are items that aren't there, ``moved`` those that aren't as the operator saw them;
    both map an item's number to a sentence.
    """

    def __init__(self, unknown: Mapping[int, str], moved: Mapping[int, str]) -> None:
        self.unknown = dict(unknown)
        self.moved = dict(moved)
        problems = "; ".join([*self.unknown.values(), *self.moved.values()])
        super().__init__(f"nothing was sent: {problems}")


@dataclass(frozen=True, slots=True)
class OrderedItem:
    """An ordered item. ``seen``: with its last row that the operator saw; None: whatever it is now."""

    item_seq: int
    seen: ItemTarget | None = None


@dataclass(frozen=True, slots=True)
class OperatorOrder:
    """A replay of dead items. ``command_id`` names it for ever: the same order is given the same one."""

    command_id: str
    items: tuple[OrderedItem, ...]
    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class PlacedOrder:
    control: SentCommand
    decided: JournalRow | None


class DeltaView:
    """The journal on Delta as it is now; empty if it isn't begun yet. Items that another journal continues aren't in
    it."""

    def __init__(self, journal: Location, control_topic: str) -> None:
        self._path = str(journal)
        self._control_topic = control_topic

    def lineage(self) -> str:
        return lineage_of(self._path)

    def last_rows(self, item_seqs: Collection[int]) -> dict[int, JournalRow]:
        last = {row.item_seq: row for row in rows_where(self._path, pc.field("item_seq").isin(sorted(item_seqs)))}
        if not last:
            return {}
        is_own = own_items(self._path)
        return {item_seq: row for item_seq, row in last.items() if is_own(row)}

    def command_row(self, command_id: str) -> JournalRow | None:
        # By the topic first: statistics pass over every file and row group that holds no command.
        is_command = (pc.field("topic") == self._control_topic) & pc.field("first")
        names = pa.array([join_key("payhook", command_id, action) for action in sorted(ACTIONS)], pa.string())
        return next(iter(rows_where(self._path, is_command & pc.field("event_key").isin(names))), None)


class OrderSender:
    """Sends commands to one control topic, each recorded in the audit log with what became of it. It blocks; threads
    may share it. ``producer`` is asked for when the first command goes out: an order that is refused needs no Kafka.
    ``check_actor`` gets each act's actor as it begins, and raises where they may order nothing.
    """

    def __init__(
        self,
        producer: Callable[[], CommandProducer],
        control_topic: str,
        recorder: Recorder,
        check_actor: Callable[[str], None] = lambda actor: None,
    ) -> None:
        self._producer = producer
        self._control_topic = control_topic
        self._recorder = recorder
        self._check_actor = check_actor

    def send(self, command: Command, what: str) -> SentCommand:
        """Sends a command that needs no check here; ``what`` says to people what it is about.

        :raises CommandNotSent: Kafka didn't acknowledge it; sending the same command again is safe
        :raises AuditLogUnwritable: it can't be recorded; the command was sent
        """
        with self.begin_act(command.actor, command.action, what, command.reason) as giving:
            return giving.send(command)

    def record_refusals(self, actor: str, action: str, what: str, reason: str) -> AbstractContextManager[None]:
        """Records in the audit log what a ``with`` raises that checks an order."""
        return self._recorder.record_refusals(actor, action, what, reason)

    @contextmanager
    def begin_act(self, actor: str, action: str, what: str, reason: str) -> Iterator[OrderAct]:
        """Records one act in the audit log: the ``with`` checks what is ordered and sends its commands."""
        with self._recorder.record_act(actor, action, what, reason) as changes:
            self._check_actor(actor)
            yield OrderAct(self._producer, self._control_topic, changes)


@dataclass(slots=True)
class OrderAct:
    producer: Callable[[], CommandProducer]
    control_topic: str
    changes: ActChanges
    sent: list[str] = field(default_factory=list)

    def send(self, command: Command) -> SentCommand:
        sent = send(self.producer(), command, self.control_topic)
        self.sent.append(command.command_id)
        called = "proposal" if command.action in APPROVES.values() else "command"
        self.changes.after = f"{called} {', '.join(self.sent)}"[:SENT_CHARS_MAX]
        return sent


class OrderService:
    """Orders replays of one stream's dead items. Its methods block: call them off the event loop. It is thread-safe."""

    def __init__(self, stream: str, journal: DeltaView, orders: OrderSender, clock: Clock) -> None:
        self._stream = stream
        self._journal = journal
        self._orders = orders
        self._clock = clock

    def place_order(self, order: OperatorOrder) -> PlacedOrder:
        """Sends the order's command, unless it was decided already.

        :raises OrderRefused: an item isn't there, or isn't dead as it was seen
        :raises CommandNotSent: Kafka didn't acknowledge it; giving the same order again is safe
        :raises AuditLogUnwritable: it can't be recorded; the command may have been sent
        """
        with self._orders.begin_act(order.actor, REPLAY, self._describe_items(order.items), order.reason) as giving:
            if (decided := self.find_decision(order.command_id)) is not None:
                giving.changes.after = f"command {order.command_id}"
                return PlacedOrder(SentCommand(decided.topic, decided.partition, decided.offset), decided)
            return PlacedOrder(giving.send(self._build_command(order)), None)

    def build_command(self, order: OperatorOrder) -> Command:
        """Makes the order's command and checks it, without sending it: orders on several streams are all checked before
        the first goes out. A refusal is recorded.

        :raises OrderRefused: as `place_order`
        """
        with self._orders.record_refusals(order.actor, REPLAY, self._describe_items(order.items), order.reason):
            return self._build_command(order)

    def send(self, command: Command) -> SentCommand:
        return self._orders.send(command, self._describe_items(command.targets))

    def _build_command(self, order: OperatorOrder) -> Command:
        lineage = self._journal.lineage()
        targets = as_seen(order.items, self._journal.last_rows({wanted.item_seq for wanted in order.items}))
        return Command(
            order.command_id,
            self._stream,
            lineage,
            REPLAY,
            targets,
            order.actor,
            order.reason,
            self._clock.now(),
        )

    def _describe_items(self, items: Sequence[OrderedItem | ItemTarget]) -> str:
        return f"{self._stream} items {', '.join(str(item.item_seq) for item in items)}"

    def find_decision(self, command_id: str) -> JournalRow | None:
        return self._journal.command_row(command_id)


def as_seen(items: Sequence[OrderedItem], last: Mapping[int, JournalRow]) -> tuple[ItemTarget, ...]:
    """Makes the targets of a command.

    :raises OrderRefused: says of each item that can't be one why
    """
    unknown, moved = {}, {}
    for wanted in items:
        number, row = wanted.item_seq, last.get(wanted.item_seq)
        if row is None:
            unknown[number] = f"there is no item {number}"
        elif row.decision is not Decision.DEAD:
            moved[number] = f"item {number} isn't dead: its last decision is {row.decision.value}"
        elif wanted.seen is not None and wanted.seen.seen_seq != row.seq:
            moved[number] = f"item {number} has moved on since row {wanted.seen.seen_seq} to row {row.seq}; look again"
        elif wanted.seen is not None and not wanted.seen.is_row(row):
            moved[number] = refuse_restored(wanted.seen).why_refused
    if unknown or moved:
        raise OrderRefused(unknown, moved)
    return tuple(ItemTarget.of_row(last[wanted.item_seq]) for wanted in items)


def command_entity(command_id: str) -> str:
    return join_key("payhook", command_id)


def is_command_entity(entity_key: str | None) -> bool:
    return entity_key is not None and entity_key.startswith(command_entity(""))
