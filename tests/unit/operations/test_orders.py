"""An order is checked against the journal as it is, and sent whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from console.access.roles import NotSignedIn
from core.clock import ManualClock
from core.decision import Decision
from core.keys import join_key
from journal.reader import JournalReader, lineage_of
from journal.schema import JournalRow
from journal.target import ItemTarget
from journal.writer import JournalWriter
from operations.audit_log import AuditEntry, AuditOutcome
from operations.command import PROPOSE_REVERSAL, Command
from operations.commands import CommandNotSent, SentCommand, decode
from operations.orders import DeltaView, OperatorOrder, OrderedItem, OrderRefused, OrderSender, OrderService
from operations.recorder import Recorder
from tests.dead_letters import Taking
from tests.unit.journal.rows import bare_row

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
EVENTS, CONTROL = "payments.events", "payments.control"


def row(seq: int, offset: int, decision: Decision, topic: str = EVENTS, **more: Any) -> JournalRow:
    return bare_row(seq, decision, topic=topic, offset=offset, decided_at=AT, **more)


def command_row(seq: int, offset: int, decision: Decision, command_id: str) -> JournalRow:
    return row(seq, offset, decision, CONTROL, event_key=join_key("payhook", command_id, "replay"))


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """1 dead, 2 died again as row 5, 3 applied; the command c1 and its copy."""
    path = tmp_path / "journal"
    writer = JournalWriter.create_or_open(str(path), "ledger")
    writer.begin_epoch({EVENTS: {0: 0}, CONTROL: {0: 0}})
    rows = [
        row(1, 0, Decision.DEAD),
        row(2, 1, Decision.DEAD),
        row(3, 2, Decision.APPLIED),
        command_row(4, 0, Decision.REPLAYED, "c1"),
        replace(row(2, 1, Decision.DEAD), seq=5, first=False),
        command_row(6, 1, Decision.DUPLICATE, "c1"),
    ]
    writer.commit(rows, {EVENTS: {0: 3}, CONTROL: {0: 2}}, 0)
    return path


class OrdersProducer(Taking):
    def __init__(self) -> None:
        self.sent: list[Command] = []
        self.down_after = 100

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Callable[[Any, Any], None]) -> None:
        if len(self.sent) == self.down_after:
            on_delivery("broker down", None)
            return
        self.sent.append(decode(value))
        on_delivery(None, self)

    def offset(self) -> int:
        return 7


class AuditEntries:
    def __init__(self) -> None:
        self.entries: list[AuditEntry] = []

    def record(self, entry: AuditEntry) -> None:
        self.entries.append(entry)


def service(journal: Path, kafka: OrdersProducer, log: AuditEntries | None = None) -> OrderService:
    orders = OrderSender(lambda: kafka, CONTROL, Recorder(log or AuditEntries(), ManualClock(AT), "api"))
    return OrderService("ledger", DeltaView(journal, CONTROL), orders, ManualClock(AT))


def seen(journal: Path, seq: int) -> ItemTarget:
    """The item as it was after the row."""
    [row] = JournalReader(str(journal)).rows_of([seq])
    return ItemTarget.of_row(row)


def order(*items: OrderedItem, command_id: str = "c2") -> OperatorOrder:
    return OperatorOrder(command_id, items, "ada", "mended")


def test_an_order_becomes_a_command_that_names_each_items_last_row(journal: Path) -> None:
    kafka = OrdersProducer()
    given = service(journal, kafka).place_order(order(OrderedItem(1), OrderedItem(2, seen(journal, 5))))
    assert (given.control, given.decided) == (SentCommand(CONTROL, 0, 7), None)
    assert kafka.sent == [
        Command(
            "c2",
            "ledger",
            lineage_of(str(journal)),
            "replay",
            (seen(journal, 1), seen(journal, 5)),
            "ada",
            "mended",
            AT,
        )
    ]


def test_an_actor_who_may_order_nothing_orders_nothing(journal: Path) -> None:
    def check_actor(name: str) -> None:
        raise NotSignedIn

    log, kafka = AuditEntries(), OrdersProducer()
    orders = OrderSender(lambda: kafka, CONTROL, Recorder(log, ManualClock(AT), "api"), check_actor)
    with pytest.raises(NotSignedIn):
        orders.send(Command.with_new_id("ledger", "l1", "replay", [seen(journal, 1)], "zoe", "why", AT), "it")
    assert (kafka.sent, [entry.outcome for entry in log.entries]) == ([], [AuditOutcome.REFUSED])


def test_an_order_that_was_decided_is_reported_as_its_first_copy_was_and_not_sent(journal: Path) -> None:
    kafka = OrdersProducer()
    given = service(journal, kafka).place_order(order(OrderedItem(3), command_id="c1"))
    assert given.control == SentCommand(CONTROL, 0, 0)
    assert given.decided is not None and given.decided.decision is Decision.REPLAYED
    assert kafka.sent == []


def test_one_item_that_is_not_as_seen_stops_the_whole_order(journal: Path) -> None:
    kafka = OrdersProducer()
    with pytest.raises(OrderRefused) as refused:
        service(journal, kafka).place_order(
            order(OrderedItem(1, seen(journal, 1)), OrderedItem(2, seen(journal, 2)), OrderedItem(3), OrderedItem(9))
        )
    assert refused.value.unknown == {9: "there is no item 9"}
    assert refused.value.moved == {
        2: "item 2 has moved on since row 2 to row 5; look again",
        3: "item 3 isn't dead: its last decision is applied",
    }
    assert kafka.sent == []


def test_an_item_that_is_another_row_since_a_restore_stops_the_whole_order(journal: Path) -> None:
    kafka, other = OrdersProducer(), ItemTarget(1, 1, "0" * 16)
    with pytest.raises(OrderRefused) as refused:
        service(journal, kafka).place_order(order(OrderedItem(1, other), OrderedItem(2, seen(journal, 5))))
    assert list(refused.value.moved) == [1] and "the journal was restored since" in refused.value.moved[1]
    assert kafka.sent == []


def test_an_event_of_the_same_entity_key_on_another_topic_is_no_command(journal: Path) -> None:
    assert DeltaView(journal, "payments.control.test").command_row("c1") is None


def test_a_journal_that_nobody_has_begun_holds_nothing(tmp_path: Path) -> None:
    view = DeltaView(tmp_path / "none", CONTROL)
    assert (view.lineage(), view.last_rows({1}), view.command_row("c1")) == ("", {}, None)


def test_an_order_is_recorded_with_what_became_of_it(journal: Path) -> None:
    log, kafka = AuditEntries(), OrdersProducer()
    service(journal, kafka, log).place_order(order(OrderedItem(1)))
    with pytest.raises(OrderRefused):
        service(journal, kafka, log).place_order(order(OrderedItem(3)))
    kafka.down_after = 1
    with pytest.raises(CommandNotSent):
        service(journal, kafka, log).place_order(order(OrderedItem(1), OrderedItem(2)))
    assert [(one.action, one.what, one.outcome, one.after) for one in log.entries] == [
        ("replay", "ledger items 1", AuditOutcome.DONE, "command c2"),
        ("replay", "ledger items 3", AuditOutcome.REFUSED, None),
        ("replay", "ledger items 1, 2", AuditOutcome.FAILED, None),
    ]


def test_the_commands_of_one_act_are_one_entry_that_names_those_that_were_sent() -> None:
    log, kafka = AuditEntries(), OrdersProducer()
    orders = OrderSender(lambda: kafka, CONTROL, Recorder(log, ManualClock(AT), "cli"))
    kafka.down_after = 2
    commands = [
        Command.with_new_id("ledger", "l", PROPOSE_REVERSAL, [ItemTarget(n, n, "0" * 16)], "ada", "gone", AT)
        for n in (1, 2, 3)
    ]
    with pytest.raises(CommandNotSent), orders.begin_act("ada", "propose_reversal", "three items", "gone") as giving:
        for command in commands:
            giving.send(command)
    [entry] = log.entries
    assert (entry.outcome, entry.actor, entry.what) == (AuditOutcome.FAILED, "ada", "three items")
    assert entry.after == f"proposal {commands[0].command_id}, {commands[1].command_id}"
