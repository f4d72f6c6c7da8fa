"""One native pass over the ledger that clears what is in order; the rest is searched exactly."""

from ledger.verify.fast_path.items import OpenItems
from ledger.verify.fast_path.job import FastPath, Progress, take_fast_path
from ledger.verify.fast_path.results import Doubt, Tables

__all__ = ["Doubt", "FastPath", "OpenItems", "Progress", "Tables", "take_fast_path"]
