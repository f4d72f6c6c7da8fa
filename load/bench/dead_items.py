"""A journal of a million open dead items, its files written directly: what the DLQ's figures are measured on.

Errors come from a few dozen causes with ids of their own in each message and stack, as they do when a directory is
down or a merchant isn't known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from core.clock import to_micros
from journal.append import Appender
from journal.log import AppTransaction
from journal.schema import GENESIS, JOURNAL_SCHEMA, TIMESTAMP
from journal.state import marks_to_json
from journal.table import CHECKS, create_table
from load.bench.history import FIRST_AT

ROWS_PER_FILE = 100_000
CAUSES = 40
PER_HOUR = 4_000
"""A million die within ten days."""

PROVIDERS = ("stripe", "adyen", "paypal", "square", "mollie")
TYPES = ("charge.succeeded", "charge.refunded", "payout.paid", "dispute.created")
KINDS = ("NRE", "SNBE", "NRE", "SLE")
STACK = (
    "Traceback (most recent call last):\n"
    '  File "/opt/payhook/processor/run/worker.py", line 120, in _handled\n    return self._handle(item)\n'
    '  File "/opt/payhook/ledger/handler_{cause}.py", line 73, in __call__\n    self._lookup(name)\n'
    '  File "/opt/payhook/ledger/directory.py", line 41, in lookup_{cause}\n    raise Failed_{cause}(name)\n'
    "Failed_{cause}: account 'acct_{digest}' can't be used\n"
)


def make_dead_items(journal: Path, stream: str, count: int, done: Callable[[int], None] = lambda rows: None) -> None:
    """Writes a journal of ``count`` events that died at once; ``done`` is told how many rows each file took."""
    create_table(str(journal), stream)
    appender = Appender.open(str(journal), checks=CHECKS)
    for since in range(1, count + 1, ROWS_PER_FILE):
        until = min(since + ROWS_PER_FILE, count + 1)
        appender.append(dead_rows(since, until), AppTransaction(f"payhook-{stream}", until - 1), _told(stream, until))
        done(until - since)


def dead_rows(since: int, until: int) -> pa.Table:
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
            f"account 'acct_{digest[:16]}' can't be used for {number} EUR"
            for digest, number in zip(digests, numbers, strict=True)
        ],
        "error_stack": [
            STACK.format(cause="abcdefghijklmnopqrstuvwxyzabcdefghijklmnop"[cause], digest=digest[:16])
            for cause, digest in zip(causes, digests, strict=True)
        ],
        "error_kind": [KINDS[cause % len(KINDS)] for cause in causes],
        "row_hash": digests,
        **dict.fromkeys(("occurred_at", "received_at", "decided_at"), at),
    }
    one: dict[str, object] = {
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
        [_array(columns.get(field.name), one.get(field.name), field, len(numbers)) for field in JOURNAL_SCHEMA],
        schema=JOURNAL_SCHEMA,
    )


def _array(listed: object, value: object, field: pa.Field, count: int) -> pa.Array:
    if isinstance(listed, pa.Array):
        return listed
    if listed is not None:
        return pa.array(listed, field.type)
    return pa.repeat(pa.scalar(value, field.type), count)


def _told(stream: str, until: int) -> dict[str, str]:
    return {
        "payhook.stream": stream,
        "payhook.epoch": "1",
        "payhook.seq": str(until - 1),
        "payhook.marks": marks_to_json({}),
        "payhook.start": marks_to_json({}),
        "payhook.chain": GENESIS,
        "payhook.published_upto": str(until - 1),
    }
