"""How long finance waits: all balances of a long ledger, and one event's story in a long journal.

``python -m load.bench.ledger_queries --data DIR --rows 100000`` is the same with a shorter one.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from rich.console import Console
from rich.progress import Progress

from core.clock import to_micros
from journal.append import Appender
from ledger.postings import POSTINGS_SCHEMA, PostingsWriter
from ledger.queries import balances, event_story
from load.bench.figures import is_short
from load.bench.history import FIRST_AT, ROWS_PER_DAY, HistoryEvent
from load.bench.start import ROWS, ROWS_SHORT, made_history

QUERIES_SECONDS = 180.0
QUERIES_SECONDS_SHORT = 30.0
LINES_PER_FILE = 500_000
LINES_PER_BOOKING = 2
MERCHANTS = 500
CURRENCIES = ("EUR", "JPY", "KWD")
PROVIDERS = ("adyen", "stripe")
AMOUNT_MINOR_MAX = 1_000_000
ASKED = 5
"""Times that each is asked; the middle one counts."""


def measure_queries(folder: Path, console: Console, rows: int | None = None) -> dict[str, float]:
    """Seconds within the process, the tables' opening included: what the command adds is its start.

    The history was written faster than its log got checkpoints; a processor's journal has one every 100 commits.
    """
    count = rows or (ROWS_SHORT if is_short() else ROWS)
    history = made_history(folder.parent / f"history-{count}", count, console).ledger()
    DeltaTable(str(history.journal)).create_checkpoint()
    postings = folder / f"postings-{count}"
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(f"{count:,} postings", total=count)
        make_postings(postings, count, lambda lines: progress.advance(task, lines))
    balances_s = _median_s(lambda _: balances(str(postings)))
    console.print(f"balances of {count:,} lines: {balances_s:.2f} s")

    def story(key: str) -> None:
        assert event_story(str(history.journal), str(history.postings), key, str(history.bodies)).rows

    chance = random.Random(13)
    story_s = _median_s(lambda _: story(HistoryEvent(chance.randint(1, count)).event_key))
    console.print(f"an event's story among {count:,} rows: {story_s:.2f} s")
    return {"ledger.balances_s_10m": balances_s, "ledger.event_story_s_10m": story_s}


def make_postings(path: Path, lines: int, done: Callable[[int], None] = lambda lines: None) -> None:
    """A postings table of captures with so many lines; ``done`` is told how many each file took."""
    shutil.rmtree(path, ignore_errors=True)
    PostingsWriter.open(str(path))
    appender = Appender.open(str(path))
    for since, until in _spans(lines // LINES_PER_BOOKING):
        appender.append(_lines(since, until))
        done((until - since) * LINES_PER_BOOKING)


def _spans(bookings: int) -> Iterator[tuple[int, int]]:
    step = LINES_PER_FILE // LINES_PER_BOOKING
    for since in range(1, bookings + 1, step):
        yield since, min(since + step, bookings + 1)


def _lines(since: int, until: int) -> pa.Table:
    """Two lines a booking; merchants, providers and currencies take turns."""
    seqs = range(since, until)
    digests = [HistoryEvent(seq).digest for seq in seqs]
    merchants = [f"merchant-{seq % MERCHANTS:04}" for seq in seqs]
    providers = [PROVIDERS[seq % len(PROVIDERS)] for seq in seqs]
    a_row_us = timedelta(days=1) // timedelta(microseconds=ROWS_PER_DAY)
    decided = [to_micros(FIRST_AT) + seq * a_row_us for seq in seqs]
    columns: dict[str, list[object]] = {
        "seq": list(seqs),
        "event_key": [f"{provider}:evt_{one[:24]}:capture" for provider, one in zip(providers, digests, strict=True)],
        "fact_key": [f"{provider}:ch_{one[24:48]}:capture" for provider, one in zip(providers, digests, strict=True)],
        "entity_key": [f"{provider}:acct:pi_{one[24:48]}" for provider, one in zip(providers, digests, strict=True)],
        "provider": list(providers),
        "merchant": list(merchants),
        "amount_minor": [seq * 7_919 % AMOUNT_MINOR_MAX + 1 for seq in seqs],
        "currency": [CURRENCIES[seq % len(CURRENCIES)] for seq in seqs],
        "occurred_at": list(decided),
        "decided_at": list(decided),
    }
    sides = [
        columns | {"line": [0] * len(seqs), "side": ["debit"] * len(seqs), "account": _clearing(providers)},
        columns | {"line": [1] * len(seqs), "side": ["credit"] * len(seqs), "account": _payable(merchants)},
    ]
    tables = [
        pa.table([_array(side[field.name], field) for field in POSTINGS_SCHEMA], POSTINGS_SCHEMA) for side in sides
    ]
    return pa.concat_tables(tables).sort_by([("seq", "ascending"), ("line", "ascending")])


def _clearing(providers: list[str]) -> list[object]:
    return [f"provider:{provider}:clearing" for provider in providers]


def _payable(merchants: list[str]) -> list[object]:
    return [f"merchant:{merchant}:payable" for merchant in merchants]


def _array(values: list[object], field: pa.Field) -> pa.Array:
    if pa.types.is_timestamp(field.type):
        return pc.cast(pa.array(values, pa.int64()), field.type)
    return pa.array(values, field.type)


def _median_s(ask: Callable[[int], object]) -> float:
    took = []
    for number in range(ASKED):
        began = time.perf_counter()
        ask(number)
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--data", type=Path, required=True, help="folder for everything that is made")
    wanted = parser.parse_args()
    wanted.data.mkdir(parents=True, exist_ok=True)
    console = Console()
    console.print(measure_queries(wanted.data / "ledger", console, wanted.rows))


if __name__ == "__main__":
    main()
