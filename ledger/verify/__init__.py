"""`payhook verify`: named invariants over the whole system, each with a bounded sample of what offends it."""

from ledger.verify.invariant import Finding, Invariant
from ledger.verify.job import Lake, Options, VerifyImpossible, Watch, run, verify
from ledger.verify.report import Report

__all__ = ["Finding", "Invariant", "Lake", "Options", "Report", "VerifyImpossible", "Watch", "run", "verify"]
