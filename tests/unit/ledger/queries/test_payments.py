"""A payment is found by whatever a person has in hand; a whole key is that payment alone."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from core.clock import Deadline, ManualClock
from core.decision import Decision
from core.layout import Layout
from core.money import Movement
from journal.bodies import BodyStore
from ledger.queries import payments
from ledger.queries.journals import LedgerJournals
from ledger.queries.lake import PinnedTables
from ledger.queries.payments import SEARCH_S_MAX, AmountQuery, Payments, find_payments, read_amount
from tests.small_ledger import SmallLedger

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
ORDER = {"data": {"object": {"id": "ch_1", "metadata": {"order_id": "R-77"}}}}


@pytest.fixture
def ledger(tmp_path: Path) -> SmallLedger:
    """Payments of 12.50 in three currencies, one that was refunded, one that died, one ignored."""
    made = SmallLedger(tmp_path / "data")
    made.add(Movement.CAPTURE, 1_250, "EUR", payment="pi_eur")
    made.add(Movement.CAPTURE, 12_500, "KWD", payment="pi_kwd", merchant="m-2")
    made.add(Movement.CAPTURE, 1_250, "JPY", payment="pi_jpy")
    made.add(Movement.REFUND, 400, "EUR", payment="pi_eur")
    made.add(None, payment="pi_dead", decision=Decision.DEAD, account="acct_of_shop")
    made.add(None, entity_key=None)
    raw = json.dumps(ORDER).encode()
    made.add(Movement.CAPTURE, 9_900, "EUR", payment="pi_order", body_sha256=hashlib.sha256(raw).hexdigest())
    made.commit()
    others = [{"metadata": {"order_id": "R-7"}}, {"note": "order_id R-77"}, {"metadata": {"order_id": ["R-77"]}}]
    bodies = [raw, *(json.dumps(one).encode() for one in others), b"\xff\xfe order_id R-77"]
    BodyStore(made.bodies).append([(hashlib.sha256(one).hexdigest(), one) for one in bodies])
    return made


def find(ledger: SmallLedger, words: str, field: str = "") -> Payments:
    return find_payments(LedgerJournals(Layout(ledger.data).all_ledgers()), words, in_time(), field)


def in_time() -> Deadline:
    return Deadline(ManualClock(AT), SEARCH_S_MAX)


def keys(found: Payments) -> list[str]:
    return [one.key.rpartition(":")[2] for one in found.found]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("stripe:acct:pi_eur", ["pi_eur"]),
        ("stripe:evt_4:refund", ["pi_eur"]),
        ("stripe:f_2:capture", ["pi_kwd"]),
        ("pi_kwd", ["pi_kwd"]),
        ("evt_5", ["pi_dead"]),
        ("acct_of_shop", ["pi_dead"]),
        ("m-2", ["pi_kwd"]),
        ("merchant:m-2:payable", ["pi_kwd"]),
        ("12.50", ["pi_kwd", "pi_eur"]),
        ("12.5 eur", ["pi_eur"]),
        ("KWD 12.500", ["pi_kwd"]),
        ("1,250 JPY", ["pi_jpy"]),
        ("4.00", ["pi_eur"]),
        ("12.505", []),
        ("evt_6", ["customer.updated"]),
        ("no such thing' OR 1=1 --", []),
        ("   ", []),
    ],
)
def test_a_payment_is_found_by(ledger: SmallLedger, words: str, expected: list[str]) -> None:
    assert keys(find(ledger, words)) == expected


def test_what_is_found_says_where_it_stands(ledger: SmallLedger) -> None:
    [one] = find(ledger, "stripe:acct:pi_eur").found
    assert (one.decision, one.event_type, one.is_entity) == ("applied", "refund", True)
    assert (one.amounts, one.merchant, one.stream) == ({"EUR": 1_250}, "m-1", "ledger")
    [dead] = find(ledger, "pi_dead").found
    assert (dead.decision, dead.amounts) == ("dead", {})
    [alone] = find(ledger, "evt_6").found
    assert (alone.key, alone.is_entity) == ("stripe:evt_6:customer.updated", False)


def test_an_order_id_is_found_in_the_field_that_the_setting_names_and_nowhere_else(ledger: SmallLedger) -> None:
    assert keys(find(ledger, "R-77", "metadata.order_id")) == ["pi_order"]
    assert keys(find(ledger, "R-77", "order_id")) == ["pi_order"]
    assert keys(find(ledger, "R-77", "note")) == [], "that body is no event's"
    assert keys(find(ledger, "R-7", "metadata.order_id")) == [], "another one, of which no row has the body"
    assert keys(find(ledger, "R-77")) == []


def test_no_more_are_listed_than_asked_for_and_it_is_said_that_there_are_more(ledger: SmallLedger) -> None:
    found = find_payments(LedgerJournals(Layout(ledger.data).all_ledgers()), "acct:pi_", in_time(), limit=2)
    assert (keys(found), found.more) == (["pi_order", "pi_dead"], True)


def test_before_anything_was_decided_nothing_is_found(tmp_path: Path) -> None:
    assert find(SmallLedger(tmp_path / "data"), "evt_1") == Payments(())


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("12.50", AmountQuery(Decimal("12.50"), None)),
        ("1,234.50 eur", AmountQuery(Decimal("1234.50"), "EUR")),
        ("JPY 500", AmountQuery(Decimal(500), "JPY")),
        ("1,23", None),
        ("EUR 5 EUR", None),
        ("-5", None),
        ("pi_5", None),
        ("12.50.1", None),
        ("5 EURO", None),
    ],
)
def test_an_amount_is_read_as_people_write_it(words: str, wanted: AmountQuery | None) -> None:
    assert read_amount(words) == wanted


class SlowLake(PinnedTables):
    """Each question takes ten seconds."""

    clock = ManualClock(AT)

    def ask(self, sql: str) -> pa.Table:
        self.clock.advance(10)
        return super().ask(sql)


def test_a_search_ends_in_time_and_says_since_when_it_has_looked(
    ledger: SmallLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest rows are looked at first, then more and more."""
    monkeypatch.setattr(payments, "WINDOW_ROWS", 2)
    monkeypatch.setattr(payments, "PinnedTables", SlowLake)

    def slowly(words: str, seconds: float) -> Payments:
        deadline = Deadline(SlowLake.clock, seconds)
        return find_payments(LedgerJournals(Layout(ledger.data).all_ledgers()), words, deadline)

    newest = slowly("acct:pi_", 15.0)
    assert keys(newest) == ["pi_order"]
    assert newest.looked_since is not None and newest.more
    nothing = slowly("pi_kwd", 15.0)
    assert (nothing.found, nothing.more) == ((), True) and nothing.looked_since is not None
    whole = slowly("pi_kwd", 1_000.0)
    assert keys(whole) == ["pi_kwd"] and whole.looked_since is None and not whole.more


@pytest.mark.parametrize(
    ("body", "field", "is_found"),
    [
        (b"custom=x&order_id=R+88%2F1&sum=1", "order_id", True),
        (b"metadata%5Border_id%5D=R+88%2F1", "metadata.order_id", True),
        (b"event[metadata][order_id]=R%2088%2F1", "metadata.order_id", True),
        (b"metadata.order_id=R+88%2F1", "metadata.order_id", True),
        (b"note=order_id+R+88%2F1", "order_id", False),
        (b"order_id=R+88%2F12", "order_id", False),
        (b"\xff&order_id=R+88%2F1", "order_id", False),
    ],
)
def test_an_order_id_is_found_in_a_forms_field(ledger: SmallLedger, body: bytes, field: str, is_found: bool) -> None:
    ledger.add(Movement.CAPTURE, 100, "EUR", payment="pi_form", body_sha256=hashlib.sha256(body).hexdigest())
    ledger.commit()
    BodyStore(ledger.bodies).append([(hashlib.sha256(body).hexdigest(), body)])
    assert keys(find(ledger, "R 88/1", field)) == (["pi_form"] if is_found else [])
