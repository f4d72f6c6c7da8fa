"""The group of the ledger: what finance waits for, how fast all of it is proved, and what it costs on disk."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from core.clock import to_micros
from journal.append import Appender
from ledger.postings import POSTINGS_SCHEMA, PostingsWriter
from ledger.queries import balances, event_story
from load.bench.figures import Done, Run, median_s, nothing_shown
from load.bench.history import FIRST_AT, ROWS_PER_DAY, HistoryEvent, column, made_history
from load.bench.ledger_size import measure_size
from load.bench.ledger_verify import measure_verify

LEDGER_SECONDS, LEDGER_SECONDS_SHORT = 960.0, 180.0
LINES_PER_FILE = 500_000
LINES_PER_BOOKING = 2
MERCHANTS = 500
CURRENCIES = ("EUR", "JPY", "KWD")
PROVIDERS = ("adyen", "stripe")
AMOUNT_MINOR_MAX = 1_000_000


def measure_ledger(run: Run) -> dict[str, float]:
    """Each part on a ledger of its own."""
    return {**measure_queries(run), **measure_verify(run.within("verify")), **measure_size(run.within("size"))}


def measure_queries(run: Run) -> dict[str, float]:
    """Seconds within the process, the tables' opening included: what the command adds is its start.

    The history was written faster than its log got checkpoints; a processor's journal has one every 100 commits.
    """
    layout, count = made_history(run)
    history, postings = layout.ledger(), run.folder / f"postings-{count}"
    DeltaTable(str(history.journal)).create_checkpoint()
    with run.progress(f"{count:,} postings", count) as done:
        make_postings(postings, count, done)
    balances_s = median_s(lambda: balances(str(postings)))
    run.console.print(f"balances of {count:,} lines: {balances_s:.2f} s")
    chance = random.Random(13)

    def story() -> None:
        key = HistoryEvent(chance.randint(1, count)).event_key
        assert event_story(str(history.journal), str(history.postings), key, str(history.bodies)).rows

    story_s = median_s(story)
    run.console.print(f"an event's story among {count:,} rows: {story_s:.2f} s")
    return {"ledger.balances_s_10m": balances_s, "ledger.event_story_s_10m": story_s}


def make_postings(path: Path, lines: int, done: Done = nothing_shown) -> None:
    """A postings table of captures with so many lines."""
    shutil.rmtree(path, ignore_errors=True)
    PostingsWriter.open(str(path))
    appender = Appender.open(str(path))
    for since, until in _spans(lines // LINES_PER_BOOKING):
        appender.append(_lines(since, until))
        done((until - 1) * LINES_PER_BOOKING)


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
    count, at = len(seqs), pa.array(decided, pa.int64())
    columns: dict[str, object] = {
        "seq": list(seqs),
        "event_key": [f"{provider}:evt_{one[:24]}:capture" for provider, one in zip(providers, digests, strict=True)],
        "fact_key": [f"{provider}:ch_{one[24:48]}:capture" for provider, one in zip(providers, digests, strict=True)],
        "entity_key": [f"{provider}:acct:pi_{one[24:48]}" for provider, one in zip(providers, digests, strict=True)],
        "provider": providers,
        "merchant": merchants,
        "amount_minor": [seq * 7_919 % AMOUNT_MINOR_MAX + 1 for seq in seqs],
        "currency": [CURRENCIES[seq % len(CURRENCIES)] for seq in seqs],
        "occurred_at": at,
        "decided_at": at,
    }
    clearing = [f"provider:{provider}:clearing" for provider in providers]
    payable = [f"merchant:{merchant}:payable" for merchant in merchants]
    sides = [
        columns | {"line": 0, "side": "debit", "account": clearing},
        columns | {"line": 1, "side": "credit", "account": payable},
    ]
    tables = [
        pa.table([column(side.get(field.name), field, count) for field in POSTINGS_SCHEMA], POSTINGS_SCHEMA)
        for side in sides
    ]
    return pa.concat_tables(tables).sort_by([("seq", "ascending"), ("line", "ascending")])
