"""``payhook ledger reverse`` and ``proposals``: what two people book, proposed."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.console import Console

from cli.acting import orders, this_account
from cli.kept_text import KEPT_TEXT
from cli.place import Place, with_place_of_mode
from cli.proposal_tables import APPROVED_WHERE, add_lines, would_be_booked
from core.clock import SystemClock
from core.routing import topics_of
from core.visible import visible_lines
from dlq.commands import PROPOSE_REPROCESS, REVERSALS_MAX, Command, propose_reversal
from dlq.entry import entry_to_tree
from journal.reader import lineage_of
from ledger.reversals import Booking, Proposed, bookings_of
from ledger.reversals import proposals as read_proposals

LINE_CHARS_MAX = 2_000


@click.command("reverse")
@click.argument("keys", nargs=-1, required=True, metavar="KEY…")
@click.option("--reason", type=KEPT_TEXT, required=True, help="Why; it is kept with the entry.")
@click.option("--dry-run", is_flag=True, help="Show what would be booked, and send nothing.")
@with_place_of_mode
def reverse(place: Place, keys: tuple[str, ...], reason: str, dry_run: bool) -> None:
    """Propose to take back what events (or facts) booked. Nothing is booked until another person approves it.

    A booking is never edited: the reversing entry has the same accounts and amounts with their sides exchanged.
    """
    if len(keys) > REVERSALS_MAX:
        raise click.UsageError(f"{len(keys)} keys; at most {REVERSALS_MAX} are reversed at once")
    journal = str(place.ledger.journal)
    lineage, bookings = lineage_of(journal), bookings_of(journal, keys)
    _print_bookings(bookings)
    if dry_run:
        click.echo("nothing was sent")
        return
    targets = [booking.target for booking in bookings]
    command = propose_reversal(place.ledger.stream, lineage, targets, this_account(), reason, SystemClock().now())
    orders(place).send(command, f"{place.mode} {', '.join(keys)}")
    click.echo(f"proposed as {command.command_id}")
    click.echo(APPROVED_WHERE)


@click.command()
@click.option("--all", "every", is_flag=True, help="Also those that were approved, or proposed before a restore.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place_of_mode
def proposals(place: Place, every: bool, as_json: bool) -> None:
    """List the reversals, entries and reprocessing that wait for another person, newest first."""
    found = [one for one in read_proposals(*_journal(place)) if every or one.waits]
    if as_json:
        click.echo(json.dumps([_as_dict(one) for one in found], indent=1, default=str))
    elif not found:
        click.echo("nothing waits for an approval")
    else:
        _print_proposals(found)


def _journal(place: Place) -> tuple[str, str, str]:
    return str(place.ledger.journal), str(place.ledger.bodies), topics_of(place.mode).control


def _print_bookings(bookings: list[Booking]) -> None:
    table = would_be_booked("event")
    for booking in bookings:
        add_lines(table, booking.row.event_key or "", booking.would_book)
    Console(soft_wrap=True).print(table)


def _print_proposals(found: list[Proposed]) -> None:
    """One below the other: ids and account names are copied from here, so no column cuts them."""
    for one in found:
        command = one.command
        when = command.at.isoformat(" ", "seconds").removesuffix("+00:00")
        for line in (
            f"{command.command_id}  {one.state}",
            f"  {when} UTC, {command.actor}: {command.reason}",
            *_what(command),
        ):
            click.echo(visible_lines(line, LINE_CHARS_MAX))


def _what(command: Command) -> list[str]:
    """What would be booked."""
    if command.entry is None:
        act = "reprocessing" if command.action == PROPOSE_REPROCESS else "reversal"
        return [f"  {act} of items " + ", ".join(str(target.item_seq) for target in command.targets)]
    lines = [
        f"    {line.side:<6}  {line.account}  {line.money.amount_minor:,} {line.money.currency}"
        for line in command.entry.postings
    ]
    document = f"    document  {command.entry.evidence_sha256}"
    return [f"  entry for {command.entry.entity_key}, in minor units", *lines, document]


def _as_dict(one: Proposed) -> dict[str, Any]:
    return {
        "proposal": one.command.command_id,
        "action": one.command.action,
        "at": one.command.at.isoformat(),
        "actor": one.command.actor,
        "reason": one.command.reason,
        "items": [target.item_seq for target in one.command.targets],
        "entry": None if one.command.entry is None else entry_to_tree(one.command.entry),
        "approved": one.approved,
        "outdated": one.outdated,
    }
