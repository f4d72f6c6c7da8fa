"""``payhook ledger search`` and ``payhook ledger export``: decisions that match, and whole tables as files."""

from __future__ import annotations

import functools
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli import moments
from cli.acting import put_on_record
from cli.place import Place, with_place_of_mode
from core.decision import Decision
from core.moments import span
from dlq.recorder import EXPORT

if TYPE_CHECKING:
    from ledger.queries import Form, Source

SHOWN = 50


@click.command()
@click.option("--event-type", help="Only events of this type, as the provider names it.")
@click.option("--provider", help="Only this provider's (stripe, adyen, …).")
@click.option("--merchant", help="Only what was booked for this merchant.")
@click.option("--decision", type=click.Choice([one.value for one in Decision]), help="Only decisions of this kind.")
@click.option(
    "--from", "since", callback=moments.since, metavar="TIME", help="Only decided then or later: a day or a time, UTC."
)
@click.option(
    "--to", "until", callback=moments.until, metavar="TIME", help="Only decided before then; a day counts as a whole."
)
@click.option("--amount", help="Only bookings of this amount, such as 12.50; wants --currency.")
@click.option("--currency", help="Only bookings in this currency.")
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
    from cli import ledger_json, ledger_tables
    from ledger.queries import Wanted, minor_units
    from ledger.queries import search as find

    if amount is not None and currency is None:
        raise click.UsageError("--amount wants --currency: 100 is one thing in EUR and another in JPY")
    wanted = Wanted(
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
        hits = find(str(place.ledger.journal), str(place.ledger.postings), wanted, limit)
    if as_json:
        click.echo(ledger_json.of_hits(hits))
    else:
        ledger_tables.print_hits(hits, limit)


@click.command()
@click.option("--format", "form", type=click.Choice(["csv", "parquet"]), required=True, help="What kind of file.")
@click.option("--table", "source", type=click.Choice(["postings", "journal"]), default="postings", show_default=True)
@click.option(
    "--from", "since", callback=moments.since, metavar="TIME", help="Only decided then or later: a day or a time, UTC."
)
@click.option(
    "--to", "until", callback=moments.until, metavar="TIME", help="Only decided before then; a day counts as a whole."
)
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
    """Write postings or the journal into a file, in the order of decision.

    The file appears whole or not at all. CSV: UTF-8, times in UTC, and a text that a spreadsheet would calculate begins
    with an apostrophe.
    """
    from cli import ledger_tables
    from ledger.queries import export as write

    places = {"postings": place.ledger.postings, "journal": place.ledger.journal}
    bounds = {"since": since, "until": until}
    what = f"{place.mode} {source} into {out} {span(**bounds)}".rstrip()
    record = functools.partial(put_on_record, place, EXPORT, what)
    with ledger_tables.writing(out) as told:
        done = write(str(places[source]), source, out, form, **bounds, overwrite=overwrite, told=told, record=record)
    click.echo(f"{done.rows:,} rows of the {source} (version {done.version}) are in {done.path}")
