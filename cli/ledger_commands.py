"""``payhook ledger``: balances, postings, events, entities, decisions that match, and whole tables as files."""

from __future__ import annotations

import functools
import sys
from datetime import datetime
from pathlib import Path

import click

from cli import ledger_tables
from cli.acting import open_recorder, this_account
from cli.place import Place, read_as_of, read_since, read_until, with_place_of_mode
from console.as_json import event_stories, hit_to_json, to_json_text
from core.decision import Decision
from core.moments import describe_span
from core.money import parse_minor_units
from journal.journals import StreamUnknown
from ledger.queries.balances import AsOf, sum_totals
from ledger.queries.balances import sum_balances as read_balances
from ledger.queries.balances import sum_owed as read_owed
from ledger.queries.export import Form, Source
from ledger.queries.export import export_table as write
from ledger.queries.journals import RowNameInvalid
from ledger.queries.postings import POSTINGS_MAX
from ledger.queries.postings import read_postings_page as read_postings
from ledger.queries.search import DecisionFilter
from ledger.queries.search import search_decisions as find
from ledger.queries.unknown import find_closed_unknown, find_unknown_events
from operations.recorder import EXPORT


def _read_currency(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    return value.upper() if value else None


CURRENCY = click.option("--currency", callback=_read_currency, help="Only this currency (EUR, JPY, …).")
AS_OF = click.option(
    "--as-of",
    "before",
    callback=read_as_of,
    metavar="TIME",
    help="As of this time, or the end of this day (UTC).",
)
AFTER_ROW = click.option(
    "--seq", "row", metavar="N", help="As of this journal row (ledger.1:N: of that shard's journal)."
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
    accounts = read_balances(place.ledger.list_postings(), merchant, currency, _as_of(place, before, row))
    if as_json:
        click.echo(to_json_text(accounts))
    else:
        ledger_tables.print_balances(accounts)
    sys.exit(0 if all(total.balanced for total in sum_totals(accounts)) else 1)


@click.command()
@click.option("--account", required=True, help="The account, as `payhook ledger balances` names it.")
@click.option("--merchant", help="Only this merchant's bookings.")
@CURRENCY
@AS_OF
@AFTER_ROW
@click.option("--limit", type=click.IntRange(1, POSTINGS_MAX), default=100, show_default=True, help="Most to show.")
@click.option("--cursor", metavar="NEXT", help="Continue after the page that printed this.")
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
    page = read_postings(place.ledger.list_postings(), account, currency, merchant, as_of, cursor, limit)
    if as_json:
        click.echo(to_json_text(page))
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
    merchants = read_owed(read_balances(place.ledger.list_postings(), merchant, currency, _as_of(place, before, row)))
    if as_json:
        click.echo(to_json_text(merchants))
    else:
        ledger_tables.print_owed(merchants)


def _as_of(place: Place, before: datetime | None, row: str | None) -> AsOf:
    if before is not None and row is not None:
        raise click.UsageError("use --as-of or --seq, not both")
    try:
        return AsOf(before) if row is None else place.ledger.find_as_of(row)
    except (RowNameInvalid, StreamUnknown) as wrong:
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
    with ledger_tables.show_spinner():
        stories_read = {key: ledger.read_story(key) for key in keys}
    stories, bodies = (
        {key: story for key, (story, _) in stories_read.items()},
        {key: body for key, (_, body) in stories_read.items()},
    )
    if as_json:
        click.echo(to_json_text(event_stories(stories, bodies)))
    else:
        for key, story in stories.items():
            if story.rows or story.receipts:
                ledger_tables.print_story(key, story, bodies[key])
    for key in (key for key, story in stories.items() if not story.rows):
        click.echo(_explain_unknown(key, place) if not stories[key].receipts else _explain_undecided(key), err=True)
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

    with ledger_tables.show_spinner():
        story = place.ledger.read_entity(key, limit)
    if as_json:
        click.echo(to_json_text(story))
    elif story.total:
        ledger_tables.print_entity(story)
    if not story.total:
        click.echo(_explain_unknown(key, place), err=True)
        sys.exit(1)


@click.command()
@click.option("--all", "every", is_flag=True, help="Also show those that a person closed: who, and why.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in minor units.")
@with_place_of_mode
def unknown(place: Place, every: bool, as_json: bool) -> None:
    """Show what is unknown still: events of which no table says what they mean for money, by type and reason.

    Exit 1 if there are any. What moves nothing for you is closed with a reason: `payhook dlq select --state unknown`,
    then `payhook dlq discard sN`; it is on record, and its key stays held.
    """
    with ledger_tables.show_spinner():
        events = find_unknown_events(place.ledger.list_journals())
        closed = find_closed_unknown(place.ledger.list_journals()) if every else []
    if as_json:
        click.echo(to_json_text({"unknown": events, "closed": closed} if every else events))
    else:
        ledger_tables.print_unknown(events)
        ledger_tables.print_closed_unknown(closed)
    sys.exit(1 if events else 0)


def _explain_undecided(key: str) -> str:
    return f"{key}: answered, not decided yet. See with `payhook status` whether the processor is behind"


def _explain_unknown(key: str, place: Place) -> str:
    other = "without --test for live traffic" if place.mode == "test" else "with --test for test traffic"
    return (
        f"{key}: not in the {place.mode} ledger. Search for a part of it: `payhook ledger search --text-in-keys PART`; "
        f"look {other}; see with `payhook status` whether the processor is behind, since only decided events are here"
    )


SHOWN = 50
SINCE = click.option(
    "--from", "since", callback=read_since, metavar="TIME", help="Only decisions at or after this day or time (UTC)."
)
UNTIL = click.option(
    "--to",
    "until",
    callback=read_until,
    metavar="TIME",
    help="Only decisions before this time (UTC); a day counts to its end.",
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
@click.option("--amount", help="Only bookings of this amount, such as 12.50; needs --currency.")
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
        raise click.UsageError("--amount needs --currency, such as EUR")
    criteria = DecisionFilter(
        event_type=event_type,
        provider=provider,
        merchant=merchant,
        decision=Decision(decision) if decision is not None else None,
        since=since,
        until=until,
        amount_minor=parse_minor_units(amount, currency) if amount is not None and currency is not None else None,
        currency=currency,
        in_keys=text_in_keys,
    )
    with ledger_tables.show_spinner():
        ledger = place.ledger
        hits = find(ledger.list_journals(), ledger.list_postings(), criteria, limit)
    if as_json:
        click.echo(to_json_text([hit_to_json(match) for match in hits]))
    else:
        ledger_tables.print_hits(hits, limit)


@click.command()
@click.option("--format", "form", type=click.Choice(["csv", "parquet"]), required=True, help="What kind of file.")
@click.option("--table", "source", type=click.Choice(["postings", "journal"]), default="postings", show_default=True)
@SINCE
@UNTIL
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The file to write.")
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
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
    what = f"{place.mode} {source} into {out} {describe_span(**bounds)}".rstrip()
    record = functools.partial(open_recorder(place).record, this_account(), EXPORT, what)
    with ledger_tables.show_export_bar(out) as progress:
        done = write(
            ledger.list_tables(source),
            source,
            out,
            form,
            **bounds,
            overwrite=overwrite,
            progress=progress,
            record=record,
        )
    versions = ", ".join(map(str, done.versions))
    click.echo(f"{done.rows:,} rows of the {source} (version {versions}) are in {done.path}")
