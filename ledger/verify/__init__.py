"""`payhook verify`: named invariants over the whole system, each with a bounded sample of what offends it."""

from ledger.verify.invariant import Finding, Invariant
from ledger.verify.report import Report
from ledger.verify.run import Lake, VerifyImpossible, run, verify

__all__ = ["Finding", "Invariant", "Lake", "Report", "VerifyImpossible", "run", "verify"]
