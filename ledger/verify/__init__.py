"""`payhook verify`: named invariants over the whole system, each with a bounded sample of what offends it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ledger.verify.evidence import Lake
    from ledger.verify.gather import Options, VerifyImpossible
    from ledger.verify.job import VerifyProgress, run, verify
    from ledger.verify.report import Finding, Invariant, Report

__all__ = ["Finding", "Invariant", "Lake", "Options", "Report", "VerifyImpossible", "VerifyProgress", "run", "verify"]

_MODULES = {
    "Finding": "report",
    "Invariant": "report",
    "Report": "report",
    "Lake": "evidence",
    "Options": "gather",
    "VerifyImpossible": "gather",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """DuckDB's process imports ``ledger.verify.engine`` alone: the rest would take a second."""
        if name not in __all__:
            raise AttributeError(name)
        return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'job')}"), name)
