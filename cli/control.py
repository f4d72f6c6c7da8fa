"""Sends a command from the command line."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer

from cli.place import Place
from core.routing import topics_of
from dlq.commands import Command, send

APPROVED_WHERE = "an administrator who isn't you approves it: /ledger/reversals at the management listener"


def send_command(place: Place, command: Command) -> None:
    """
    :raises CommandNotSent: Kafka didn't acknowledge it
    """
    # Any: the client's stubs and the port agree only on arguments given by name.
    producer: Any = Producer({"bootstrap.servers": place.bootstrap(), "acks": "all", "log_level": 0})
    send(producer, command, topics_of(place.mode).control)
