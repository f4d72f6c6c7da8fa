"""``payhook dlq``: what died and why, what it comes to, and what people did."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, TypeVar

import click

from cli import dlq_tables
from cli.acting import open_recorder, this_account
from cli.dlq_topic import TOPIC, list_letters
from cli.dlq_watch import ITEM, ItemOrSelection, part_of_item
from cli.place import Place, read_since, read_until, with_place, with_place_of_stream
from cli.tables import PrintedTable
from console.as_json import to_json_text
from console.formats import KINDS_EXPLAINED, format_second
from console.waits import wait_of
from core.clock import SystemClock
from core.decision import ErrorKind
from core.errors import PayhookError
from core.settings import KafkaSettings
from dead_letters.dead_letter_index import PAGE_SIZE, DeadLetterIndex
from dead_letters.item import OPEN_STATES, ItemState, Mark
from dead_letters.joined import JoinedIndex, name_in
from dead_letters.listing import PAGE_MAX, Filter, FilterInvalid, Sort
from operations.audit_log import AuditLog, RecordedEntry
from operations.recorder import READ_PAYLOAD
from stack.services.dead_letters import open_dead_letter_index

Command = TypeVar("Command", bound=Callable[..., Any])

_STATES = [state.value for state in ItemState if state is not ItemState.SETTLED]
_KINDS, _MARKS = [kind.value for kind in ErrorKind], [mark.value for mark in Mark]
_OPTIONS = (
    click.option(
        "--state",
        "states",
        multiple=True,
        type=click.Choice([*_STATES, "all"]),
        help="State of the event [default: open].",
    ),
    click.option(
        "--kind", "kinds", multiple=True, type=click.Choice(_KINDS), help=f"The error's kind: {KINDS_EXPLAINED}."
    ),
    click.option("--class", "classes", multiple=True, metavar="NAME", help="The error's class."),
    click.option("--provider", "providers", multiple=True, metavar="NAME", help="Who sent the event."),
    click.option("--type", "types", multiple=True, metavar="NAME", help="The event's type."),
    click.option("--account", "accounts", multiple=True, metavar="NAME", help="The provider's account."),
    click.option("--tenant", "tenants", multiple=True, metavar="NAME", help="The tenant whose endpoint it came to."),
    click.option("--receiver", metavar="NAME", help="The subscriber, in the stream notify."),
    click.option("--mark", "marks", multiple=True, type=click.Choice(_MARKS), help="Poison, or a conflict."),
    click.option("--entity", metavar="KEY", help="The entity (a payment, say): its whole key."),
    click.option("--fingerprint", metavar="HEX", help="The cause, as `payhook dlq groups` names it."),
    click.option("--text", metavar="PART", help="A part of the event's or entity's key, error class or message."),
    click.option("--since", callback=read_since, metavar="TIME", help="Died at or after this day or time (UTC)."),
    click.option(
        "--until", callback=read_until, metavar="TIME", help="Died before this time (UTC); a day counts to its end."
    ),
)


def with_filter(command: Command) -> Command:
    """Gives a command the options of a filter; it gets the filter as ``wanted``. Repeated options widen it."""

    @functools.wraps(command)
    def filtered(*arguments: Any, states: tuple[str, ...], **given: Any) -> Any:
        named = {name: given.pop(name) for name in _NAMES}
        return command(*arguments, wanted=_filter(states, named), **given)

    decorated: Any = filtered
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


_NAMES = tuple(field.name for field in fields(Filter) if field.name not in ("states", "items", "amount_minor"))


def _filter(states: tuple[str, ...], named: dict[str, Any]) -> Filter:
    kinds, marks = map(ErrorKind, named.pop("kinds")), map(Mark, named.pop("marks"))
    try:
        return Filter(states=_read_states(states), kinds=tuple(kinds), marks=tuple(marks), **named)
    except FilterInvalid as wrong:
        raise click.UsageError(str(wrong)) from wrong


def _read_states(names: tuple[str, ...]) -> tuple[ItemState, ...]:
    if "all" in names:
        return ()
    return tuple(map(ItemState, names)) or OPEN_STATES[:1]


CAUSES_SHOWN = 5
_SORTS = [sort.value for sort in Sort]
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command("list")
@with_filter
@click.option("--waiting", is_flag=True, help="Also show waiting events: retries, and those parked behind another.")
@click.option("--sort", type=click.Choice(_SORTS), default=_SORTS[0], show_default=True, help="By age or amount.")
@click.option("--limit", type=click.IntRange(1, PAGE_MAX), default=PAGE_SIZE, show_default=True, help="Items per page.")
@click.option(
    "--after", "cursor", metavar="CURSOR", help="Continue after a page: the text that it printed after --after."
)
@TOPIC
@_JSON
@with_place_of_stream
def list_command(
    place: Place,
    wanted: Filter,
    waiting: bool,
    sort: str,
    limit: int,
    cursor: str | None,
    topic: str | None,
    as_json: bool,
) -> None:
    """List dead events, oldest first, with the ID that `show` and `replay` take.

    Options narrow it; one that is repeated takes what is like any of its values. With --topic: the dead letters that
    another program keeps there, in KIP-1191's form.
    """
    if topic is not None:
        list_letters(place, topic, limit, as_json=as_json)
        return
    if waiting:
        wanted = replace(wanted, states=tuple({*wanted.states, ItemState.WAITING}))
    page = open_all_indexes(place).page(wanted, cursor, limit, Sort(sort))
    if as_json:
        click.echo(to_json_text(page))
    else:
        dlq_tables.print_page(page, SystemClock().now())


@click.command()
@click.argument("item", metavar="ID", type=ITEM)
@_JSON
@with_place_of_stream
def show(place: Place, item: ItemOrSelection, as_json: bool) -> None:
    """Show everything that is known of one event: where it stands and why, each try with its error and log lines, who
    did what to it, its bytes and headers, its entity's events around it, what waits because of it, and what is like it.
    """
    part = part_of_item(place, item)
    story = open_current_index(part).item(item.number)
    if story.payload.raw is not None:
        open_recorder(place).record(this_account(), READ_PAYLOAD, f"{story.stream} item {item.number}")
    if as_json:
        click.echo(to_json_text(story))
    else:
        name = str(item.number) if part is place else name_in(story.stream, item.number)
        now = SystemClock().now()
        dlq_tables.print_story(story, wait_of(part.looked_at, story.item, now), now, name)


@click.command()
@with_filter
@_JSON
@with_place_of_stream
def stats(place: Place, wanted: Filter, as_json: bool) -> None:
    """Show how many are dead, how old they are, how fast they come and go right now and when that clears them, what to
    do next by cause, and of which kind, class, provider and type they are.

    Figures of open events don't depend on --state.
    """
    index = open_all_indexes(place)
    statistics = index.stats(wanted)
    if as_json:
        click.echo(to_json_text(statistics))
    else:
        dlq_tables.print_stats(statistics, index.groups(replace(wanted, states=OPEN_STATES[:1]), CAUSES_SHOWN))


@click.command()
@with_filter
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="Groups to show.")
@_JSON
@with_place_of_stream
def groups(place: Place, wanted: Filter, limit: int, as_json: bool) -> None:
    """Show dead events by their cause, the most frequent first: 3,000 of one cause are one line.

    `payhook dlq list --fingerprint HEX` lists one group's.
    """
    causes = open_all_indexes(place).groups(wanted, limit)
    if as_json:
        click.echo(to_json_text(causes))
    else:
        dlq_tables.print_groups(causes, SystemClock().now())


def open_all_indexes(place: Place) -> DeadLetterIndex | JoinedIndex:
    if not place.has_several:
        return open_current_index(place)
    return JoinedIndex({name: open_current_index(part) for name, part in place.stream_parts.items()})


def open_current_index(place: Place) -> DeadLetterIndex:
    try:
        kafka: KafkaSettings | None = place.kafka()
    except PayhookError:
        kafka = None
    index = open_dead_letter_index(place.looked_at, place.settings, SystemClock(), kafka)
    index.follow()
    return index


LIMIT_MAX = 100_000


@click.command("audit")
@click.option("--limit", type=click.IntRange(1, LIMIT_MAX), default=50, show_default=True, help="Most entries to show.")
@click.option("--before", type=click.IntRange(1), metavar="NUMBER", help="Only entries before this one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place
def audit(place: Place, limit: int, before: int | None, as_json: bool) -> None:
    """Show what people did and were refused, the newest first: orders, sign-ins, changes of users.

    Live and test traffic have one record. Nothing in it can be changed: its rows are chained, and `payhook verify`
    checks the chain.
    """
    entries = AuditLog(place.layout.audit_log).read(limit, before)
    if as_json:
        click.echo(to_json_text([entry.as_row() | {"at": entry.at} for entry in entries]))
    elif not entries:
        click.echo("no entries")
    else:
        _print_entries(entries)


def _print_entries(entries: list[RecordedEntry]) -> None:
    rows = PrintedTable("no.", "when (UTC)", "who", "outcome", "act", right=["no."])
    for entry in entries:
        who = f"{entry.actor} ({entry.channel})"
        rows.add(entry.number, format_second(entry.at), who, entry.outcome.value, "\n".join(_list_changes(entry)))
    rows.print()


def _list_changes(entry: RecordedEntry) -> Iterator[str]:
    yield f"{entry.action} {entry.what}".strip()
    for name, value in (("why", entry.reason), ("before", entry.before), ("after", entry.after)):
        if value:
            yield f"{name}: {value}"
