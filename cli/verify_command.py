"""``payhook verify``: the proof, as a table or as JSON."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from cli.place import Place, read_since, with_place_of_mode
from core.errors import PayhookError
from ledger.verify import Finding, VerifyProgress
from stack.settings import streams_of

if TYPE_CHECKING:
    from ledger.verify import Report
    from ledger.verify.report import Finding


WRONG, NOT_CHECKED = 1, 2
"""Exit codes beside 0."""


def _read_row_or_moment(context: click.Context, option: click.Parameter, text: str | None) -> int | datetime | None:
    return int(text) if text is not None and text.isdigit() else read_since(context, option, text)


def _explain(context: click.Context, option: click.Parameter, name: str | None) -> None:
    if name is None:
        return
    from ledger.verify.job import explain, list_invariant_types

    try:
        click.echo(explain(name), nl=False)
    except KeyError as unknown:
        problem = f"there is no invariant {name}: choose one of {', '.join(sorted(list_invariant_types()))}"
        raise click.BadParameter(problem, context, option) from unknown
    context.exit(0)


@click.command()
@click.option("--deep", is_flag=True, help="Also hash every raw body again, and account for those that are gone.")
@click.option(
    "--since",
    callback=_read_row_or_moment,
    metavar="TIME|SEQ",
    help="Check only rows from this one, or from this time (UTC), on; the report says what that leaves unchecked.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")
@click.option(
    "--stream",
    metavar="NAME",
    help="Only this work stream, or one shard of it, as ledger.1 (default: all that have a journal).",
)
@click.option(
    "--explain",
    is_eager=True,
    expose_value=False,
    callback=_explain,
    metavar="NAME",
    help="Print an invariant's sentence, and the query that proves it or its code's file; verify nothing.",
)
@with_place_of_mode
def verify(place: Place, deep: bool, since: int | datetime | None, as_json: bool, stream: str | None) -> None:
    """Prove from Kafka and the journals that nothing was lost and nothing took effect twice.

    May run at any moment, on a busy stack too. Each invariant names a bounded sample of what offends it. Exit 1:
    something is wrong. Exit 2: nothing that was checked is, but something, or all of a stream, couldn't be checked.
    Exit 0: all holds.
    """
    # Spark's modules take a second to load; no other command needs them.
    from ledger.verify import Options
    from ledger.verify.report import reports_as_json
    from stack.maintenance.verification import verify_stream

    console = Console(soft_wrap=True)
    options = Options(deep, since, place.settings.providers)
    reports: list[Report] = []
    impossible = False
    for name in _list_streams(place, stream):
        try:
            with show_bars(console, silent=as_json) as watch:
                reports.append(verify_stream(place.settings, place.kafka(), name, options, watch))
            _remember_report(place, reports[-1], deep=deep)
        except PayhookError as problem:
            impossible = True
            click.echo(f"payhook: {name}: {problem}", err=True)
            continue
        if not as_json:
            print_report(reports[-1], console)
    if as_json:
        click.echo(reports_as_json(reports, complete=not impossible))
    wrong, ok = any(report.has_offenders for report in reports), all(report.ok for report in reports) and not impossible
    sys.exit(0 if ok else WRONG if wrong else NOT_CHECKED)


def _remember_report(place: Place, report: Report, *, deep: bool) -> None:
    """Remembers the report for alerts and pages. Where the folder can't be written the proof is as good."""
    from ledger.verify.report import remember_report

    try:
        remember_report(place.layout.verified_file, report, deep=deep)
    except OSError as failed:
        click.echo(f"payhook: alerts and pages aren't shown this result: {failed}", err=True)


def _list_streams(place: Place, stream: str | None) -> list[str]:
    from stack.maintenance.verification import streams_to_verify

    if stream is not None:
        configured = streams_of(place.settings)
        names = {name: config.names(place.mode) for name, config in configured.items()}
        pairs = [
            pair
            for config in configured.values()
            for pair in zip(config.names("live"), names[config.name], strict=True)
        ]
        choices = names | {live: [name] for live, name in pairs if live not in names}
        if stream not in choices:
            problem = f"there is no stream {stream}: choose one of {', '.join(choices)}"
            raise click.BadParameter(problem, param_hint="--stream")
        return choices[stream]
    return streams_to_verify(place.settings, place.mode)


def print_report(report: Report, console: Console) -> None:
    rows = f"rows {report.since:,} to {report.seq:,}" if report.since > 1 else f"seq {report.seq:,}"
    title = f"{report.stream}: journal version {report.version}, {rows}, {report.seconds:.1f} s"
    if console.is_terminal:
        table = Table("", Column("invariant", no_wrap=True), "which says", title=title)
        for finding in report.findings:
            table.add_row(_format_mark(finding), finding.name, finding.sentence)
        console.print(table)
    else:
        console.print(title, highlight=False)
        for finding in report.findings:
            console.print(f"{_format_mark(finding)}  {finding.name}: {finding.sentence}", highlight=False)
    for finding in report.findings:
        if finding.unknown is not None:
            console.print(f"not checked by {finding.name}: {finding.unknown}", markup=False, highlight=False)
    for finding in report.findings:
        if finding.not_checked is not None:
            console.print(f"{finding.name}: not checked: {finding.not_checked}", markup=False, highlight=False)
    for finding in report.findings:
        for offender in finding.offenders:
            console.print(f"{finding.name}: {json.dumps(offender, default=str)}", markup=False)
    verdict = "all of it holds" if report.since <= 1 else "all that was checked holds"
    if report.ok:
        console.print(f"verified: {verdict}")
    else:
        why = "the offenders above" if report.has_offenders else "what couldn't be checked above"
        console.print(f"[bold red]not verified[/]: see {why}")


def _format_mark(finding: Finding) -> str:
    if finding.not_checked is not None:
        return "[yellow]--[/]"
    return "ok" if finding.ok else "[bold red]NO[/]"


class ProgressBars(VerifyProgress):
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._invariants = progress.add_task("invariants", total=None)
        self._query = progress.add_task("% of the query that is under way", total=100)

    def show_start(self, invariants: int) -> None:
        self._progress.update(self._invariants, total=invariants)

    def show_percent(self, percent: float) -> None:
        self._progress.update(self._query, completed=max(0, round(percent)))

    def show_finding(self, finding: Finding) -> None:
        if not finding.ok:
            self._progress.console.print(f"{finding.name} doesn't hold", style="bold red")
        self._progress.update(self._invariants, advance=1)


@contextlib.contextmanager
def show_bars(console: Console, *, silent: bool = False) -> Iterator[VerifyProgress]:
    if silent or not console.is_terminal:
        yield VerifyProgress()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield ProgressBars(progress)
