"""``payhook verify``: the proof, as a table or as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from cli.place import Place, with_place_of_mode
from stack.jars import spark_jars
from stack.layout import LEDGER
from stack.settings import streams_of

if TYPE_CHECKING:
    from ledger.verify import Report


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")
@with_place_of_mode
def verify(place: Place, as_json: bool) -> None:
    """Prove from Kafka and the journal that nothing was lost and nothing took effect twice.

    May run at any moment, on a busy stack too. Each invariant names a bounded sample of what offends it; exit 1 if
    anything does.
    """
    # Spark's modules take a second to load; no other command needs them.
    from ledger.verify import run

    report = run(
        place.settings.data_dir,
        place.bootstrap(),
        Path(place.settings.processor.anchor_key_file),
        spark_jars(),
        place.settings.ledger.verify,
        stream=place.ledger.stream,
        dead_letters=streams_of(place.settings)[LEDGER].dlq_topic(place.mode),
    )
    if as_json:
        click.echo(report.as_json())
    else:
        _print(report)
    sys.exit(0 if report.ok else 1)


def _print(report: Report) -> None:
    console = Console(soft_wrap=True)
    table = Table(
        "", "invariant", "which says", title=f"{report.stream}: journal version {report.version}, seq {report.seq}"
    )
    for finding in report.findings:
        table.add_row("ok" if finding.ok else "[bold red]NO[/]", finding.name, finding.sentence)
    console.print(table)
    for finding in report.findings:
        for offender in finding.offenders:
            console.print(f"{finding.name}: {json.dumps(offender, default=str)}", markup=False)
    console.print("verified: all of it holds" if report.ok else "[bold red]not verified[/]: see the offenders above")
