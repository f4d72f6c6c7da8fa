"""Compares what adapters read in kept bodies today with what was booked then. Runs in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from core.errors import PayhookError
from core.keys import key_part
from core.money import MoneyFact
from core.routing import of_tenant
from core.work import postings_to_json
from journal.schema import pair_of
from ledger.accounts import book_fact, holder_of
from providers.port import Adapter
from providers.reconciled import choose_reader
from providers.registry import build_adapters
from providers.settings import ProvidersSettings

COLUMNS = (
    *("seq", "event_key", "entity_key", "provider", "event_type", "tenant", "fact_key", "fact_sha256"),
    *("handler_version", "postings", "pair", "body"),
)
"""Of an applied row, and its body: NULL where it isn't kept."""

FACTS = "seq bigint, event_key string, entity_key string, is_read boolean, payment string, problem string, reads string"
"""One for each row. ``is_read``: there was a body. ``payment``: as entity keys spell it. ``problem``: what is wrong,
NULL if nothing is. ``reads``: what the adapter reads, where something is wrong."""

UNREADABLE = "its adapter can't read the body that was booked"
TEXT_CHARS_MAX = 300
_MERCHANT = "any"


class BodyFact(NamedTuple):
    """A row of `FACTS`, without the columns of the journal."""

    payment: str | None
    problem: str | None = None
    reads: str | None = None


def read_bodies(batches: Iterator[pa.RecordBatch], settings: ProvidersSettings) -> Iterator[pa.RecordBatch]:
    adapters = build_adapters(settings)
    for batch in batches:
        rows = batch.to_pylist()
        facts = [read_body_fact(row, adapters) if row["body"] is not None else BodyFact(None) for row in rows]
        columns: list[list[Any]] = [
            *([row[name] for row in rows] for name in ("seq", "event_key", "entity_key")),
            [row["body"] is not None for row in rows],
            *([getattr(fact, name) for fact in facts] for name in BodyFact._fields),
        ]
        text = pa.string()
        types = (pa.int64(), text, text, pa.bool_(), text, text, text)
        arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, [field.split()[0] for field in FACTS.split(", ")])


def read_body_fact(row: Mapping[str, Any], adapters: Mapping[str, Adapter]) -> BodyFact:
    adapter = adapters.get(row["provider"])
    if adapter is None:
        return BodyFact(None, problem=f"there is no adapter for {row['provider']} any more")
    try:
        fact = choose_reader(adapter, row["event_type"]).money(row["body"], row["event_type"])
    except PayhookError as refused:
        return BodyFact(None, problem=UNREADABLE, reads=str(refused)[:TEXT_CHARS_MAX])
    except Exception as bug:
        # One body that its adapter fails on must not hide the others. Its text may quote the body.
        return BodyFact(None, problem=UNREADABLE, reads=type(bug).__name__)
    if fact is None:
        return BodyFact(None, problem="its adapter reads no money in the body that was booked")
    payment = None if fact.payment is None else key_part(fact.payment)
    problem = _find_problem(row, fact)
    return BodyFact(payment, problem, None if problem is None else _describe_fact(fact))


def _find_problem(row: Mapping[str, Any], fact: MoneyFact) -> str | None:
    if of_tenant(row["tenant"], fact.fact_key) != row["fact_key"] or fact.sha256 != row["fact_sha256"]:
        return "its adapter reads another fact in the body than was reported"
    pair = None
    if fact.pair_key is not None:
        pair = pair_of(of_tenant(row["tenant"], fact.pair_key), undoes=fact.is_pair_end)
    if row["pair"] is not None and row["pair"] != pair:
        return "its adapter reads another pair in the body than was reported"
    if row["postings"] is None:
        # Whether it may be so is said by the promise about undos.
        return None if row["pair"] is not None else "what the body reports was applied and isn't booked"
    provider, account = fact.holder or (row["provider"], fact.account)
    booking = book_fact(fact, holder_of(provider, account, row["tenant"]), _MERCHANT, row["tenant"])
    expected = _strip_merchants(orjson.loads(postings_to_json(booking) or "[]"))
    booked = _strip_merchants(orjson.loads(row["postings"]))
    return None if booked == expected else "the booking isn't what the body reports"


def _strip_merchants(lines: list[dict[str, Any]]) -> list[tuple[str, str, int, str]]:
    return [(_strip_merchant(line["account"]), line["side"], line["amount_minor"], line["currency"]) for line in lines]


def _strip_merchant(account: str) -> str:
    kind, _, rest = account.partition(":")
    return f"merchant:{rest.rpartition(':')[2]}" if kind == "merchant" else account


def _describe_fact(fact: MoneyFact) -> str:
    money = fact.money
    return f"{fact.fact_key}: {fact.movement.value} of {money.amount_minor} {money.currency}, account {fact.account!r}"
