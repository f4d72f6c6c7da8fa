"""Ignored events that a handler may know by now: which there are, and what would become of each."""

from ledger.reprocess.candidates import Ignored, Wanted, ignored, what_else
from ledger.reprocess.forecast import Forecast, Forecaster, Verdict

__all__ = ["Forecast", "Forecaster", "Ignored", "Verdict", "Wanted", "ignored", "what_else"]
