"""How long an operator waits for the DLQ's list, statistics and a frozen selection, with a million open items; and how
fast a selection is replayed (`load.bench.dlq_replay`).

The items are a journal whose files are written directly. Errors come from a few dozen causes with ids of their own in
each message and stack, as they do when a directory is down or a merchant isn't known.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from core.clock import ManualClock, to_micros
from core.decision import ErrorKind
from core.layout import Layout
from dead_letters.dead_letter_index import DeadLetterIndex
from dead_letters.listing import Filter, Sort
from dead_letters.payload import Payloads
from journal.append import Appender
from journal.log import AppTransaction
from journal.schema import JOURNAL_SCHEMA, TIMESTAMP
from journal.table import CHECKS, create_table
from load.bench.dlq_replay import measure_replay
from load.bench.figures import Done, Run, median_s
from load.bench.history import FIRST_AT, STREAM, column, commit
from operations.frozen import FrozenSelection, Selection, SelectionFiles
from operations.selection.selections import gather_items

ITEMS, ITEMS_SHORT = 1_000_000, 50_000
FROZEN = 100_000
ROWS_PER_FILE = 100_000
CAUSES = 40
PER_HOUR = 4_000
"""A million die within ten days."""

PROVIDERS = ("stripe", "adyen", "paypal", "square", "mollie")
TYPES = ("charge.succeeded", "charge.refunded", "payout.paid", "dispute.created")
KINDS = ("NRE", "SNBE", "NRE", "SLE")
STACK = (
    "Traceback (most recent call last):\n"
    '  File "/opt/payhook/processor/workers/worker.py", line 120, in _handled\n    return self._handle(item)\n'
    '  File "/opt/payhook/ledger/handler_{cause}.py", line 73, in __call__\n    self._lookup(name)\n'
    '  File "/opt/payhook/ledger/directory.py", line 41, in lookup_{cause}\n    raise Failed_{cause}(name)\n'
    "Failed_{cause}: payment 'pi_{digest}' can't be booked\n"
)

LISTS = (
    Filter(),
    Filter(providers=PROVIDERS[1:2]),
    Filter(kinds=(ErrorKind.SLE,)),
    Filter(classes=("Failed_a", "Failed_c"), types=("payout.paid",)),
)
"""What operators list first; each by age, oldest and newest first. The slowest of them counts."""


def measure_dlq(run: Run) -> dict[str, float]:
    """The list's figures, then the replay's."""
    return measure_index(run) | measure_replay(run.within("replay"))


def measure_index(run: Run) -> dict[str, float]:
    """Milliseconds of a first page with its count, the slowest of `LISTS`; seconds of all statistics, and of freezing
    100,000 items into a file of their own; rows a second of an index that is made again. Medians, the file's opening
    included.
    """
    count = run.count(ITEMS, ITEMS_SHORT)
    places = Layout(run.folder / f"dead-{count}").stream(STREAM)
    shutil.rmtree(places.root, ignore_errors=True)
    with run.progress(f"{count:,} dead items", count) as done:
        _make_dead_items(Path(places.journal), count, done)
    now = FIRST_AT + timedelta(hours=count / PER_HOUR + 1)
    index = DeadLetterIndex(places.dead_letter_index, places.journal, Payloads(places.bodies_table), ManualClock(now))
    began = time.perf_counter()
    assert index.follow().rows == count
    follow_per_s = count / (time.perf_counter() - began)
    each_bytes = _bytes(places.dead_letter_index) / count
    run.console.print(f"followed at {follow_per_s:,.0f} rows/s, {each_bytes:,.0f} bytes an item")
    list_ms = max(
        1_000 * median_s(_page(index, wanted, sort)) for wanted in LISTS for sort in (Sort.OLDEST, Sort.NEWEST)
    )
    stats_s = max(median_s(_figures(index, wanted)) for wanted in LISTS)
    freeze_s = median_s(lambda: _freeze(index, SelectionFiles(run.folder / "frozen"), count))
    again_ms = 1_000 * median_s(index.follow)
    run.console.print(
        f"a first page of {count:,}: {list_ms:.0f} ms; statistics and groups: {stats_s:.2f} s; "
        f"freezing {min(FROZEN, count):,}: {freeze_s:.2f} s; following where nothing is new: {again_ms:.0f} ms"
    )
    return {
        "dlq.list_ms_1m": list_ms,
        "dlq.stats_s_1m": stats_s,
        "dlq.freeze_s_100k": freeze_s,
        "dlq.follow_per_s": follow_per_s,
    }


def _page(index: DeadLetterIndex, wanted: Filter, sort: Sort) -> Callable[[], object]:
    def ask() -> object:
        page = index.page(wanted, sort=sort)
        assert page.items and page.total
        return page

    return ask


def _figures(index: DeadLetterIndex, wanted: Filter) -> Callable[[], object]:
    def ask() -> object:
        figures, groups = index.stats(wanted), index.groups(wanted)
        assert figures.open == sum(group.count for group in groups)
        return figures

    return ask


def _freeze(index: DeadLetterIndex, files: SelectionFiles, count: int) -> None:
    """About `FROZEN` items into a file of the lake."""
    first = random.Random(13).randint(0, max(0, count - FROZEN))
    since = FIRST_AT + timedelta(hours=first / PER_HOUR)
    wanted = Filter(since=since, until=since + timedelta(hours=min(FROZEN, count) / PER_HOUR))
    table, _, _ = gather_items(index.read_frozen_items(wanted), count, {})
    selection = Selection(STREAM, since, "bench", "", "{}", table.num_rows, count, "")
    assert files.put(FrozenSelection(selection, table)).count >= min(FROZEN, count) - 1


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _make_dead_items(journal: Path, count: int, done: Done) -> None:
    """Writes a journal of ``count`` events that died at once."""
    create_table(str(journal), STREAM)
    appender = Appender.open(str(journal), checks=CHECKS)
    for since in range(1, count + 1, ROWS_PER_FILE):
        last = min(since + ROWS_PER_FILE - 1, count)
        appender.append(_dead_rows(since, last + 1), AppTransaction(f"payhook-{STREAM}", last), commit(STREAM, last))
        done(last)


def _dead_rows(since: int, until: int) -> pa.Table:
    """Rows of seq ``since`` to before ``until``; their hashes are fillers of the right length."""
    numbers = range(since, until)
    digests = [hashlib.sha256(b"%d" % number).hexdigest() for number in numbers]
    causes = [number * 7_919 // 3 % CAUSES for number in numbers]
    providers = [PROVIDERS[number % len(PROVIDERS)] for number in numbers]
    types = [TYPES[number // 7 % len(TYPES)] for number in numbers]
    named = list(zip(providers, digests, types, strict=True))
    an_item_us = 3_600_000_000 // PER_HOUR
    at = pc.cast(pa.array([to_micros(FIRST_AT) + number * an_item_us for number in numbers], pa.int64()), TIMESTAMP)
    columns: dict[str, object] = {
        "seq": list(numbers),
        "item_seq": list(numbers),
        "offset": [number - 1 for number in numbers],
        "event_key": [f"{provider}:evt_{digest[:24]}:{kind}" for provider, digest, kind in named],
        "entity_key": [f"{provider}:acct:pi_{digest[24:48]}" for provider, digest, _ in named],
        "provider": providers,
        "account": [f"acct_{number % 500}" for number in numbers],
        "event_type": types,
        "body_sha256": digests,
        "content_sha256": digests,
        "error_class": [f"Failed_{'abcdefghij'[cause % 10]}" for cause in causes],
        "error_code": [str(500 + cause % 4) for cause in causes],
        "error_message": [
            f"payment 'pi_{digest[:16]}' can't be booked for {number} EUR"
            for digest, number in zip(digests, numbers, strict=True)
        ],
        "error_stack": [
            STACK.format(cause="abcdefghijklmnopqrstuvwxyzabcdefghijklmnop"[cause], digest=digest[:16])
            for cause, digest in zip(causes, digests, strict=True)
        ],
        "error_kind": [KINDS[cause % len(KINDS)] for cause in causes],
        "row_hash": digests,
        **dict.fromkeys(("occurred_at", "received_at", "decided_at"), at),
        "batch_seq": since,
        "epoch": 1,
        "first": True,
        "topic": "payments.events",
        "partition": 0,
        "mode": "live",
        "decision": "dead",
        "attempt": 5,
        "blocking": True,
        "out_of_order": False,
        "content_version": 1,
        "dedupe": "claimed",
        "handler_version": "ledger-1",
    }
    return pa.Table.from_arrays(
        [column(columns.get(field.name), field, len(numbers)) for field in JOURNAL_SCHEMA], schema=JOURNAL_SCHEMA
    )
