"""``payhook ledger enter``: a booking by hand, proposed."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click
from rich.console import Console

from cli import moments
from cli.acting import orders, this_account
from cli.kept_text import KEPT_TEXT
from cli.place import Place, with_place_of_mode
from cli.proposal_tables import APPROVED_WHERE, add_lines, would_be_booked
from core.clock import SystemClock
from core.errors import PayhookError
from core.money import Money
from core.work import Posting, Side
from dlq.commands import propose_entry
from journal.reader import lineage_of
from ledger.reversals import entry_of, evidence_sha256

Line = tuple[str, int, str]


@click.command("enter")
@click.argument("entity", metavar="ENTITY", type=KEPT_TEXT)
@click.option("--debit", "debited", nargs=3, type=(str, int, str), multiple=True, metavar="ACCOUNT AMOUNT CURRENCY")
@click.option("--credit", "credited", nargs=3, type=(str, int, str), multiple=True, metavar="ACCOUNT AMOUNT CURRENCY")
@click.option(
    "--evidence",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="The document that shows it. Its SHA-256 is kept, not the document: keep that yourself.",
)
@click.option(
    "--occurred", "occurred_at", callback=moments.since, metavar="TIME", help="When the money moved (default: now)."
)
@click.option("--reason", type=KEPT_TEXT, required=True, help="Why; it is kept with the entry.")
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
    """Propose a booking by hand for ENTITY (a payment, say). Nothing is booked until another person approves it.

    Amounts are in minor units. Give each line with --debit or --credit, as often as it takes:

    \b
      payhook ledger enter stripe:acct_1:pi_1 \\
        --debit merchant:m1:dispute_losses 1250 EUR \\
        --credit merchant:m1:disputes 1250 EUR \\
        --evidence letter.pdf --reason "lost, says the bank"
    """
    now = SystemClock().now()
    postings = [*_lines("debit", debited), *_lines("credit", credited)]
    entry = entry_of(entity, occurred_at or now, evidence_sha256(evidence), postings)
    table = would_be_booked("entity")
    add_lines(table, entity, postings)
    Console(soft_wrap=True).print(table)
    click.echo(f"evidence: sha256 {entry.evidence_sha256}")
    if dry_run:
        click.echo("nothing was sent")
        return
    lineage = lineage_of(str(place.ledger.journal))
    command = propose_entry(place.ledger.stream, lineage, entry, this_account(), reason, now)
    orders(place).send(command, f"{place.mode} {entity}")
    click.echo(f"proposed as {command.command_id}")
    click.echo(APPROVED_WHERE)


def _lines(side: Side, given: tuple[Line, ...]) -> list[Posting]:
    found = []
    for account, amount_minor, currency in given:
        try:
            found.append(Posting(account, side, Money(amount_minor, currency)))
        except PayhookError as wrong:
            raise click.UsageError(f"--{side} {account} {amount_minor} {currency}: {wrong}") from wrong
    return found
