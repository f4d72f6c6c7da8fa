"""Reconciliation: a provider's settlement report against what the ledger booked, and what may be done about it.

What it finds is kept, and read again, by `ledger.reconciliations`.
"""

from __future__ import annotations

from ledger.reconcile.job import Books, Period, ReconcileImpossible, ReportRequest, reconcile, run
from ledger.reconcile.repair import (
    AccountInDoubt,
    NotAcknowledged,
    Repair,
    RepairEvent,
    SkippedDifference,
    plan_repair,
    send_events,
)

__all__ = [
    "AccountInDoubt",
    "Books",
    "NotAcknowledged",
    "Period",
    "ReconcileImpossible",
    "Repair",
    "RepairEvent",
    "ReportRequest",
    "SkippedDifference",
    "plan_repair",
    "reconcile",
    "run",
    "send_events",
]
