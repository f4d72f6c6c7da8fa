"""Sends a command from the command line, and shows what it would book."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Producer
from rich.table import Table

from cli.place import Place
from cli.tables import row
from core.routing import topics_of
from core.work import Posting
from dlq.commands import Command, send

APPROVED_WHERE = "an administrator who isn't you approves it: /ledger/reversals at the management listener"


def send_command(place: Place, command: Command) -> None:
    """
    :raises CommandNotSent: Kafka didn't acknowledge it
    """
    # Any: the client's stubs and the port agree only on arguments given by name.
    producer: Any = Producer({"bootstrap.servers": place.bootstrap(), "acks": "all", "log_level": 0})
    send(producer, command, topics_of(place.mode).control)


def would_be_booked(first: str) -> Table:
    """An empty table of lines, behind a column of what they are of."""
    return Table(first, "account", "debit", "credit", "currency", title="would be booked, in minor units")


def add_lines(table: Table, of: str, postings: Sequence[Posting]) -> None:
    for line in postings:
        amount = f"{line.money.amount_minor:,}"
        debit, credit = (amount, "") if line.side == "debit" else ("", amount)
        row(table, of, line.account, debit, credit, line.money.currency)
