"""Ledgers and reports of them that Spark compares."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from core.clock import ManualClock
from core.decision import Decision
from core.money import Money, MoneyFact, Movement
from core.routing import Shard
from core.work import Posting, postings_to_json
from journal.reader import JournalReader
from journal.schema import JournalRow
from journal.writer import JournalWriter
from ledger.accounts import book_fact
from ledger.postings import PostingsWriter
from ledger.reconcile.job import Books, ReportRequest, reconcile
from ledger.reconciliations import Difference, Kind, Reconciliation, Reconciliations
from providers.settings import ProvidersSettings
from providers.settlement import build_report
from tests.integration.ledger.conftest import AT, CONTROL, EVENTS, STARTS, new_row
from tests.settlement_reports import STRIPE_CATEGORIES

NOW = AT + timedelta(days=1)
PAYOUTS = (Movement.PAYOUT_PAID, Movement.PAYOUT_FAILED)


def fact(
    name: str,
    movement: Movement = Movement.CAPTURE,
    amount_minor: int = 1_000,
    currency: str = "EUR",
    account: str = "",
) -> MoneyFact:
    payment = None if movement in PAYOUTS else f"pi_{name}"
    return MoneyFact(f"stripe:{name}:{movement.value}", movement, account, payment, Money(amount_minor, currency))


def booked(seq: int, of: MoneyFact, **more: Any) -> JournalRow:
    """The row of a fact that was applied."""
    provider = of.fact_key.split(":")[0]
    own = {
        "fact_key": of.fact_key,
        "fact_sha256": of.sha256,
        "provider": provider,
        "account": of.account,
        "entity_key": f"{provider}:{of.account}:{of.payment or of.fact_key.split(':')[1]}",
        "occurred_at": AT,
        "postings": postings_to_json(book_fact(of, provider, "m-1")),
    }
    decision = more.pop("decision", Decision.APPLIED)
    return new_row(seq, EVENTS, 0, 99 + seq, decision, f"evt_{seq}", **{**own, **more})


def reversal(seq: int, of: MoneyFact, amount_minor: int) -> JournalRow:
    lines = [
        Posting(line.account, "credit" if line.side == "debit" else "debit", Money(amount_minor, "EUR"))
        for line in book_fact(of, "stripe", "m-1")
    ]
    return booked(seq, of, decision=Decision.REVERSED, postings=postings_to_json(lines))


def rows_of(*facts: MoneyFact) -> list[JournalRow]:
    return [booked(seq, one) for seq, one in enumerate(facts, 1)]


def books_of(folder: Path, rows: Sequence[JournalRow], postings_upto: int | None = None) -> Books:
    """A ledger that the real writers wrote; its postings may be behind."""
    lake = folder / "lake"
    writer = JournalWriter.create_or_open(str(lake / "journal"), "ledger")
    writer.begin_epoch(STARTS)
    marks = {topic: dict(partitions) for topic, partitions in STARTS.items()}
    marks[EVENTS][0] += len(rows)
    writer.commit(list(rows), marks, 0)
    postings = PostingsWriter.open(str(lake / "postings"))
    postings.follow([row for row in rows if postings_upto is None or row.seq <= postings_upto])
    return Books([(lake / "journal", lake / "postings")], Reconciliations(lake / "reconciliation", lake / "runs"))


class ComparedRun:
    """A run, and what it found."""

    def __init__(self, run: Reconciliation, books: Books) -> None:
        self.run = run
        self.found = list(books.found.read_differences(run.run_id))

    def kinds(self) -> set[tuple[Kind, str]]:
        return {(one.kind, one.fact_key) for one in self.found}

    def one(self, fact_key: str) -> Difference:
        [found] = [one for one in self.found if one.fact_key == fact_key]
        return found


Compare = Callable[..., ComparedRun]


@pytest.fixture
def compare(spark: SparkSession, tmp_path: Path) -> Compare:
    return comparing(spark, tmp_path)


def comparing(spark: SparkSession, folder: Path) -> Compare:
    def compare(books: Books, body: bytes, provider: str = "stripe", account: str = "", **more: Any) -> ComparedRun:
        report = folder / "report.csv"
        report.write_bytes(body)
        reader = build_report(provider, ProvidersSettings(), account)
        wanted = ReportRequest(report, reader, account, **more)
        return ComparedRun(reconcile(spark, books, wanted, folder, ManualClock(NOW)), books)

    return compare


def divided(
    books: Books, facts: Sequence[MoneyFact], *, taken_back: Sequence[MoneyFact] = (), has_postings: bool = True
) -> Books:
    """The ledger as two shards, of which the second, a copy, has booked these facts since and taken back others."""
    [(journal, postings)] = books.tables
    other = (journal.parent / "journal.1", postings.parent / "postings.1")
    assert isinstance(journal, Path) and isinstance(other[0], Path)
    shutil.copytree(journal, other[0])
    reader = JournalReader(str(journal))
    writers = [JournalWriter.create_or_open(str(path), name) for path, name in ((other[0], "ledger.1"), (journal, "x"))]
    for number, writer in zip((1, 0), writers, strict=True):
        writer.divide_journal(EVENTS, Shard(number, 2), NOW, "c" * 32 if number else None)
    rows = [booked(reader.last_seq + number, one) for number, one in enumerate(facts, 1)]
    rows = [replace(row, partition=1, offset=offset) for offset, row in enumerate(rows)]
    rows += [replace(reversal(rows[-1].seq + 1, one, 1_000), first=False, item_seq=1) for one in taken_back]
    writers[0].commit(rows, {EVENTS: {1: len(facts)}, CONTROL: STARTS[CONTROL]}, 0)
    if has_postings:
        PostingsWriter.open(str(other[1])).catch_up(JournalReader(str(other[0])))
    return Books([*books.tables, other], books.found)


EVERY = [fact(f"x_{movement.value}", movement) for movement in STRIPE_CATEGORIES]
"""A fact of each movement that a report of Stripe's tells of."""
