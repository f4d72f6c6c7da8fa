"""``payhook verify``: the proof, as a table or as JSON."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from cli import moments
from cli.place import Place, with_place_of_mode
from stack.jars import spark_jars
from stack.layout import LEDGER
from stack.settings import streams_of

if TYPE_CHECKING:
    from ledger.verify import Report
    from ledger.verify.invariant import Finding

WRONG, NOT_CHECKED = 1, 2
"""Exit codes beside 0."""


def _since(context: click.Context, option: click.Parameter, text: str | None) -> int | datetime | None:
    """A row's number, or a moment."""
    return int(text) if text is not None and text.isdigit() else moments.since(context, option, text)


@click.command()
@click.option("--deep", is_flag=True, help="Also hash every raw body again, and account for those that are gone.")
@click.option(
    "--since",
    callback=_since,
    metavar="TIME|SEQ",
    help="Look only at rows from this one on, or decided from this moment on (UTC); says what it can't know then.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")
@with_place_of_mode
def verify(place: Place, deep: bool, since: int | datetime | None, as_json: bool) -> None:
    """Prove from Kafka and the journal that nothing was lost and nothing took effect twice.

    May run at any moment, on a busy stack too. Each invariant names a bounded sample of what offends it; exit 1 if
    anything does, 2 if nothing does but something couldn't be checked.
    """
    # Spark's modules take a second to load; no other command needs them.
    from cli.verify_progress import watching
    from ledger.verify import Options, run

    console = Console(soft_wrap=True)
    with watching(console, silent=as_json) as watch:
        report = run(
            place.settings.data_dir,
            place.bootstrap(),
            Path(place.settings.processor.anchor_key_file),
            spark_jars(place.layout.lake),
            place.settings.ledger.verify,
            stream=place.ledger.stream,
            dead_letters=streams_of(place.settings)[LEDGER].dlq_topic(place.mode),
            options=Options(deep, since, place.settings.ledger.bodies_days),
            watch=watch,
            lake=place.layout.lake,
        )
    if as_json:
        click.echo(report.as_json())
    else:
        print_report(report, console)
    sys.exit(0 if report.ok else WRONG if report.wrong else NOT_CHECKED)


def print_report(report: Report, console: Console) -> None:
    """A table for a person; one line an invariant where nobody looks."""
    rows = f"rows {report.since:,} to {report.seq:,}" if report.since > 1 else f"seq {report.seq:,}"
    title = f"{report.stream}: journal version {report.version}, {rows}, {report.seconds:.1f} s"
    if console.is_terminal:
        table = Table("", "invariant", "which says", title=title)
        for finding in report.findings:
            table.add_row(_said(finding), finding.name, finding.sentence)
        console.print(table)
    else:
        console.print(title, highlight=False)
        for finding in report.findings:
            console.print(f"{_said(finding)}  {finding.name}: {finding.sentence}", highlight=False)
    for finding in report.findings:
        if finding.unknown is not None:
            console.print(f"not looked at by {finding.name}: {finding.unknown}", markup=False, highlight=False)
    for finding in report.findings:
        if finding.not_checked is not None:
            console.print(f"{finding.name}: not checked: {finding.not_checked}", markup=False, highlight=False)
    for finding in report.findings:
        for offender in finding.offenders:
            console.print(f"{finding.name}: {json.dumps(offender, default=str)}", markup=False)
    held = "all of it holds" if report.since <= 1 else "all that was looked at holds"
    if report.ok:
        console.print(f"verified: {held}")
    else:
        why = "the offenders above" if report.wrong else "what couldn't be checked above"
        console.print(f"[bold red]not verified[/]: see {why}")


def _said(finding: Finding) -> str:
    if finding.not_checked is not None:
        return "[yellow]--[/]"
    return "ok" if finding.ok else "[bold red]NO[/]"
