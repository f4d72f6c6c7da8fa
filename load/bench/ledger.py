"""The group of the ledger: what finance waits for, how fast all of it is proved, and what it costs on disk."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from load.bench.ledger_queries import QUERIES_SECONDS, QUERIES_SECONDS_SHORT, measure_queries
from load.bench.ledger_size import SIZE_SECONDS, SIZE_SECONDS_SHORT, measure_size
from load.bench.ledger_verify import VERIFY_SECONDS, VERIFY_SECONDS_SHORT, measure_verify

LEDGER_SECONDS = QUERIES_SECONDS + VERIFY_SECONDS + SIZE_SECONDS
LEDGER_SECONDS_SHORT = QUERIES_SECONDS_SHORT + VERIFY_SECONDS_SHORT + SIZE_SECONDS_SHORT


def measure_ledger(folder: Path, console: Console) -> dict[str, float]:
    """Each on a ledger of its own."""
    return {
        **measure_queries(folder, console),
        **measure_verify(folder / "verify", console),
        **measure_size(folder / "size", console),
    }
