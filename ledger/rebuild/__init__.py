"""The postings made anew from the journal, as a Spark job, beside whatever runs."""

from ledger.rebuild.job import BookingUnreadable, Rebuilt, rebuild, run
from ledger.rebuild.replacement import ReplacementRefused, ReplacementUnknown

__all__ = ["BookingUnreadable", "Rebuilt", "ReplacementRefused", "ReplacementUnknown", "rebuild", "run"]
