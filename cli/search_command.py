"""``payhook search``: payments by whatever a person has in hand, as the search of the pages finds them."""

from __future__ import annotations

import sys

import click

from cli import ledger_tables
from cli.place import Place, with_place_of_mode
from cli.tables import PrintedTable
from console.as_json import to_json_text
from console.formats import format_money, format_second
from core.clock import Deadline, SystemClock, to_rfc3339
from ledger.queries.payments import FOUND_MAX, SEARCH_S_MAX, Payments, find_payments

CUT = (
    "Searched only decisions since {since} in {seconds:g} s. To search older ones, name the days: "
    "payhook ledger search --from DAY --to DAY --text-in-keys TEXT"
)


@click.command()
@click.argument("text")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON, in minor units.")
@with_place_of_mode
def search(place: Place, text: str, as_json: bool) -> None:
    """Find payments by TEXT: a key, a provider's id, an order id, an amount (12.50, 12.50 EUR), an account.

    Prints the story of the one that is found, or a list to choose from. Exit 1 if nothing is found. Order ids are found
    in the field that console.order_field names.
    """
    ledger = place.ledger
    with ledger_tables.show_spinner():
        payments = find_payments(
            ledger, text, Deadline(SystemClock(), SEARCH_S_MAX), place.settings.console.order_field
        )
    if as_json:
        click.echo(to_json_text(payments))
    elif len(payments.found) == 1:
        _print_story(place, payments)
    else:
        _print_list(payments)
    if payments.looked_since is not None and not as_json:
        click.echo(CUT.format(seconds=SEARCH_S_MAX, since=to_rfc3339(payments.looked_since)), err=True)
    sys.exit(0 if payments.found else 1)


def _print_story(place: Place, payments: Payments) -> None:
    [payment] = payments.found
    if payment.is_entity:
        ledger_tables.print_entity(place.ledger.read_entity(payment.key))
    else:
        story, bodies = place.ledger.read_story(payment.key)
        ledger_tables.print_story(payment.key, story, bodies)


def _print_list(payments: Payments) -> None:
    if not payments.found:
        click.echo("no payments match")
        return
    rows = PrintedTable("decided (UTC)", "decision", "amount", "payment, merchant", right=["amount"])
    for payment in payments.found:
        amounts = ", ".join(format_money(minor, currency) for currency, minor in payment.amounts.items())
        names = "\n".join(filter(None, (payment.key, payment.merchant)))
        rows.add(format_second(payment.at), payment.decision, amounts, names)
    rows.print()
    if payments.more:
        click.echo(f"the newest {FOUND_MAX}; a longer text finds fewer")
    click.echo("payhook ledger entity KEY shows the story of one")
