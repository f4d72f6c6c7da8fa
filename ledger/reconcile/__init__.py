"""Reconciliation: a provider's settlement report against what the ledger booked, and what may be done about it.

What it finds is kept, and read again, by `ledger.reconciliations`.
"""

from __future__ import annotations

from ledger.reconcile.job import Books, Period, ReconcileImpossible, Wanted, reconcile, run
from ledger.reconcile.repair import AccountInDoubt, LeftOut, Made, NotAcknowledged, Repair, plan, send

__all__ = [
    "AccountInDoubt",
    "Books",
    "LeftOut",
    "Made",
    "NotAcknowledged",
    "Period",
    "ReconcileImpossible",
    "Repair",
    "Wanted",
    "plan",
    "reconcile",
    "run",
    "send",
]
