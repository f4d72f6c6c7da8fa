"""The questions of docs/sql.md, asked of a real ledger: Spark and DuckDB answer as plain Python does.

The queries are read from the page itself.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from core.decision import Decision
from core.money import Movement
from tests.small_ledger import SmallLedger, lines_of

PAGE = Path(__file__).parents[3] / "docs" / "sql.md"
QUESTION = re.compile(r"^<!-- question: ([a-z-]+) -->\n```sql\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUESTIONS: dict[str, str] = dict(QUESTION.findall(PAGE.read_text("utf-8")))
MONTH_END = datetime(2026, 2, 1, tzinfo=UTC)
VALENTINE = datetime(2026, 2, 14, tzinfo=UTC)
ONE_DAY, ONE_HOUR = timedelta(days=1), timedelta(hours=1)

Line = dict[str, Any]
Answer = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> SmallLedger:
    """Three months of two providers, three merchants and three currencies, with all that the questions ask for."""
    reported = SmallLedger(tmp_path_factory.mktemp("finance") / "data")
    chance = Random(2026)
    moments = sorted(
        datetime(2026, 1, 5, tzinfo=UTC) + timedelta(minutes=chance.randrange(120_000)) for _ in range(400)
    )
    for number, at in enumerate([*moments, MONTH_END - timedelta(microseconds=1), MONTH_END, VALENTINE]):
        _tell_one(reported, chance, at)
        if number % 40 == 0:
            reported.commit()
    _tell_exceptions(reported, chance)
    reported.commit()
    return reported


def _tell_one(reported: SmallLedger, chance: Random, at: datetime) -> None:
    movement = chance.choice([Movement.CAPTURE] * 4 + [*Movement, None])
    payout = movement in (Movement.PAYOUT_PAID, Movement.PAYOUT_FAILED)
    reported.add(
        movement,
        chance.randint(-900 if payout else 1, 5_000) or 1,
        chance.choice(("EUR", "JPY", "KWD")),
        provider=chance.choice(("stripe", "adyen")),
        merchant=chance.choice(("m-1", "m-2", "shop: Zoë's")),
        payment=f"pi_{chance.randint(1, 60)}",
        at=at,
    )


def _tell_exceptions(reported: SmallLedger, chance: Random) -> None:
    booked = [row for row in reported.rows if row.postings is not None]
    for row in chance.sample(booked, 12):
        reported.again(row)
    for row in chance.sample(booked, 7):
        reported.again(row, Decision.DUPLICATE_FACT, event_key=f"{row.event_key}:again")
    reported.again(next(row for row in reported.rows if row.postings is None))
    late = chance.choice(booked)
    waited = reported.again(late, Decision.RETRY, event_key="stripe:evt_late:capture", fact_key=None, cause_seq=None)
    command = reported.add(None, decision=Decision.REPLAYED, event_key=None, actor="ada", reason="mended, 'at last'")
    reported.later(waited, Decision.REPLAYED, cause_seq=command.seq, actor="ada", reason=command.reason)
    assert waited.received_at is not None
    hour_on = waited.received_at + ONE_HOUR
    reported.later(waited, Decision.APPLIED, postings=late.postings, decided_at=hour_on + timedelta(microseconds=1))
    reported.add(Movement.CAPTURE, received_at=hour_on, decided_at=hour_on + ONE_HOUR, payment="pi_1")
    reversal = {"cause_seq": command.seq, "actor": "bob", "reason": "booked for the wrong merchant"}
    reported.later(late, Decision.REVERSED, postings=late.postings, **reversal)


@pytest.fixture(scope="module")
def in_spark(spark: SparkSession, ledger: SmallLedger) -> Callable[[str], Answer]:
    for name, path in {"postings": ledger.postings, "journal": ledger.journal}.items():
        spark.read.format("delta").load(path).createOrReplaceTempView(name)

    def ask(query: str) -> Answer:
        return _plain(row.values() for row in spark.sql(query).toArrow().to_pylist())

    return ask


@pytest.fixture(scope="module")
def in_duckdb(ledger: SmallLedger) -> Callable[[str], Answer]:
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    for name, path in {"postings": ledger.postings, "journal": ledger.journal}.items():
        db.register(name, DeltaTable(path).to_pyarrow_dataset())
    return lambda query: _plain(db.sql(query).fetchall())


def _plain(rows: Iterable[Iterable[Any]]) -> Answer:
    """Numbers as integers, times in UTC."""

    def value(one: Any) -> Any:
        if isinstance(one, Decimal):
            return int(one)
        return one.astimezone(UTC) if isinstance(one, datetime) else one

    return [tuple(map(value, row)) for row in rows]


@pytest.mark.more(reason="DuckDB answers the same questions below")
@pytest.mark.parametrize("name", QUESTIONS)
def test_spark_answers_as_plain_python_does(name: str, in_spark: Callable[[str], Answer], ledger: SmallLedger) -> None:
    assert in_spark(QUESTIONS[name]) == answer(name, ledger)


@pytest.mark.parametrize("name", QUESTIONS)
def test_duckdb_answers_as_plain_python_does(
    name: str, in_duckdb: Callable[[str], Answer], ledger: SmallLedger
) -> None:
    assert in_duckdb(QUESTIONS[name]) == answer(name, ledger)


def test_every_question_has_its_plain_answer_and_the_other_way_round() -> None:
    assert sorted(QUESTIONS) == sorted(ANSWERS)
    assert len(QUESTIONS) >= 10


def test_no_question_is_answered_by_nothing(ledger: SmallLedger) -> None:
    assert [name for name in ANSWERS if not answer(name, ledger)] == []


def answer(name: str, ledger: SmallLedger) -> Answer:
    return ANSWERS[name](ledger, lines_of(ledger.rows))


def signed(line: Line, plus: str) -> int:
    """The amount, below zero on the other side than ``plus``."""
    return int(line["amount_minor"]) * (1 if line["side"] == plus else -1)


def of_role(line: Line, *roles: str) -> bool:
    return line["account"].split(":")[2] in roles


def sums(lines: Iterable[Line], keys: Sequence[str], amount: Callable[[Line], int]) -> dict[tuple[Any, ...], int]:
    found: dict[tuple[Any, ...], int] = defaultdict(int)
    for line in lines:
        found[tuple(line[key] for key in keys)] += amount(line)
    return found


def of_merchants(lines: Iterable[Line]) -> list[Line]:
    return [line for line in lines if line["account"].startswith("merchant:")]


def owed(lines: Iterable[Line]) -> Answer:
    found = sums(of_merchants(lines), ("merchant", "currency"), lambda line: signed(line, "credit"))
    return sorted((*key, amount) for key, amount in found.items())


def captured_and_refunded(_: SmallLedger, lines: list[Line]) -> Answer:
    of_day = [
        line
        for line in of_merchants(lines)
        if of_role(line, "payable", "refunds") and VALENTINE <= line["decided_at"] < VALENTINE + ONE_DAY
    ]
    return _captured_and_refunded(of_day, ("provider", "currency"))


def _captured_and_refunded(lines: list[Line], keys: Sequence[str]) -> Answer:
    captured = sums(lines, keys, lambda line: signed(line, "credit") if of_role(line, "payable") else 0)
    refunded = sums(lines, keys, lambda line: signed(line, "debit") if of_role(line, "refunds") else 0)
    return sorted((*key, captured[key], refunded[key]) for key in captured)


def refunds_without_capture(_: SmallLedger, lines: list[Line]) -> Answer:
    keys, mine = ("entity_key", "currency"), of_merchants(lines)
    disputed = sums(
        mine, keys, lambda line: signed(line, "debit") if of_role(line, "disputes", "dispute_losses") else 0
    )
    found = [(*one, disputed[one[:2]]) for one in _captured_and_refunded(mine, keys)]
    return [one for one in found if max(one[2], 0) < one[3] + one[4]]


def open_disputes(_: SmallLedger, lines: list[Line]) -> Answer:
    disputes = [line for line in lines if of_role(line, "disputes")]
    of_payment = sums(disputes, ("merchant", "currency", "entity_key"), lambda line: signed(line, "debit"))
    exposed: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for (merchant, currency, _payment), amount in of_payment.items():
        if amount:
            exposed[merchant, currency].append(amount)
    return sorted((*key, len(amounts), sum(amounts)) for key, amounts in exposed.items())


def payouts_against_owed(_: SmallLedger, lines: list[Line]) -> Answer:
    keys, mine = ("merchant", "currency"), of_merchants(lines)
    earned = sums(mine, keys, lambda line: 0 if of_role(line, "payouts") else signed(line, "credit"))
    paid = sums(mine, keys, lambda line: signed(line, "debit") if of_role(line, "payouts") else 0)
    return sorted((*key, earned[key], paid[key], earned[key] - paid[key]) for key in earned)


def largest_refunds(_: SmallLedger, lines: list[Line]) -> Answer:
    refunds = [line for line in lines if of_role(line, "refunds") and line["side"] == "debit"]
    refunds.sort(key=lambda line: (line["currency"], -line["amount_minor"], line["seq"]))
    names = ("amount_minor", "merchant", "entity_key", "decided_at")
    return [
        (currency, place, *(line[name] for name in names))
        for currency in sorted({line["currency"] for line in refunds})
        for place, line in enumerate([line for line in refunds if line["currency"] == currency][:3], 1)
    ]


def payments_life(_: SmallLedger, lines: list[Line]) -> Answer:
    names = ("seq", "line", "decided_at", "event_key", "account", "side", "amount_minor", "currency")
    balances: dict[tuple[str, str], int] = defaultdict(int)
    life = []
    for line in (line for line in lines if line["entity_key"] == "stripe:acct:pi_1"):
        balances[line["account"], line["currency"]] += signed(line, "debit")
        life.append((*(line[name] for name in names), balances[line["account"], line["currency"]]))
    return life


def decided_late(ledger: SmallLedger, _: list[Line]) -> Answer:
    return [
        (row.seq, row.event_key, row.received_at, row.decided_at)
        for row in ledger.rows
        if row.decision is Decision.APPLIED and row.received_at and row.decided_at - row.received_at > ONE_HOUR
    ]


def what_people_changed(ledger: SmallLedger, _: list[Line]) -> Answer:
    acts = (Decision.REPLAYED, Decision.PURGED, Decision.RESOLVED, Decision.REVERSED)
    return [
        (row.seq, row.decision.value, row.item_seq, row.event_key, row.actor, row.reason, row.cause_seq)
        for row in ledger.rows
        if row.decision in acts and row.cause_seq is not None
    ]


def double_booking_escaped(ledger: SmallLedger, lines: list[Line]) -> Answer:
    amounts: dict[str, list[int]] = defaultdict(list)
    for row in ledger.rows:
        key = {Decision.DUPLICATE: "event_key", Decision.DUPLICATE_FACT: "fact_key"}.get(row.decision)
        for line in lines if key is not None else ():
            if key is not None and line["side"] == "debit" and line[key] == getattr(row, key) is not None:
                amounts[line["currency"]].append(line["amount_minor"])
    return sorted((currency, len(found), sum(found)) for currency, found in amounts.items())


def clearing_by_day(_: SmallLedger, lines: list[Line]) -> Answer:
    changes: dict[tuple[str, str, date], int] = defaultdict(int)
    for line in (line for line in lines if of_role(line, "clearing")):
        changes[line["account"], line["currency"], line["decided_at"].date()] += signed(line, "debit")
    balances: dict[tuple[str, str], int] = defaultdict(int)
    answer = []
    for (account, currency, day), change in sorted(changes.items()):
        balances[account, currency] += change
        answer.append((account, currency, day, change, balances[account, currency]))
    return answer


ANSWERS: dict[str, Callable[[SmallLedger, list[Line]], Answer]] = {
    "owed-now": lambda _, lines: owed(lines),
    "owed-at-month-end": lambda _, lines: owed(line for line in lines if line["decided_at"] < MONTH_END),
    "captured-and-refunded": captured_and_refunded,
    "refunds-without-capture": refunds_without_capture,
    "open-disputes": open_disputes,
    "payouts-against-owed": payouts_against_owed,
    "largest-refunds": largest_refunds,
    "payments-life": payments_life,
    "decided-late": decided_late,
    "what-people-changed": what_people_changed,
    "double-booking-escaped": double_booking_escaped,
    "clearing-by-day": clearing_by_day,
}
