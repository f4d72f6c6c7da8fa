"""``payhook ledger``: balances, one event's story, and what providers told twice."""

from __future__ import annotations

import dataclasses
import json
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click
from deltalake import DeltaTable
from rich.console import Console
from rich.table import Table

from cli.place import Place, with_place_of_mode
from cli.tables import row
from providers.registry import build_adapters

if TYPE_CHECKING:
    from ledger.queries import Balance, EventStory


@click.group()
def ledger() -> None:
    """What was booked, and why."""


@ledger.command()
@click.option("--merchant", help="Only this merchant's lines.")
@click.option("--currency", help="Only this currency (EUR, JPY, …).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place_of_mode
def balances(place: Place, merchant: str | None, currency: str | None, as_json: bool) -> None:
    """Show each account's debits, credits and balance, in minor units (cents)."""
    from ledger.queries import balances as read_balances

    found = read_balances(str(place.ledger.postings), merchant, currency)
    if as_json:
        lines = [{**dataclasses.asdict(one), "balance_minor": one.balance_minor} for one in found]
        click.echo(json.dumps(lines, indent=1, default=_plain))
    else:
        _print_balances(found)


@ledger.command()
@click.argument("keys", nargs=-1, required=True, metavar="KEY…")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place_of_mode
def event(place: Place, keys: tuple[str, ...], as_json: bool) -> None:
    """Tell the story of an event (provider:id:type) or of a fact: each decision with its reason, and its postings.

    Exit 1 if a key is unknown.
    """
    from ledger.queries import event_story

    journal = str(place.ledger.journal)
    if not DeltaTable.is_deltatable(journal):
        click.echo("nothing has been decided yet", err=True)
        sys.exit(1)
    stories = {key: event_story(journal, str(place.ledger.postings), key) for key in keys}
    if as_json:
        told = {key: _as_dict(story) for key, story in stories.items()}
        click.echo(json.dumps(told, indent=1, default=_plain))
    else:
        for key, story in stories.items():
            _print_story(key, story)
    sys.exit(0 if all(story.rows for story in stories.values()) else 1)


@ledger.command()
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


def _as_dict(story: EventStory) -> dict[str, Any]:
    return {"rows": [dataclasses.asdict(row) for row in story.rows], "postings": story.postings}


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return int(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _print_balances(found: list[Balance]) -> None:
    if not found:
        click.echo("nothing has been booked yet")
        return
    table = Table("account", "currency", title="in minor units")
    for name in ("debit", "credit", "balance"):
        table.add_column(name, justify="right")
    for one in found:
        sums = (one.debit_minor, one.credit_minor, one.balance_minor)
        row(table, one.account, one.currency, *(f"{value:,}" for value in sums))
    Console().print(table)


def _print_story(key: str, story: EventStory) -> None:
    console = Console(soft_wrap=True)
    if not story.rows:
        console.print(f"{key}: unknown", markup=False)
        return
    console.print(key, style="bold", markup=False)
    rows = Table("seq", "decided", "decision", "attempt", "why")
    for one in story.rows:
        when = one.decided_at.isoformat(" ", "milliseconds")
        row(rows, one.seq, when, one.decision.value, one.attempt, one.reason or one.error_message)
    console.print(rows)
    if story.postings:
        lines = Table("account", "debit", "credit", "currency", title="booked, in minor units")
        for line in story.postings:
            amount = f"{int(line['amount_minor']):,}"
            is_debit = line["side"] == "debit"
            row(lines, line["account"], amount if is_debit else "", "" if is_debit else amount, line["currency"])
        console.print(lines)
