"""How reconciliations are shown: tables for people, JSON for tools."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from cli.tables import row
from core.clock import to_rfc3339
from core.money import decimals_of
from ledger.reconciliations import KINDS, Difference, Kind, Reconciliation, Reconciliations, as_dict
from providers.reconciled import ReconciledReader

if TYPE_CHECKING:
    from ledger.reconcile import LeftOut, Made

SHOWN_MAX = 100
"""Of one kind; JSON has them all."""


def decimal_amount(minor: int | None, currency: str | None) -> str | None:
    """``-1234`` of EUR is ``-12.34 EUR``, of JPY ``-1,234 JPY``; None for None."""
    if minor is None or currency is None:
        return None
    decimals = decimals_of(currency)
    whole, rest = divmod(abs(minor), 10**decimals)
    fraction = f".{rest:0{decimals}d}" if decimals else ""
    return f"{'-' if minor < 0 else ''}{whole:,}{fraction} {currency}"


def print_run(run: Reconciliation, found: Reconciliations) -> None:
    """The run's head, then what differs, kind by kind."""
    console = Console(soft_wrap=True)
    for line in _head(run):
        console.print(line, markup=False, highlight=False)
    for kind, explained in KINDS.items():
        count = run.counts[kind]
        if count:
            some = found.differences(run.run_id, kind, SHOWN_MAX)
            console.print(_table(f"{kind} ({count:,}): {explained}", kind, some))
            if count > SHOWN_MAX:
                click.echo(
                    f"and {count - SHOWN_MAX:,} more: `payhook ledger reconciliations --run {run.run_id} --json`"
                )
    verdict = "report and ledger agree" if run.clean else "report and ledger differ"
    console.print(f"{verdict}: run {run.run_id}", style="bold" if run.clean else "bold red", highlight=False)


def print_runs(runs: Sequence[Reconciliation], as_json: bool) -> None:
    """One line a run, the newest first."""
    if as_json:
        click.echo(json.dumps([as_dict(run) for run in runs], indent=1, default=_plain))
        return
    if not runs:
        click.echo("nothing has been reconciled yet: payhook ledger reconcile --provider P --report FILE")
        return
    table = Table("run", "provider", "report", "period")
    for name in ("compared", "agreed", "differ"):
        table.add_column(name, justify="right")
    for run in runs:
        numbers = (run.compared, run.agreed, sum(run.counts.values()))
        row(table, run.run_id, run.provider, run.report_name, _period(run), *(f"{one:,}" for one in numbers))
    Console(soft_wrap=True).print(table)


def print_json(run: Reconciliation, differences: Iterable[Difference]) -> None:
    """``{"run": …, "differences": […]}``, written as it is read: there may be as many as the report has lines."""
    click.echo(f'{{"run": {json.dumps(as_dict(run), default=_plain)},\n "differences": [', nl=False)
    for number, one in enumerate(differences):
        click.echo(("," if number else "") + "\n  " + json.dumps(asdict(one), default=_plain), nl=False)
    click.echo("\n ]}")


def print_planned(planned: Iterator[Made]) -> int:
    """What would be sent; returns how many that is."""
    table = Table("line", "event", "entity", title="would be sent")
    table.add_column("amount", justify="right")
    count = 0
    for made in itertools.islice(planned, SHOWN_MAX):
        row(table, made.origin.line, made.event.event_key, made.event.entity_key, _of_event(made))
        count += 1
    if count:
        Console(soft_wrap=True).print(table)
    more = sum(1 for _ in planned)
    if more:
        click.echo(f"and {more:,} more")
    return count + more


class Kept:
    """What is missing here and isn't sent: how many, and as many of them as are shown."""

    def __init__(self) -> None:
        self.count = 0
        self.some: list[LeftOut] = []

    def add(self, one: LeftOut) -> None:
        self.count += 1
        if len(self.some) < SHOWN_MAX:
            self.some.append(one)


def print_left_out(left_out: Kept) -> None:
    """What a person has to see to."""
    if not left_out.count:
        return
    table = Table("line", "fact", "why", title=f"missing here, and left alone ({left_out.count:,})")
    for one in left_out.some:
        row(table, one.difference.line, one.difference.fact_key, one.why)
    Console(soft_wrap=True).print(table)


def _head(run: Reconciliation) -> Iterator[str]:
    yield f"{run.report_name} of {run.provider}, sha256 {run.report_sha256[:16]}…, {run.lines:,} lines"
    yield f"{run.compared:,} movements compared, {run.agreed:,} agree; what was booked {_period(run)} was looked for"
    for category, count in sorted(run.not_compared.items()):
        yield f"  not compared: {count:,} × {category}"


def _table(title: str, kind: Kind, found: Iterable[Difference]) -> Table:
    table = Table("line", "fact", title=title, title_justify="left")
    table.add_column("report", justify="right")
    table.add_column("ledger", justify="right")
    table.add_column("what the journal says")
    for one in found:
        reported = decimal_amount(one.reported_minor, one.reported_currency)
        booked = decimal_amount(one.booked_minor, one.booked_currency)
        row(table, one.line, one.fact_key, reported, booked, _journal(kind, one))
    return table


def _journal(kind: Kind, one: Difference) -> str:
    if kind == "account_differs":
        return f"{one.decision} (seq {one.seq}), not for the account {one.account!r}"
    if one.seq is None:
        return "nothing" if kind == "missing_here" else ""
    return f"{one.decision} (seq {one.seq}, {one.event_key})"


def _of_event(made: Made) -> str | None:
    fact = ReconciledReader().money(made.event.body, made.event.event_type)
    assert fact is not None
    return f"{fact.movement.value} {decimal_amount(fact.money.amount_minor, fact.money.currency)}"


def _period(run: Reconciliation) -> str:
    return f"{_moment(run.since)} to {_moment(run.until)}"


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def _plain(value: object) -> str:
    return to_rfc3339(value) if isinstance(value, datetime) else str(value)
