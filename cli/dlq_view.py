"""``payhook dlq list``, ``show``, ``stats`` and ``groups``: what died, why, and what it comes to."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click

from cli import dlq_story, dlq_tables
from cli.acting import put_on_record
from cli.dlq_filters import with_filter
from cli.place import Place, with_place_of_stream
from core.clock import SystemClock
from core.errors import PayhookError
from dlq.index import (
    PAGE_MAX,
    PAGE_SIZE,
    DeadLetterIndex,
    Filter,
    ItemState,
    Sort,
    groups_told,
    page_told,
    stats_told,
    story_told,
)
from dlq.recorder import READ_PAYLOAD
from stack.services.dead_letters import open_board

_SORTS = [sort.value for sort in Sort]
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command("list")
@with_filter
@click.option("--waiting", is_flag=True, help="Also what waits: retries, and events parked behind another.")
@click.option("--sort", type=click.Choice(_SORTS), default=_SORTS[0], show_default=True, help="By age or amount.")
@click.option("--limit", type=click.IntRange(1, PAGE_MAX), default=PAGE_SIZE, show_default=True, help="Items a page.")
@click.option("--after", "cursor", metavar="CURSOR", help="Go on after a page, by what it said at its end.")
@_JSON
@with_place_of_stream
def list_command(
    place: Place, wanted: Filter, waiting: bool, sort: str, limit: int, cursor: str | None, as_json: bool
) -> None:
    """List dead events, oldest first, with the ID that `show` and `replay` take.

    Options narrow it; one that is repeated takes what is like any of its values.
    """
    if waiting:
        wanted = replace(wanted, states=tuple({*wanted.states, ItemState.WAITING}))
    page = followed(place).page(wanted, cursor, limit, Sort(sort))
    if as_json:
        _print_json(page_told(page))
    else:
        dlq_tables.print_page(page, SystemClock().now())


@click.command()
@click.argument("item_id", metavar="ID", type=click.IntRange(1))
@_JSON
@with_place_of_stream
def show(place: Place, item_id: int, as_json: bool) -> None:
    """Show everything that is known of one event: where it stands and why, each try with its error and log lines, who
    did what to it, its bytes and headers, its entity's events around it, what waits because of it, and what is like it.
    """
    story = followed(place).item(item_id)
    if story.payload.raw is not None:
        put_on_record(place, READ_PAYLOAD, f"{place.looked_at.stream} item {item_id}")
    if as_json:
        _print_json(story_told(story))
    else:
        dlq_story.print_story(story, SystemClock().now())


@click.command()
@with_filter
@_JSON
@with_place_of_stream
def stats(place: Place, wanted: Filter, as_json: bool) -> None:
    """Tell how many are dead, how old they are, of which kind, class, provider and type, and how fast they come and go.

    What is told of open events is told whatever --state says.
    """
    told = followed(place).stats(wanted)
    if as_json:
        _print_json(stats_told(told))
    else:
        dlq_tables.print_stats(told)


@click.command()
@with_filter
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="Groups to show.")
@_JSON
@with_place_of_stream
def groups(place: Place, wanted: Filter, limit: int, as_json: bool) -> None:
    """Show dead events by their cause, the most frequent first: 3,000 of one cause are one line.

    `payhook dlq list --fingerprint HEX` lists one group's.
    """
    found = followed(place).groups(wanted, limit)
    if as_json:
        _print_json(groups_told(found))
    else:
        dlq_tables.print_groups(found, SystemClock().now())


def followed(place: Place) -> DeadLetterIndex:
    """The board of the stream that is looked at, as the journal is now."""
    try:
        bootstrap: str | None = place.bootstrap()
    except PayhookError:
        bootstrap = None
    board = open_board(place.looked_at, place.settings, SystemClock(), bootstrap)
    board.follow()
    return board


def _print_json(tree: Any) -> None:
    click.echo(json.dumps(tree, indent=1))
