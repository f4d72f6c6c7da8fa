"""``payhook ledger``: balances, and one event's story."""

from __future__ import annotations

import dataclasses
import json
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click
from deltalake import DeltaTable
from rich.console import Console
from rich.table import Table

from cli.place import Place, with_place
from cli.tables import row

if TYPE_CHECKING:
    from ledger.queries import Balance, EventStory


@click.group()
def ledger() -> None:
    """What was booked, and why."""


@ledger.command()
@click.option("--merchant", help="Only this merchant's lines.")
@click.option("--currency", help="Only this currency (EUR, JPY, …).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place
def balances(place: Place, merchant: str | None, currency: str | None, as_json: bool) -> None:
    """Show each account's debits, credits and balance, in minor units (cents)."""
    from ledger.queries import balances as read_balances

    found = read_balances(str(place.layout.postings), merchant, currency)
    if as_json:
        lines = [{**dataclasses.asdict(one), "balance_minor": one.balance_minor} for one in found]
        click.echo(json.dumps(lines, indent=1, default=_plain))
    else:
        _print_balances(found)


@ledger.command()
@click.argument("keys", nargs=-1, required=True, metavar="KEY…")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place
def event(place: Place, keys: tuple[str, ...], as_json: bool) -> None:
    """Tell the story of an event (provider:id:type) or of a fact: each decision with its reason, and its postings.

    Exit 1 if a key is unknown.
    """
    from ledger.queries import event_story

    journal = str(place.layout.journal)
    if not DeltaTable.is_deltatable(journal):
        click.echo("nothing has been decided yet", err=True)
        sys.exit(1)
    stories = {key: event_story(journal, str(place.layout.postings), key) for key in keys}
    if as_json:
        told = {key: _as_dict(story) for key, story in stories.items()}
        click.echo(json.dumps(told, indent=1, default=_plain))
    else:
        for key, story in stories.items():
            _print_story(key, story)
    sys.exit(0 if all(story.rows for story in stories.values()) else 1)


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
