"""``payhook ledger provider-bugs``: a table for people, JSON for tools, CSV to send on."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from cli.place import Place, with_place_of_mode
from cli.tables import PrintedTable
from console.as_json import to_json_text, to_json_value
from console.formats import format_money, format_second
from core.routing import row_name
from ledger.provider_bugs import EXPLAINED, Kind, ProviderBug, ReportedDelivery, find_all_provider_bugs
from providers.registry import build_adapters

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOWN_MAX = 100
"""The most cases of one provider in the table; JSON and CSV have them all."""
REPORT_COLUMNS = [field.name for field in dataclasses.fields(ReportedDelivery)]
CSV_COLUMNS = [
    "provider",
    "kind",
    "fact_key",
    *(f"{which}_{name}" for which in ("first", "again") for name in REPORT_COLUMNS),
    "seqs_apart",
    "stream",
]
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""The characters that make a spreadsheet take a text for a formula (CWE-1236)."""


@click.command("provider-bugs")
@click.option("--provider", help="Only this provider's (stripe, adyen, …).")
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]),
    metavar="DAY",
    help="Only what was reported again then or later: 2026-01-31 or 2026-01-31T12:00:00, UTC.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, to send to the provider.")
@with_place_of_mode
def provider_bugs(place: Place, provider: str | None, since: datetime | None, as_json: bool, as_csv: bool) -> None:
    """List what providers reported twice or in two ways: one movement of money, or one event without money, under
    several event ids, one event id with several contents. Both reports are shown, with their amounts while the bodies
    are kept.
    """
    if as_json and as_csv:
        raise click.UsageError("use --json or --csv, not both")
    if since is not None:
        since = since.replace(tzinfo=UTC)
    adapters = build_adapters(place.settings.providers)
    bugs = find_all_provider_bugs(place.ledger, adapters, provider=provider, since=since)
    if as_json:
        click.echo(json_of(bugs, since))
    elif as_csv:
        click.echo(csv_of(bugs), nl=False)
    else:
        print_table(bugs)


def json_of(bugs: Sequence[ProviderBug], since: datetime | None) -> str:
    """Counts by provider and kind, and every case; times are RFC 3339 in UTC, amounts in minor units."""
    counts = {name: Counter(bug.kind for bug in cases) for name, cases in _by_provider(bugs)}
    return to_json_text(
        {
            "since": since,
            "counts": {name: {kind: counts[name][kind] for kind in EXPLAINED} for name in counts},
            "bugs": [to_json_value(bug) | {"seqs_apart": bug.seqs_apart} for bug in bugs],
        }
    )


def csv_of(bugs: Sequence[ProviderBug]) -> str:
    """Writes one line a case under `CSV_COLUMNS`; no text is a formula where it is opened."""
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(CSV_COLUMNS)
    writer.writerows([_escape_formula(value) for value in _list_values(bug)] for bug in bugs)
    return lines.getvalue()


def print_table(bugs: Sequence[ProviderBug]) -> None:
    if not bugs:
        click.echo("no provider reported anything twice, or in two ways")
    for name, of_provider in _by_provider(bugs):
        for kind, explained in EXPLAINED.items():
            of_kind = [bug for bug in of_provider if bug.kind == kind]
            if of_kind:
                _make_table(f"{name}: {explained} ({len(of_kind):,})", of_kind[:SHOWN_MAX], kind).print()
            if len(of_kind) > SHOWN_MAX:
                click.echo(f"and {len(of_kind) - SHOWN_MAX:,} more: --csv and --json print all of them")


def _make_table(title: str, bugs: Sequence[ProviderBug], kind: Kind) -> PrintedTable:
    event = "event" if kind in ("event_conflict", "event_repeated") else "fact, events"
    rows = PrintedTable("seq", event, "received (UTC)", "content", "amount", right=["seq", "amount"], title=title)
    for bug in bugs:
        if bug.fact_key is not None and kind != "event_conflict":
            rows.add(None, bug.fact_key)
        for report in (bug.first, bug.again):
            if report is None:
                rows.add(None, "the journal has no first report: run payhook verify")
            else:
                amount = format_money(report.amount_minor, report.currency)
                content = report.content_sha256[:12] if report.content_sha256 else None
                rows.add(
                    row_name(bug.stream, report.seq),
                    report.event_key,
                    format_second(report.received_at),
                    content,
                    amount,
                )
    return rows


def _by_provider(bugs: Sequence[ProviderBug]) -> Iterator[tuple[str, list[ProviderBug]]]:
    ordered = sorted(bugs, key=lambda bug: bug.provider)
    return ((name, list(cases)) for name, cases in itertools.groupby(ordered, key=lambda bug: bug.provider))


def _list_values(bug: ProviderBug) -> list[object]:
    reports = [
        getattr(report, name) if report is not None else None
        for report in (bug.first, bug.again)
        for name in REPORT_COLUMNS
    ]
    return [bug.provider, bug.kind, bug.fact_key, *reports, bug.seqs_apart, bug.stream]


def _escape_formula(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "'" + value
    return value
