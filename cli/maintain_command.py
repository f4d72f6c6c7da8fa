"""``payhook ledger maintain`` and ``redact``: what was put together, what left the disk, and whose order it was."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from cli.acting import on_record, this_account
from cli.kept_text import KEPT_TEXT
from cli.place import Place, with_place, with_place_of_mode
from cli.tables import row
from core.clock import to_rfc3339

if TYPE_CHECKING:
    from ledger.maintain import Report, TableReport

UNITS = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


@click.command()
@click.option("--dry-run", is_flag=True, help="Change nothing; tell what would be done.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")
@with_place
def maintain(place: Place, dry_run: bool, as_json: bool) -> None:
    """Keep the lake quick to read: small files into large ones, checkpoints, replaced files off the disk.

    Of every table: each work stream's journal, bodies and postings, receipts, redactions, reconciliations, the record
    of acts; live and test. May run at any moment, on a busy stack too; the stack runs it by itself every
    `ledger.maintain.every_s`. One at a time: a second one says so and ends. Exit 1 if a table couldn't be maintained.
    """
    # Spark's modules take a second to load; no other command needs them.
    from stack.maintenance import run_once

    report = run_once(place.settings, dry_run=dry_run)
    if as_json:
        click.echo(report.as_json())
    else:
        _print(report)
    sys.exit(0 if report.ok else 1)


@click.command()
@click.argument("event_key", metavar="EVENT_KEY")
@click.option("--reason", type=KEPT_TEXT, required=True, help="Why: a person reads it years later.")
@with_place_of_mode
def redact(place: Place, event_key: str, reason: str) -> None:
    """Remove the raw body of one event for good; its hashes, keys and postings stay.

    Written down first (`lake/redactions`), then done: in the table and in every file on the disk. Refused while the
    event, or another one with the same body, is open. A body that came again since (with another event, from a
    backup) is removed again. Kafka keeps its copy until its retention ends (docs/finance.md). One person has
    `dlq.alone_redactions_max` bodies removed within 24 hours; what is more is done by another person, from an account
    of their own.
    """
    from ledger.maintain.redact import Order
    from stack.maintenance import redact_event

    with on_record(place, "redact", f"{place.mode} {event_key}", reason):
        redacted = redact_event(place.settings, place.ledger.stream, Order(event_key, this_account(), reason))
    for act in redacted.done:
        click.echo(f"body {act.body_sha256} (row {act.seq}) is removed; written down as ordered by {act.actor}")
    for act in redacted.left:
        click.echo(
            f"body {act.body_sha256} (row {act.seq}) is written down to go, as ordered by {act.actor}; a file that may "
            "hold it is too young to tell: the next maintenance removes it"
        )
    for act in redacted.earlier:
        ordered = f"ordered by {act.actor} at {to_rfc3339(act.at)}: {act.reason}"
        click.echo(f"body {act.body_sha256} (row {act.seq}) had been removed before, {ordered}")


def _print(report: Report) -> None:
    console = Console(soft_wrap=True)
    if not report.tables:
        console.print("nothing has been decided yet: there is no table to maintain")
        return
    freed = "may leave the disk" if report.dry_run else "left the disk"
    table = Table(title="dry run: nothing was changed" if report.dry_run else None)
    for number, name in enumerate(("table", "files", "size", "log", freed, "seconds")):
        table.add_column(name, justify="right" if number else "left", no_wrap=not number, overflow="fold")
    for one in report.tables:
        row(table, *_cells(one, report.dry_run))
    console.print(table)
    for one in report.tables:
        if one.bodies_dropped:
            fate = "would go" if report.dry_run else "are gone"
            console.print(f"{one.of}: {one.bodies_dropped:,} whose time is over or that were redacted {fate}")
        if one.problem:
            console.print(f"{one.of}: {one.problem}", markup=False)
    console.print("all tables are as they should be" if report.ok else "[bold red]not all was done[/]: see above")


def _cells(one: TableReport, dry_run: bool) -> tuple[str, ...]:
    """Before and after in one cell. How large a table would be nobody knows before it is done."""
    return (
        one.of,
        _change(f"{one.files_before:,}", f"{one.files_after:,}"),
        size(one.bytes_before) if dry_run else _change(size(one.bytes_before), size(one.bytes_after)),
        _change(f"{one.log_before:,}", f"{one.log_after:,}"),
        f"{one.freed_files:,} ({size(one.freed_bytes)})" if one.freed_files else "",
        f"{one.seconds:.1f}",
    )


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def size(count: int) -> str:
    """A number of bytes in a unit that a person reads."""
    for unit, each in UNITS:
        if count >= each:
            return f"{count / each:.1f} {unit}"
    return f"{count} B"
