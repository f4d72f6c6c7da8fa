"""``payhook ledger``: balances, postings, events, entities, decisions that match, and whole tables as files."""

from __future__ import annotations

import functools
import sys
from datetime import datetime
from pathlib import Path

import click

from cli import ledger_tables
from cli.acting import recorder, this_account
from cli.place import Place, read_as_of, read_since, read_until, with_place_of_mode
from console.as_json import dumped, event_stories, hit
from core.decision import Decision
from core.moments import span
from dlq.recorder import EXPORT
from journal.journals import StreamUnknown
from ledger.queries import (
    POSTINGS_MAX,
    AsOf,
    Form,
    RowUnreadable,
    Source,
    Wanted,
    closed_unknown,
    minor_units,
    totals,
    unknown_events,
)
from ledger.queries import balances as read_balances
from ledger.queries import export as write
from ledger.queries import owed as read_owed
from ledger.queries import postings as read_postings
from ledger.queries import search as find


def _read_currency(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    return value.upper() if value else None


CURRENCY = click.option("--currency", callback=_read_currency, help="Only this currency (EUR, JPY, …).")
AS_OF = click.option(
    "--as-of",
    "before",
    callback=read_as_of,
    metavar="TIME",
    help="As it stood then: a day, counted whole, or a time; UTC.",
)
AFTER_ROW = click.option(
    "--seq", "row", metavar="N", help="As it stood after this row of the journal (ledger.1:N: of that shard's)."
)


@click.command()
@click.option("--merchant", help="Only this merchant's bookings, with the provider's side of them.")
@CURRENCY
@AS_OF
@AFTER_ROW
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in minor units.")
@with_place_of_mode
def balances(
    place: Place, merchant: str | None, currency: str | None, before: datetime | None, row: str | None, as_json: bool
) -> None:
    """Show each account's debits, credits and balance (debits minus credits), now or as of a moment.

    Exit 1 if debits and credits differ.
    """
    accounts = read_balances(place.ledger.postings(), merchant, currency, _as_of(place, before, row))
    if as_json:
        click.echo(dumped(accounts))
    else:
        ledger_tables.print_balances(accounts)
    sys.exit(0 if all(total.balanced for total in totals(accounts)) else 1)


@click.command()
@click.option("--account", required=True, help="The account, as `payhook ledger balances` names it.")
@click.option("--merchant", help="Only this merchant's bookings.")
@CURRENCY
@AS_OF
@AFTER_ROW
@click.option("--limit", type=click.IntRange(1, POSTINGS_MAX), default=100, show_default=True, help="Most to show.")
@click.option("--cursor", metavar="NEXT", help="Begin after the page that printed this.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in minor units.")
@with_place_of_mode
def postings(
    place: Place,
    account: str,
    merchant: str | None,
    currency: str | None,
    before: datetime | None,
    row: str | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """Show what is booked on an account, the newest first, each with the balance after it.

    Exit 1 if nothing is.
    """
    as_of = _as_of(place, before, row)
    page = read_postings(place.ledger.postings(), account, currency, merchant, as_of, cursor, limit)
    if as_json:
        click.echo(dumped(page))
    else:
        ledger_tables.print_postings(account, page)
    sys.exit(0 if page.lines else 1)


@click.command()
@click.option("--merchant", help="Only this merchant.")
@CURRENCY
@AS_OF
@AFTER_ROW
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in minor units.")
@with_place_of_mode
def owed(
    place: Place, merchant: str | None, currency: str | None, before: datetime | None, row: str | None, as_json: bool
) -> None:
    """Show what is owed to each merchant, now or as of a moment: captured, less refunds, disputes, fees and payouts.

    Below zero the merchant owes it.
    """
    merchants = read_owed(read_balances(place.ledger.postings(), merchant, currency, _as_of(place, before, row)))
    if as_json:
        click.echo(dumped(merchants))
    else:
        ledger_tables.print_owed(merchants)


def _as_of(place: Place, before: datetime | None, row: str | None) -> AsOf:
    if before is not None and row is not None:
        raise click.UsageError("--as-of or --seq, not both")
    try:
        return AsOf(before) if row is None else place.ledger.after_row(row)
    except (RowUnreadable, StreamUnknown) as wrong:
        raise click.BadParameter(str(wrong), param_hint="--seq") from wrong


@click.command()
@click.argument("keys", nargs=-1, required=True, metavar="KEY…")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place_of_mode
def event(place: Place, keys: tuple[str, ...], as_json: bool) -> None:
    """Show an event's whole story: what was answered, what was received and where Kafka holds it, each decision with
    its cause, what was booked, and the Delta commit of each row.

    KEY is an event key (provider:id:type), a fact key, or seq:N for the event that row N of the journal is about; of
    another shard's journal than the first one's seq:ledger.1:N. Exit 1 if a key is unknown.
    """

    ledger = place.ledger
    with ledger_tables.looking("looking through the journal"):
        stories_read = {key: ledger.story(key) for key in keys}
    stories, bodies = (
        {key: story for key, (story, _) in stories_read.items()},
        {key: body for key, (_, body) in stories_read.items()},
    )
    if as_json:
        click.echo(dumped(event_stories(stories, bodies)))
    else:
        for key, story in stories.items():
            if story.rows or story.receipts:
                ledger_tables.print_story(key, story, bodies[key])
    for key in (key for key, story in stories.items() if not story.rows):
        click.echo(_unknown(key, place) if not stories[key].receipts else _undecided(key), err=True)
    sys.exit(0 if all(story.rows for story in stories.values()) else 1)


@click.command()
@click.argument("key", metavar="KEY")
@click.option("--limit", type=click.IntRange(1, 10_000), default=200, show_default=True, help="Most events to show.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place_of_mode
def entity(place: Place, key: str, limit: int, as_json: bool) -> None:
    """Show an entity's events (a payment's, say) in Kafka's order, with their decisions and the balances they leave.

    KEY is an entity key: provider:account:payment. Exit 1 if it is unknown.
    """

    with ledger_tables.looking("looking through the journal"):
        story = place.ledger.entity(key, limit)
    if as_json:
        click.echo(dumped(story))
    elif story.total:
        ledger_tables.print_entity(story)
    if not story.total:
        click.echo(_unknown(key, place), err=True)
        sys.exit(1)


@click.command()
@click.option("--all", "every", is_flag=True, help="Also those that a person closed: who, and why.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in minor units.")
@with_place_of_mode
def unknown(place: Place, every: bool, as_json: bool) -> None:
    """Show what is unknown still: events of which no table says what they mean for money, by type and reason.

    Exit 1 if there are any. What moves nothing for you is closed with a reason: `payhook dlq select --state unknown`,
    then `payhook dlq discard sN`; it is on record, and its key stays held.
    """
    with ledger_tables.looking("looking through the journal"):
        events = unknown_events(place.ledger.journals())
        closed = closed_unknown(place.ledger.journals()) if every else []
    if as_json:
        click.echo(dumped({"unknown": events, "closed": closed} if every else events))
    else:
        ledger_tables.print_unknown(events)
        ledger_tables.print_closed_unknown(closed)
    sys.exit(1 if events else 0)


def _undecided(key: str) -> str:
    return f"{key}: answered, and not decided yet: see with `payhook status` whether the processor is behind"


def _unknown(key: str, place: Place) -> str:
    other = "without --test for live traffic" if place.mode == "test" else "with --test for test traffic"
    return (
        f"{key}: unknown in the {place.mode} ledger. Look for a part of it with `payhook ledger search --text-in-keys "
        f"PART`; {other}; see with `payhook status` whether the processor is behind: what isn't decided yet isn't here"
    )


SHOWN = 50
SINCE = click.option(
    "--from", "since", callback=read_since, metavar="TIME", help="Only decided then or later: a day or a time, UTC."
)
UNTIL = click.option(
    "--to", "until", callback=read_until, metavar="TIME", help="Only decided before then; a day counts as a whole."
)


@click.command()
@click.option("--event-type", help="Only events of this type, as the provider names it.")
@click.option("--provider", help="Only this provider's (stripe, adyen, …).")
@click.option("--merchant", help="Only what was booked for this merchant.")
@click.option(
    "--decision", type=click.Choice([choice.value for choice in Decision]), help="Only decisions of this kind."
)
@SINCE
@UNTIL
@click.option("--amount", help="Only bookings of this amount, such as 12.50; wants --currency.")
@click.option("--currency", callback=_read_currency, help="Only bookings in this currency.")
@click.option("--text-in-keys", help="Only with this text in the event's, the fact's or the entity's key.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=SHOWN, show_default=True, help="Most to show.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in minor units.")
@with_place_of_mode
def search(
    place: Place,
    event_type: str | None,
    provider: str | None,
    merchant: str | None,
    decision: str | None,
    since: datetime | None,
    until: datetime | None,
    amount: str | None,
    currency: str | None,
    text_in_keys: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Find decisions, the newest first."""

    if amount is not None and currency is None:
        raise click.UsageError("--amount wants --currency: 100 is one thing in EUR and another in JPY")
    criteria = Wanted(
        event_type=event_type,
        provider=provider,
        merchant=merchant,
        decision=Decision(decision) if decision is not None else None,
        since=since,
        until=until,
        amount_minor=minor_units(amount, currency) if amount is not None and currency is not None else None,
        currency=currency,
        in_keys=text_in_keys,
    )
    with ledger_tables.looking("looking through the journal"):
        ledger = place.ledger
        hits = find(ledger.journals(), ledger.postings(), criteria, limit)
    if as_json:
        click.echo(dumped([hit(match) for match in hits]))
    else:
        ledger_tables.print_hits(hits, limit)


@click.command()
@click.option("--format", "form", type=click.Choice(["csv", "parquet"]), required=True, help="What kind of file.")
@click.option("--table", "source", type=click.Choice(["postings", "journal"]), default="postings", show_default=True)
@SINCE
@UNTIL
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The file to write.")
@click.option("--overwrite", is_flag=True, help="Replace a file that is there.")
@with_place_of_mode
def export(
    place: Place,
    form: Form,
    source: Source,
    since: datetime | None,
    until: datetime | None,
    out: Path,
    overwrite: bool,
) -> None:
    """Write postings or the journal into a file, in the order of decision; of several shards one after the other, and
    the first column says whose a row is.

    The file appears whole or not at all. CSV: UTF-8, times in UTC, and a text that a spreadsheet would calculate begins
    with an apostrophe.
    """

    ledger = place.ledger
    bounds = {"since": since, "until": until}
    what = f"{place.mode} {source} into {out} {span(**bounds)}".rstrip()
    record = functools.partial(recorder(place).record, this_account(), EXPORT, what)
    with ledger_tables.writing(out) as progress:
        done = write(
            ledger.tables(source), source, out, form, **bounds, overwrite=overwrite, progress=progress, record=record
        )
    versions = ", ".join(map(str, done.versions))
    click.echo(f"{done.rows:,} rows of the {source} (version {versions}) are in {done.path}")
