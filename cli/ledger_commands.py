"""``payhook ledger``: balances, and what providers told twice. Its other commands have files of their own."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import click

from cli import moments
from cli.place import Place, with_place_of_mode


@click.command()
@click.option("--merchant", help="Only this merchant's bookings, with the provider's side of them.")
@click.option("--currency", help="Only this currency (EUR, JPY, …).")
@click.option(
    "--as-of",
    "before",
    callback=moments.as_of,
    metavar="TIME",
    help="As it stood then: a day, counted whole, or a time; UTC.",
)
@click.option("--seq", type=click.IntRange(min=0), help="As it stood after this row of the journal.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in minor units.")
@with_place_of_mode
def balances(
    place: Place, merchant: str | None, currency: str | None, before: datetime | None, seq: int | None, as_json: bool
) -> None:
    """Show each account's debits, credits and balance (debits minus credits), now or as of a moment.

    Exit 1 if debits and credits differ.
    """
    from cli import ledger_json, ledger_tables
    from ledger.queries import AsOf, totals
    from ledger.queries import balances as read_balances

    if before is not None and seq is not None:
        raise click.UsageError("--as-of or --seq, not both")
    found = read_balances(str(place.ledger.postings), merchant, currency, AsOf(before, seq))
    if as_json:
        click.echo(ledger_json.of_balances(found))
    else:
        ledger_tables.print_balances(found)
    sys.exit(0 if all(total.balanced for total in totals(found)) else 1)


@click.command("provider-bugs")
@click.option("--provider", help="Only this provider's (stripe, adyen, …).")
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]),
    metavar="DAY",
    help="Only what was told again then or later: 2026-01-31 or 2026-01-31T12:00:00, UTC.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, to send to the provider.")
@with_place_of_mode
def provider_bugs(place: Place, provider: str | None, since: datetime | None, as_json: bool, as_csv: bool) -> None:
    """List what providers told twice or in two ways: one movement of money under several event ids, one event id
    with several contents. Both reports are shown, with their amounts while the bodies are kept.
    """
    from cli import provider_bugs as shown
    from ledger.provider_bugs import provider_bugs as read_provider_bugs
    from providers.registry import build_adapters

    if as_json and as_csv:
        raise click.UsageError("--json or --csv, not both")
    if since is not None:
        since = since.replace(tzinfo=UTC)
    layout = place.ledger
    adapters = build_adapters(place.settings.providers)
    found = read_provider_bugs(str(layout.journal), str(layout.bodies), adapters, provider=provider, since=since)
    if as_json:
        click.echo(shown.as_json(found, since))
    elif as_csv:
        click.echo(shown.as_csv(found), nl=False)
    else:
        shown.print_table(found)
