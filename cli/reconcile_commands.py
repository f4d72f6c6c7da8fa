"""``payhook ledger reconcile`` and ``reconciliations``: what a provider settled against what was booked."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.acting import open_recorder, this_account
from cli.place import KEPT_TEXT, Place, with_place_of_mode
from cli.tables import PrintedTable, print_details
from console.as_json import to_json_text, to_json_value
from console.details import TextsShownOnce, journal_says, run_details
from console.formats import format_money, format_second
from core.clock import SystemClock
from core.kafka import open_producer
from ingest.publisher import producer_settings
from ledger.reconciliations import KINDS, Difference, Reconciliation, Reconciliations, run_as_dict
from providers.reconciled import ReconciledReader
from providers.settlement import REPORTS, build_report
from providers.settlement.report import SettlementReport
from stack.jars import spark_jars

if TYPE_CHECKING:
    from ledger.reconcile.repair import Repair, RepairEvent, SkippedDifference


DAY = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"])
PUBLISH_TIMEOUT_MS = 20_000


@click.command()
@click.option(
    "--provider", required=True, type=click.Choice(sorted(REPORTS)), help="The provider that made the report."
)
@click.option(
    "--report",
    required=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The report's CSV file, as the provider made it.",
)
@click.option("--account", default="", help="Its account, where its lines don't name one (Stripe Connect).")
@click.option("--tenant", help="The tenant of that account.")
@click.option("--from", "since", type=DAY, metavar="DAY", help="Compare bookings from this day on (UTC).")
@click.option(
    "--to",
    "until",
    type=DAY,
    metavar="DAY",
    help="Compare bookings before this day (UTC). Default: the report's own dates.",
)
@click.option(
    "--repair", "is_repair", is_flag=True, help="Book movements that only the report has, as payhook's own events."
)
@click.option("--dry-run", is_flag=True, help="With --repair: show what would be sent, and send nothing.")
@click.option("--reason", type=KEPT_TEXT, help="With --repair: the reason, kept with each event.")
@click.option("--json", "as_json", is_flag=True, help="Print the run and all that it found as JSON.")
@with_place_of_mode
def reconcile(
    place: Place,
    provider: str,
    report: Path,
    account: str,
    tenant: str | None,
    since: datetime | None,
    until: datetime | None,
    is_repair: bool,
    dry_run: bool,
    reason: str | None,
    as_json: bool,
) -> None:
    """Compare a provider's settlement report with what was booked.

    Takes Stripe's itemised balance report and Adyen's Settlement details report, as CSV. Each run is kept:
    `payhook ledger reconciliations` lists them. Exit 1 if anything differs.

    With --repair, what the report has and the journal has never seen is published as events of type
    payhook.reconciled. Each takes effect once, also when the webhook comes after all.
    """
    _check_repair(is_repair, dry_run, reason, as_json)
    if since is not None and until is not None and since >= until:
        raise click.BadParameter("it must be after --from", param_hint="--to")
    # Spark's modules take a second to load; no other command of the group needs them.
    from ledger.reconcile.job import Books, Period, ReportRequest, run
    from ledger.reconcile.repair import Repair

    reader = build_report(provider, place.settings.providers, account)
    period = Period(_as_utc(since), _as_utc(until))
    reports = _open_reconciliations(place)
    books = Books([(files.journal, files.postings) for files in place.ledger.places], reports)
    comparison = ReportRequest(report, reader, account, tenant, period)
    settings = place.settings.ledger
    outcome = run(books, comparison, spark_jars(place.layout.lake), place.settings.data_dir, settings, SystemClock())
    if as_json:
        print_json(outcome, reports.read_differences(outcome.run_id))
    else:
        print_run(outcome, reports)
    if is_repair:
        repair = Repair(outcome, place.mode, this_account(), reason or "")
        if dry_run:
            _show_repair(repair, reports, reader)
        else:
            _send_repair(place, repair, reports, reader)
    sys.exit(0 if outcome.clean else 1)


@click.command()
@click.option("--run", "run_id", metavar="ID", help="Show what this run found.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place_of_mode
def reconciliations(place: Place, run_id: str | None, as_json: bool) -> None:
    """List the reconciliations so far, or show one again."""
    reports = _open_reconciliations(place)
    if run_id is None:
        print_runs(reports.list_runs(), as_json)
        return
    run = reports.find_run(run_id)
    if as_json:
        print_json(run, reports.read_differences(run_id))
    else:
        print_run(run, reports)


def _check_repair(is_repair: bool, dry_run: bool, reason: str | None, as_json: bool) -> None:
    if is_repair and not reason:
        raise click.UsageError("--repair needs --reason")
    if is_repair and as_json:
        raise click.UsageError("use --repair or --json, not both: `reconciliations --run ID --json` prints the run")
    if dry_run and not is_repair:
        raise click.UsageError("--dry-run needs --repair: a comparison alone sends nothing")


def _open_reconciliations(place: Place) -> Reconciliations:
    ledger = place.ledger
    return Reconciliations(ledger.locate_shared("reconciliation"), ledger.locate_shared("reconciliation-runs"))


def _plan_repair(
    repair: Repair, reports: Reconciliations, reader: SettlementReport, left_out: UnsentMovements
) -> Iterator[RepairEvent]:
    from ledger.reconcile.repair import SkippedDifference, plan_repair

    for movement in plan_repair(
        repair, reports.read_differences(repair.run.run_id, "missing_here"), reader.wanted_to_repair
    ):
        if isinstance(movement, SkippedDifference):
            left_out.add(movement)
        else:
            yield movement


def _show_repair(repair: Repair, reports: Reconciliations, reader: SettlementReport) -> None:
    left_out = UnsentMovements()
    count = print_planned(_plan_repair(repair, reports, reader, left_out))
    print_left_out(left_out)
    click.echo(f"dry run: nothing was sent; would be sent: {count:,}")


def _send_repair(place: Place, repair: Repair, reports: Reconciliations, reader: SettlementReport) -> None:
    """Sends what is missing. How much Kafka has is on record, also where it didn't take all of it."""
    from ledger.reconcile.repair import NotAcknowledged, send_events

    left_out = UnsentMovements()
    with open_recorder(place).record_act(
        this_account(), "repair", f"{place.mode} run {repair.run.run_id}", repair.reason
    ) as changes:
        # Any: the client's stubs and the port agree only on arguments given by name.
        producer: Any = open_producer(
            place.kafka(), {**producer_settings(PUBLISH_TIMEOUT_MS), "log_level": 0}, place.record_keys()
        )
        try:
            sent = send_events(
                producer, _plan_repair(repair, reports, reader, left_out), place.mode, SystemClock().now()
            )
        except NotAcknowledged as lost:
            changes.after = f"{lost.sent} events sent, {lost.failed} not acknowledged"
            raise
        changes.after = f"{sent} events sent"
    print_left_out(left_out)
    click.echo(f"sent and acknowledged: {sent:,}; `payhook ledger event FACT` shows the outcome of one")


def _as_utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=UTC)


SHOWN_MAX = 100
"""The most differences of one kind that are shown; JSON has them all."""


def print_run(run: Reconciliation, reports: Reconciliations) -> None:
    print_details((detail.name, detail.shown) for detail in run_details(run))
    _print_totals(run)
    for kind, explained in KINDS.items():
        count = run.counts[kind]
        title = f"{kind} ({count:,}): {explained}"
        rows = PrintedTable(
            "line", "fact", "report", "ledger", "journal says", right=["line", "report", "ledger"], title=title
        )
        for difference in reports.read_differences(run.run_id, kind, SHOWN_MAX) if count else ():
            amounts = (
                format_money(difference.reported_minor, difference.reported_currency),
                format_money(difference.booked_minor, difference.booked_currency),
            )
            rows.add(difference.line, difference.fact_key, *amounts, journal_says(difference))
        rows.print()
        if count > SHOWN_MAX:
            click.echo(f"and {count - SHOWN_MAX:,} more: `payhook ledger reconciliations --run {run.run_id} --json`")
    verdict = "report and ledger agree" if run.clean else "report and ledger differ"
    click.secho(f"{verdict}: run {run.run_id}", bold=True, fg=None if run.clean else "red")


def _print_totals(run: Reconciliation) -> None:
    numbers = ("report", "ledger", "difference")
    rows = PrintedTable("kind", *numbers, right=numbers, title="totals; above zero came to us")
    for total in run.totals:
        amounts = (total.reported_minor, total.booked_minor, total.differs_minor)
        rows.add(total.kind, *(format_money(minor, total.currency) for minor in amounts))
    rows.print()


def print_runs(runs: Sequence[Reconciliation], as_json: bool) -> None:
    if as_json:
        click.echo(to_json_text([run_as_dict(run) for run in runs]))
        return
    if not runs:
        click.echo("nothing has been reconciled yet: payhook ledger reconcile --provider P --report FILE")
    numbers = ("compared", "agreed", "differ")
    rows = PrintedTable("run", "report, period", *numbers, right=numbers)
    for run in runs:
        counts = (run.compared, run.agreed, sum(run.counts.values()))
        period = f"{format_second(run.since) or 'open'} to {format_second(run.until) or 'open'}"
        report = f"{run.report_name} of {run.provider}\n{period}"
        rows.add(run.run_id, report, *(f"{count:,}" for count in counts))
    rows.print()


def print_json(run: Reconciliation, differences: Iterable[Difference]) -> None:
    click.echo(f'{{"run": {json.dumps(to_json_value(run_as_dict(run)))},\n "differences": [', nl=False)
    for number, difference in enumerate(differences):
        click.echo(("," if number else "") + "\n  " + json.dumps(to_json_value(difference)), nl=False)
    click.echo("\n ]}")


def print_planned(planned: Iterator[RepairEvent]) -> int:
    rows = PrintedTable("line", "event", "entity", "amount", right=["line", "amount"], title="would be sent")
    for event in itertools.islice(planned, SHOWN_MAX):
        rows.add(event.origin.line, event.event.event_key, event.event.entity_key, _of_event(event))
    rows.print()
    more = sum(1 for _ in planned)
    if more:
        click.echo(f"and {more:,} more")
    return len(rows) + more


class UnsentMovements:
    def __init__(self) -> None:
        self.count = 0
        self.some: list[SkippedDifference] = []

    def add(self, left_out: SkippedDifference) -> None:
        self.count += 1
        if len(self.some) < SHOWN_MAX:
            self.some.append(left_out)


def print_left_out(left_out: UnsentMovements) -> None:
    rows = PrintedTable("line", "fact", "why", right=["line"], title=f"missing here, not sent ({left_out.count:,})")
    once = TextsShownOnce()
    for movement in left_out.some:
        rows.add(
            movement.difference.line,
            movement.difference.fact_key,
            once.text(movement.why, f"line {movement.difference.line}"),
        )
    rows.print()


def _of_event(made: RepairEvent) -> str | None:
    fact = ReconciledReader().money(made.event.body, made.event.event_type)
    assert fact is not None
    return f"{fact.movement.value} {format_money(fact.money.amount_minor, fact.money.currency)}"
