"""``payhook dlq``: what died, why, and another try."""

from __future__ import annotations

import dataclasses
import getpass
import json
import sys
from typing import Any

import click
from confluent_kafka import Producer
from deltalake import DeltaTable
from rich.console import Console
from rich.table import Table

from cli.acting import on_record
from cli.place import Place, with_place_of_stream
from cli.tables import row
from core.clock import SystemClock
from core.decision import Decision
from core.errors import PayhookError
from core.routing import topics_of
from dlq import commands
from dlq.items import Item, Story, list_items, show_item

BODY_SHOWN_CHARS_MAX = 4_000


class NotDead(PayhookError):
    """Only what is dead can be replayed."""

    def __init__(self, item_seq: int, decision: str) -> None:
        self.item_seq = item_seq
        self.decision = decision
        super().__init__(f"item {item_seq} isn't dead: its last decision is {decision}; nothing was sent")


@click.group()
def dlq() -> None:
    """Dead events: what died, why, and another try."""


@dlq.command("list")
@click.option("--waiting", is_flag=True, help="Also what waits: retries, and events parked behind another.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place_of_stream
def list_command(place: Place, waiting: bool, as_json: bool) -> None:
    """List dead events, oldest first, with the ID that `show` and `replay` take."""
    kinds = (Decision.DEAD, Decision.RETRY, Decision.PARKED, Decision.REPLAYED) if waiting else (Decision.DEAD,)
    journal = str(place.looked_at.journal)
    items = list_items(journal, kinds) if DeltaTable.is_deltatable(journal) else []
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(item.row) for item in items], indent=1, default=str))
    else:
        _print_items(items)


@dlq.command()
@click.argument("item_id", metavar="ID", type=int)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place_of_stream
def show(place: Place, item_id: int, as_json: bool) -> None:
    """Show everything that was decided of one event, its error, and its bytes."""
    story = _story(place, item_id)
    if as_json:
        body = story.body.decode("utf-8", "replace") if story.body is not None else None
        told = {"rows": [dataclasses.asdict(row) for row in story.rows], "body": body}
        click.echo(json.dumps(told, indent=1, default=str))
    else:
        _print_story(story)


@dlq.command()
@click.argument("item_ids", metavar="ID…", type=int, nargs=-1, required=True)
@click.option("--reason", default="replay from the command line", show_default=True, help="Kept with the decision.")
@with_place_of_stream
def replay(place: Place, item_ids: tuple[int, ...], reason: str) -> None:
    """Try dead events again. Each takes its old place in its payment's order.

    What is sent is what you saw: if anything happened to the event since, the command is refused. Sending it twice
    has one effect.
    """
    stories = [_story(place, item_id) for item_id in dict.fromkeys(item_ids)]
    what = f"{place.looked_at.stream} items {', '.join(str(story.rows[0].item_seq) for story in stories)}"
    with on_record(place, "replay", what, reason) as act:
        for story in stories:
            last = story.rows[-1]
            if last.decision is not Decision.DEAD:
                raise NotDead(last.item_seq, last.decision.value)
        targets = [story.target for story in stories]
        command = commands.replay(place.looked_at.stream, targets, getpass.getuser(), reason, SystemClock().now())
        # Any: the client's stubs and the port agree only on arguments given by name.
        producer: Any = Producer({"bootstrap.servers": place.bootstrap(), "acks": "all", "log_level": 0})
        commands.send(producer, command, topics_of(place.mode).control)
        act.after = f"command {command.command_id}"
    click.echo(f"sent as command {command.command_id}; `payhook dlq show ID` tells what became of it")


def _story(place: Place, item_id: int) -> Story:
    journal = str(place.looked_at.journal)
    if not DeltaTable.is_deltatable(journal):
        click.echo("nothing has been decided yet", err=True)
        sys.exit(1)
    return show_item(journal, str(place.looked_at.bodies), item_id)


def _print_items(items: list[Item]) -> None:
    if not items:
        click.echo("nothing is dead")
        return
    table = Table("ID", "since", "what", "event", "payment", "error")
    for item in items:
        last = item.row
        error = f"{last.error_class or ''}: {last.error_message or last.reason or ''}".removeprefix(": ")
        since = last.decided_at.isoformat(" ", "seconds")
        row(table, item.item_seq, since, last.decision.value, last.event_key, last.entity_key, error)
    Console(soft_wrap=True).print(table)


def _print_story(story: Story) -> None:
    console = Console(soft_wrap=True)
    first, last = story.rows[0], story.rows[-1]
    about = Table(show_header=False, box=None, pad_edge=False)
    for name, value in (
        ("event", first.event_key),
        ("payment", first.entity_key),
        ("type", first.event_type),
        ("received", first.received_at),
        ("Kafka", f"{first.topic}[{first.partition}]@{first.offset}"),
    ):
        row(about, name, value)
    console.print(about)
    rows = Table("seq", "decided", "decision", "attempt", "who", "why")
    for one in story.rows:
        when = one.decided_at.isoformat(" ", "milliseconds")
        row(rows, one.seq, when, one.decision.value, one.attempt, one.actor, one.reason or one.error_message)
    console.print(rows)
    if last.error_stack:
        console.print(last.error_stack, markup=False)
    if story.body is not None:
        console.print(story.body[:BODY_SHOWN_CHARS_MAX].decode("utf-8", "replace"), markup=False)
