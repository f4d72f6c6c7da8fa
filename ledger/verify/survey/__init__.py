"""One native pass over the ledger that clears what is in order; the rest is searched exactly."""

from ledger.verify.survey.facts import Doubt
from ledger.verify.survey.job import OpenItems, Survey, Tables, Told, survey

__all__ = ["Doubt", "OpenItems", "Survey", "Tables", "Told", "survey"]
