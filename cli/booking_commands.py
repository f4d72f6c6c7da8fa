"""``payhook ledger reverse``, ``enter`` and ``proposals``: what two people book, proposed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click

from cli.acting import ASK_APPROVAL, open_orders, this_account
from cli.place import KEPT_TEXT, Place, read_since, with_place_of_mode
from cli.tables import PrintedTable, print_details
from console.as_json import BookingProposal, to_json_text
from console.formats import format_money, format_second
from core.clock import SystemClock
from core.errors import PayhookError
from core.layout import StreamLayout
from core.money import Money, parse_minor_units
from core.routing import row_name, topics_of
from core.work import Posting, Side
from journal.reader import lineage_of
from journal.schema import JournalRow
from journal.target import ItemTarget
from ledger.reversals import build_entry, build_reversal, find_bookings, hash_evidence, read_all_proposals
from operations.command import PROPOSE_REVERSAL, REVERSALS_MAX, Command, propose_entry

ACTIONS = {"propose_reversal": "reversal"}


@click.command("reverse")
@click.argument("keys", nargs=-1, required=True, metavar="KEY…")
@click.option("--reason", type=KEPT_TEXT, required=True, help="The reason, kept with the entry.")
@click.option("--dry-run", is_flag=True, help="Show what would be booked, and send nothing.")
@with_place_of_mode
def reverse(place: Place, keys: tuple[str, ...], reason: str, dry_run: bool) -> None:
    """Propose to reverse what events (or facts) booked. Nothing is booked until another admin approves it.

    A booking is never edited: the reversing entry has the same accounts and amounts with their sides exchanged.
    """
    if len(keys) > REVERSALS_MAX:
        raise click.UsageError(f"{len(keys)} keys: name at most {REVERSALS_MAX} at once")
    by_journal = _find_bookings(place, keys)
    bookings_found = [row for bookings in by_journal.values() for row in bookings]
    _print_lines("event", [(row.event_key or "", line) for row in bookings_found for line in build_reversal(row)])
    if dry_run:
        click.echo("nothing was sent")
        return
    for layout, bookings in by_journal.items():
        targets, lineage = [ItemTarget.of_row(row) for row in bookings], lineage_of(str(layout.journal))
        command = Command.with_new_id(
            layout.stream, lineage, PROPOSE_REVERSAL, targets, this_account(), reason, SystemClock().now()
        )
        named = keys if len(by_journal) == 1 else [row.event_key or "" for row in bookings]
        open_orders(place).send(command, f"{place.mode} {', '.join(named)}")
        click.echo(f"proposed as {command.command_id}")
    click.echo(ASK_APPROVAL)


def _find_bookings(place: Place, keys: Sequence[str]) -> dict[StreamLayout, list[JournalRow]]:
    by_journal = place.ledger.group_by_journal(keys)
    return {
        layout: find_bookings(str(layout.journal), journal_bookings) for layout, journal_bookings in by_journal.items()
    }


@click.command()
@click.option("--all", "every", is_flag=True, help="Also show those that were approved, or proposed before a restore.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place_of_mode
def proposals(place: Place, every: bool, as_json: bool) -> None:
    """List the reversals and entries that wait for approval, newest first."""
    proposed = read_all_proposals(place.ledger, topics_of(place.mode).control)
    shown_proposals = [BookingProposal.from_proposed(proposal) for proposal in proposed if every or proposal.waits]
    if as_json:
        click.echo(to_json_text(shown_proposals))
    elif not shown_proposals:
        click.echo("no proposals wait for approval")
    else:
        _print_proposals(shown_proposals)


def _print_lines(of: str, lines: Sequence[tuple[str, Posting]]) -> None:
    rows = PrintedTable(of, "account", "debit", "credit", right=["debit", "credit"], title="would be booked")
    for key, line in lines:
        amount, is_debit = format_money(line.money.amount_minor, line.money.currency), line.side == "debit"
        rows.add(key, line.account, amount if is_debit else None, None if is_debit else amount)
    rows.print()


def _print_proposals(listed: Sequence[BookingProposal]) -> None:
    """Prints them one below the other, since ids and account names are copied from here."""
    for proposal in listed:
        items = ", ".join(row_name(proposal.stream, item) for item in proposal.items)
        what = f"{ACTIONS[proposal.action]} of items {items}" if items else None
        details = [
            ("at", format_second(proposal.at)),
            ("by", proposal.actor),
            ("reason", proposal.reason),
            ("proposes", what or f"entry for {proposal.entity}"),
            *(
                (line.side, f"{line.account}  {format_money(line.amount_minor, line.currency)}")
                for line in proposal.lines
            ),
            ("document", proposal.evidence_sha256),
        ]
        print_details(details, f"{proposal.command_id}  {proposal.state}")


Line = tuple[str, str, str]


@click.command("enter")
@click.argument("entity", metavar="ENTITY", type=KEPT_TEXT)
@click.option("--debit", "debited", nargs=3, type=(str, str, str), multiple=True, metavar="ACCOUNT AMOUNT CURRENCY")
@click.option("--credit", "credited", nargs=3, type=(str, str, str), multiple=True, metavar="ACCOUNT AMOUNT CURRENCY")
@click.option(
    "--evidence",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="The document that proves it. Only its SHA-256 is kept: keep the document yourself.",
)
@click.option(
    "--occurred", "occurred_at", callback=read_since, metavar="TIME", help="When the money moved (default: now)."
)
@click.option("--reason", type=KEPT_TEXT, required=True, help="The reason, kept with the entry.")
@click.option("--dry-run", is_flag=True, help="Show what would be booked, and send nothing.")
@with_place_of_mode
def enter(
    place: Place,
    entity: str,
    debited: tuple[Line, ...],
    credited: tuple[Line, ...],
    evidence: Path,
    occurred_at: datetime | None,
    reason: str,
    dry_run: bool,
) -> None:
    """Propose a booking by hand for ENTITY (a payment, say). Nothing is booked until another admin approves it.

    Amounts are decimal numbers of their currency: 12.50 EUR, 1250 JPY, 1.250 KWD. Give each line with --debit or
    --credit, as often as it takes:

    \b
      payhook ledger enter stripe:acct_1:pi_1 \\
        --debit merchant:m1:dispute_losses 12.50 EUR \\
        --credit merchant:m1:disputes 12.50 EUR \\
        --evidence letter.pdf --reason "lost, says the bank"
    """
    now = SystemClock().now()
    postings = [*_read_lines("debit", debited), *_read_lines("credit", credited)]
    entry = build_entry(entity, occurred_at or now, hash_evidence(evidence), postings)
    _print_lines("entity", [(entity, posting) for posting in postings])
    click.echo(f"evidence: sha256 {entry.evidence_sha256}")
    if dry_run:
        click.echo("nothing was sent")
        return
    layout = place.ledger.of_entity(entity)
    command = propose_entry(layout.stream, lineage_of(str(layout.journal)), entry, this_account(), reason, now)
    open_orders(place).send(command, f"{place.mode} {entity}")
    click.echo(f"proposed as {command.command_id}")
    click.echo(ASK_APPROVAL)


def _read_lines(side: Side, given: tuple[Line, ...]) -> list[Posting]:
    postings = []
    for account, amount, currency in given:
        try:
            postings.append(Posting(account, side, Money(parse_minor_units(amount, currency), currency)))
        except PayhookError as wrong:
            raise click.UsageError(f"--{side} {account} {amount} {currency}: {wrong}") from wrong
    return postings
