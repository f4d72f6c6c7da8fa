"""The week of a dead-letter queue: what died, of what, how long it stayed, and what to do next."""

from dlq.report.build import weekly
from dlq.report.model import WeeklyReport
from dlq.report.steps import steps
from dlq.report.week import Week, WeekInvalid

__all__ = ["Week", "WeekInvalid", "WeeklyReport", "steps", "weekly"]
