"""The postings made anew from the journal, as a Spark job, beside whatever runs."""

from ledger.rebuild.job import BookingUnreadable, Rebuilt, rebuild, run

__all__ = ["BookingUnreadable", "Rebuilt", "rebuild", "run"]
