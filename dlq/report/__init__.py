"""The week of a dead-letter queue: what died, of what, how long it stayed, and what to do next."""

from dlq.report.build import weekly
from dlq.report.model import Week, WeekInvalid, WeeklyReport, steps

__all__ = ["Week", "WeekInvalid", "WeeklyReport", "steps", "weekly"]
