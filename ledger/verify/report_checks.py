"""Reports and lists of providers against the ledger: what each was compared with, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from journal.lake import has_table, open_table
from journal.schema import TIMESTAMP
from ledger.catch_ups import TABLE
from ledger.reconciliations import Reconciliation, Reconciliations
from ledger.verify.evidence import Evidence
from ledger.verify.kafka_checks import find_settled_before
from ledger.verify.report import Finding, Invariant, PromiseInvariant, drop_nulls


class ListedAreDecided(PromiseInvariant):
    """A list names no entity, so an event's decision may be in the journal of any shard."""

    name = "listed_are_decided"

    def check(self, evidence: Evidence) -> Finding:
        path = str(evidence.lake.places.shared_table(TABLE))
        if not has_table(path):
            return self.build_finding(evidence, (), {"spans": None})
        evidence.engine.add_delta("catch_ups", path, open_table(path).version())
        settled = [{"before": find_settled_before(evidence)}]
        evidence.add_rows("settled", pa.schema([("before", TIMESTAMP)]), settled)
        return super().check(evidence)

    def describe_offender(self, row: dict[str, Any], evidence: Evidence) -> dict[str, Any]:  # noqa: ARG002
        return drop_nulls(row)

    def count_figures(self, evidence: Evidence) -> dict[str, Any]:
        return evidence.rows(
            """
            SELECT count(*) FILTER (WHERE event_key IS NULL) AS spans, CAST(sum(listed) AS bigint) AS listed,
                   CAST(sum(fetched) AS bigint) AS fetched,
                   count(*) FILTER (WHERE outcome = 'lost') AS lost_spans
            FROM catch_ups
            """
        )[0]


class ReportsAgree(Invariant):
    name = "reports_agree"
    sentence = (
        "The bookings of a period match the provider's settlement report: no difference that its newest "
        "reconciliation found stays open for long."
    )

    def check(self, evidence: Evidence) -> Finding:
        newest = _find_newest_runs(evidence)
        differing = [run for run in newest if not run.clean]
        late_before = evidence.now - timedelta(days=evidence.limits.refund_awaits_days_max)
        late = [run for run in differing if _ended_at(run) < late_before]
        awaiting = sum(_count_differences(run) for run in differing) - sum(map(_count_differences, late))
        figures = {"reports": len(newest), "differences": sum(map(_count_differences, differing)), "awaiting": awaiting}
        return self.build_finding(evidence, _describe_offenders(late), figures)


def _find_newest_runs(evidence: Evidence) -> list[Reconciliation]:
    shared = evidence.lake.places.shared_table
    by_owner: dict[tuple[object, ...], list[Reconciliation]] = {}
    for run in Reconciliations(shared("reconciliation"), shared("reconciliation-runs")).list_runs():
        later = by_owner.setdefault((run.provider, run.tenant), [])
        if not any(_has_replaced(later_run, run) for later_run in later):
            later.append(run)
    return [run for runs in by_owner.values() for run in runs]


def _has_replaced(later: Reconciliation, run: Reconciliation) -> bool:
    """Returns whether a later run of the same provider and tenant covers all that a run did.

    Where that run has no account, the same report may have been given one since.
    """
    same_report = run.account is None and run.report_sha256 == later.report_sha256
    return (run.account == later.account or same_report) and _has_period_of(later, run)


def _has_period_of(later: Reconciliation, run: Reconciliation) -> bool:
    since = run.since is None or (later.since is not None and later.since <= run.since)
    return since and (run.until is None or (later.until is not None and later.until >= run.until))


def _ended_at(run: Reconciliation) -> datetime:
    return run.until or run.at


def _count_differences(run: Reconciliation) -> int:
    return sum(run.counts.values())


def _describe_offenders(late: list[Reconciliation]) -> Iterator[dict[str, Any]]:
    for run in sorted(late, key=_ended_at):
        yield {
            "problem": "a report and the ledger differ, and nobody settled it",
            "run_id": run.run_id,
            "provider": run.provider,
            "account": run.account,
            "report": run.report_name,
            "until": _ended_at(run),
            **{kind: count for kind, count in run.counts.items() if count},
        }
