"""``payhook dlq``: what died, why, and another try."""

from __future__ import annotations

import getpass
from typing import Any

import click
from confluent_kafka import Producer

from cli.acting import on_record
from cli.dlq_view import groups, list_command, show, stats
from cli.place import Place, with_place_of_stream
from core.clock import SystemClock
from core.routing import topics_of
from dlq import commands
from dlq.orders import DeltaView, Wanted, as_seen


@click.group()
def dlq() -> None:
    """Dead events: what died, why, and another try."""


for command in (list_command, show, stats, groups):
    dlq.add_command(command)


@dlq.command()
@click.argument("item_ids", metavar="ID…", type=int, nargs=-1, required=True)
@click.option("--reason", default="replay from the command line", show_default=True, help="Kept with the decision.")
@with_place_of_stream
def replay(place: Place, item_ids: tuple[int, ...], reason: str) -> None:
    """Try dead events again. Each takes its old place in its payment's order.

    What is sent is what you saw: if anything happened to the event since, the command is refused. Sending it twice
    has one effect.
    """
    control = topics_of(place.mode).control
    what = f"{place.looked_at.stream} items {', '.join(map(str, item_ids))}"
    with on_record(place, "replay", what, reason) as act:
        last = DeltaView(place.looked_at.journal, control).last_rows(set(item_ids))
        targets = as_seen([Wanted(item_id, None) for item_id in dict.fromkeys(item_ids)], last)
        order = commands.replay(place.looked_at.stream, targets, getpass.getuser(), reason, SystemClock().now())
        # Any: the client's stubs and the port agree only on arguments given by name.
        producer: Any = Producer({"bootstrap.servers": place.bootstrap(), "acks": "all", "log_level": 0})
        commands.send(producer, order, control)
        act.after = f"command {order.command_id}"
    click.echo(f"sent as command {order.command_id}; `payhook dlq show ID` tells what became of it")
