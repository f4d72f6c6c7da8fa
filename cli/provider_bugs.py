"""How ``payhook ledger provider-bugs`` is shown: a table for people, JSON for tools, CSV to send on."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from cli.tables import row
from ledger.provider_bugs import EXPLAINED, Kind, ProviderBug, Report

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOWN_MAX = 100
"""Of one provider in the table; JSON and CSV have them all."""
REPORT_COLUMNS = [field.name for field in dataclasses.fields(Report)]
CSV_COLUMNS = [
    "provider",
    "kind",
    "fact_key",
    *(f"{which}_{name}" for which in ("first", "again") for name in REPORT_COLUMNS),
    "seqs_apart",
]
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What makes a spreadsheet take a text for a formula (CWE-1236)."""


def as_json(bugs: Sequence[ProviderBug], since: datetime | None) -> str:
    """Counts by provider and kind, and every case; times are RFC 3339 in UTC, amounts in minor units."""
    counts = {name: Counter(bug.kind for bug in found) for name, found in _by_provider(bugs)}
    told = {
        "since": _plain(since) if since else None,
        "counts": {name: {kind: counts[name][kind] for kind in EXPLAINED} for name in counts},
        "bugs": [dataclasses.asdict(bug) | {"seqs_apart": bug.seqs_apart} for bug in bugs],
    }
    return json.dumps(told, indent=1, default=_plain)


def as_csv(bugs: Sequence[ProviderBug]) -> str:
    """One line a case under `CSV_COLUMNS`; no text is a formula where it is opened."""
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(CSV_COLUMNS)
    writer.writerows([_cell(value) for value in _flat(bug)] for bug in bugs)
    return lines.getvalue()


def print_table(bugs: Sequence[ProviderBug]) -> None:
    """By provider and kind: the two reports of each case, one under the other."""
    if not bugs:
        click.echo("no provider told anything twice, or in two ways")
        return
    console = Console(soft_wrap=True)
    for name, of_provider in _by_provider(bugs):
        for kind, explained in EXPLAINED.items():
            found = [bug for bug in of_provider if bug.kind == kind]
            if found:
                console.print(_table(f"{name}: {explained} ({len(found):,})", found[:SHOWN_MAX], kind))
                if len(found) > SHOWN_MAX:
                    click.echo(f"and {len(found) - SHOWN_MAX:,} more: --csv and --json print all of them")


def _table(title: str, bugs: Sequence[ProviderBug], kind: Kind) -> Table:
    table = Table("seq", "event", "received", "content", title=title)
    table.add_column("minor units", justify="right")
    if kind != "event_conflict":
        table.columns[1].header = "fact, events"
    for bug in bugs:
        if kind != "event_conflict":
            row(table, None, bug.fact_key)
        for report in (bug.first, bug.again):
            if report is None:
                row(table, None, "the journal has no first report: run payhook verify")
            else:
                row(table, report.seq, report.event_key, _moment(report), _short(report.content_sha256), _money(report))
        table.add_section()
    return table


def _by_provider(bugs: Sequence[ProviderBug]) -> Iterator[tuple[str, list[ProviderBug]]]:
    ordered = sorted(bugs, key=lambda bug: bug.provider)
    return ((name, list(found)) for name, found in itertools.groupby(ordered, key=lambda bug: bug.provider))


def _flat(bug: ProviderBug) -> list[object]:
    reports = [
        getattr(report, name) if report is not None else None
        for report in (bug.first, bug.again)
        for name in REPORT_COLUMNS
    ]
    return [bug.provider, bug.kind, bug.fact_key, *reports, bug.seqs_apart]


def _cell(value: object) -> object:
    if isinstance(value, datetime):
        return _plain(value)
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "'" + value
    return value


def _plain(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _moment(report: Report) -> str | None:
    return report.received_at.isoformat(" ", "seconds") if report.received_at else None


def _short(digest: str | None) -> str | None:
    return digest[:12] if digest else None


def _money(report: Report) -> str | None:
    return None if report.amount_minor is None else f"{report.amount_minor:,} {report.currency}"
