"""Stripe's balance report names each movement as the adapter names the movement's webhook."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from core.money import Money, MoneyFact, Movement
from load.samples.stripe import stripe_event
from providers.port import Request
from providers.settings import ProvidersSettings
from providers.settlement import build_report
from providers.settlement.report import NotCompared, ReportLine, RowUnreadable, SettlementLine, read_report
from providers.stripe import StripeAdapter
from tests.settlement_reports import AT, STRIPE_COLUMNS, as_csv, stripe_csv, stripe_line

CHARGE = MoneyFact("stripe:ch_1:capture", Movement.CAPTURE, "", "pi_1", Money(1_234, "EUR"))


def read(folder: Path, body: bytes, account: str = "", settings: ProvidersSettings | None = None) -> list[ReportLine]:
    path = folder / "balance.csv"
    path.write_bytes(body)
    report = build_report("stripe", settings or ProvidersSettings(), account)
    return list(read_report(path, report, hashlib.sha256()))


def one(folder: Path, *lines: dict[str, str], account: str = "") -> SettlementLine:
    [found] = read(folder, stripe_csv(*lines), account)
    assert isinstance(found, SettlementLine)
    return found


def refused(folder: Path, line: dict[str, str]) -> RowUnreadable:
    with pytest.raises(RowUnreadable) as raised:
        read(folder, stripe_csv(stripe_line(CHARGE), line))
    return raised.value


@pytest.mark.parametrize("account", ["", "acct_1"])
@pytest.mark.parametrize("entity", ["payment", "merchant"])
@pytest.mark.parametrize(
    ("event_type", "category", "gross"),
    [
        ("charge.succeeded", "charge", "12.34"),
        ("refund.created", "refund", "-12.34"),
        ("refund.failed", "refund_failure", "12.34"),
        ("charge.dispute.created", "dispute", "-12.34"),
        ("charge.dispute.funds_reinstated", "dispute_reversal", "12.34"),
        ("payout.paid", "payout", "-12.34"),
        ("payout.failed", "payout_reversal", "12.34"),
    ],
)
def test_a_line_is_the_fact_and_the_entity_of_its_webhook(
    tmp_path: Path, event_type: str, category: str, gross: str, entity: str, account: str
) -> None:
    settings = ProvidersSettings.model_validate({"entity": entity})
    adapter = StripeAdapter(settings)
    body = stripe_event(
        "evt_1", event_type, payment="pi_1", account=account, amount_minor=1_234, currency="EUR", created=AT
    )
    event, *_ = adapter.events(Request(body, []), "live")
    reported = orjson.loads(body)["data"]["object"]
    payout = category.startswith("payout")
    line = stripe_line(
        CHARGE,
        reporting_category=category,
        gross=gross,
        source_id=reported["id"],
        charge_id="" if payout else "ch_1",
        payment_intent_id="" if payout else "pi_1",
        customer_facing_currency="" if payout else "eur",
    )
    [found] = read(tmp_path, stripe_csv(line), account, settings)
    assert isinstance(found, SettlementLine)
    assert found.fact == adapter.money(body, event_type)
    assert found.fact.sha256 == event.fact_sha256
    assert found.entity_key == event.entity_key
    assert found.occurred_at == AT


def test_a_payment_without_an_intent_is_its_charge(tmp_path: Path) -> None:
    found = one(tmp_path, stripe_line(CHARGE, payment_intent_id="", charge_id="ch_1"))
    assert (found.fact.payment, found.entity_key) == ("ch_1", "stripe::ch_1")


@pytest.mark.parametrize(
    ("currency", "gross", "amount_minor"),
    [("jpy", "1234", 1_234), ("jpy", "12.00", 12), ("bhd", "1.234", 1_234), ("bhd", "0.005", 5), ("usd", "5", 500)],
)
def test_amounts_have_their_currencys_decimals(tmp_path: Path, currency: str, gross: str, amount_minor: int) -> None:
    found = one(tmp_path, stripe_line(CHARGE, currency=currency, gross=gross, customer_facing_currency=currency))
    assert found.fact.money == Money(amount_minor, currency.upper())


def test_what_the_payer_saw_is_what_the_webhook_says(tmp_path: Path) -> None:
    facing = {"customer_facing_amount": "1500", "customer_facing_currency": "jpy"}
    charge = one(tmp_path, stripe_line(CHARGE, gross="9.12", **facing))
    assert charge.fact.money == Money(1_500, "JPY")
    refund = one(tmp_path, stripe_line(CHARGE, gross="-9.12", reporting_category="refund", source_id="re_1", **facing))
    assert (refund.fact.fact_key, refund.fact.money) == ("stripe:re_1:refund", Money(1_500, "JPY"))


def test_a_partial_capture_adds_to_its_charge(tmp_path: Path) -> None:
    reversal = stripe_line(
        CHARGE, reporting_category="partial_capture_reversal", source_id="re_9", charge_id="ch_1", gross="-2.34"
    )
    whole, part = read(tmp_path, stripe_csv(stripe_line(CHARGE), reversal))
    assert isinstance(whole, SettlementLine) and isinstance(part, SettlementLine)
    assert (whole.adds, part.adds) == (False, True)
    assert (part.fact.fact_key, part.fact.money) == ("stripe:ch_1:capture", Money(-234, "EUR"))


@pytest.mark.parametrize("category", ["charge_failure", "payment_failure_refund"])
def test_a_payment_that_fails_takes_its_charge_back(tmp_path: Path, category: str) -> None:
    begun = stripe_line(CHARGE, source_id="py_1", charge_id="py_1")
    failed = stripe_line(CHARGE, reporting_category=category, source_id="pyr_1", charge_id="py_1", gross="-12.34")
    whole, back = read(tmp_path, stripe_csv(begun, failed))
    assert isinstance(whole, SettlementLine) and isinstance(back, SettlementLine)
    assert (back.adds, back.fact.fact_key) == (True, "stripe:py_1:capture") == (True, whole.fact.fact_key)
    assert back.fact.money == Money(-1_234, "EUR")


def test_of_a_payment_that_may_still_fail_no_event_is_made(tmp_path: Path) -> None:
    assert one(tmp_path, stripe_line(CHARGE, source_id="py_1", charge_id="py_1")).entity_key is None
    assert "may still fail" in build_report("stripe", ProvidersSettings(), "").wanted_to_repair


def test_two_partial_refunds_of_a_charge_are_two_facts(tmp_path: Path) -> None:
    lines = [stripe_line(CHARGE, reporting_category="refund", source_id=f"re_{n}", gross="-1.00") for n in (1, 2)]
    found = read(tmp_path, stripe_csv(*lines))
    assert [one.fact.fact_key for one in found if isinstance(one, SettlementLine)] == [
        "stripe:re_1:refund",
        "stripe:re_2:refund",
    ]


@pytest.mark.parametrize(
    "category", ["transfer", "risk_reserved_funds", "other_adjustment", "charge_failure", "topup", "new_in_2031"]
)
def test_what_books_nothing_is_counted_by_its_category(tmp_path: Path, category: str) -> None:
    line = stripe_line(CHARGE, reporting_category=category, source_id="", gross="what?")
    assert read(tmp_path, stripe_csv(line)) == [NotCompared(2, category)]


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"fee": "0.59"}, Money(59, "EUR")),
        ({"fee": "-0.30", "reporting_category": "refund", "source_id": "re_1", "gross": "-1.00"}, Money(-30, "EUR")),
        ({"fee": "0.00"}, None),
        ({"fee": ""}, None),
        ({"reporting_category": "fee", "source_id": "", "gross": "-15.00"}, Money(1_500, "EUR")),
        ({"reporting_category": "network_cost", "source_id": "", "gross": "0.40"}, Money(-40, "EUR")),
        ({"reporting_category": "platform_earning", "source_id": "fee_1", "gross": "3.20"}, Money(-320, "EUR")),
        ({"reporting_category": "platform_earning_refund", "source_id": "fr_1", "gross": "-1.20"}, Money(120, "EUR")),
        ({"reporting_category": "application_fee", "source_id": "fee_1", "gross": "3.20"}, Money(-320, "EUR")),
        ({"reporting_category": "tax_fee", "source_id": "", "gross": "-0.19"}, Money(19, "EUR")),
        ({"reporting_category": "tax", "source_id": "", "gross": "-0.19"}, Money(19, "EUR")),
        ({"reporting_category": "transfer", "source_id": "", "gross": "-15.00", "fee": "0.10"}, Money(10, "EUR")),
    ],
)
def test_what_stripe_kept_of_a_line_is_its_fee(tmp_path: Path, changes: dict[str, str], kept: Money | None) -> None:
    [line] = read(tmp_path, stripe_csv(stripe_line(CHARGE, **changes)))
    assert line.fee == kept


@pytest.mark.parametrize("changes", [{"fee": "what?"}, {"reporting_category": "fee", "gross": "what?"}])
def test_a_fee_that_cannot_be_read_names_its_line(tmp_path: Path, changes: dict[str, str]) -> None:
    with pytest.raises(RowUnreadable, match="line 2"):
        read(tmp_path, stripe_csv(stripe_line(CHARGE, **changes)))


def test_the_dashboards_export_is_read_too(tmp_path: Path) -> None:
    columns = ("id", "Type", "Source", "Amount", "Fee", "Net", "Currency", "Created (UTC)", "Available On (UTC)")
    lines = [
        {"Type": "payment", "Source": "py_1", "Amount": "7.00"},
        {"Type": "adjustment", "Source": "dp_1", "Amount": "-7.00"},
        {"Type": "adjustment", "Source": "du_1", "Amount": "7.00"},
        {"Type": "adjustment", "Source": "", "Amount": "-1.00"},
        {"Type": "payout_failure", "Source": "po_1", "Amount": "3.00"},
        {"Type": "stripe_fee", "Source": "", "Amount": "-1.00"},
    ]
    common = {"id": "txn_1", "Currency": "eur", "Created (UTC)": "2026-01-31 12:00"}
    found = read(tmp_path, as_csv(columns, [{**common, **line} for line in lines]))
    shown = [one.fact.fact_key if isinstance(one, SettlementLine) else one.category for one in found]
    assert shown == [
        "stripe:py_1:capture",
        "stripe:dp_1:dispute_opened",
        "stripe:du_1:dispute_won",
        "adjustment",
        "stripe:po_1:payout_failed",
        "stripe_fee",
    ]
    entities = [one.entity_key for one in found if isinstance(one, SettlementLine)]
    assert entities == [None, None, None, "stripe::po_1"]
    others = [one.or_fact_key for one in found if isinstance(one, SettlementLine)]
    assert others == ["stripe:txn_1:capture", "stripe:txn_1:dispute_opened", "stripe:txn_1:dispute_won", None]


@pytest.mark.parametrize("lacking", ["charge_id", "payment_intent_id", "customer_facing_currency"])
def test_without_the_payment_or_the_payers_currency_no_event_can_be_made(tmp_path: Path, lacking: str) -> None:
    columns = [name for name in STRIPE_COLUMNS if name != lacking]
    line = {name: value for name, value in stripe_line(CHARGE).items() if name != lacking}
    [found] = read(tmp_path, as_csv(columns, [line]))
    assert isinstance(found, SettlementLine)
    assert found.entity_key is None
    assert one(tmp_path, stripe_line(CHARGE)).entity_key == "stripe::pi_1"


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("gross", "12.345", "more decimals than EUR"),
        ("gross", "12,34", "isn't a text of decimal digits"),
        ("gross", "1e3", "isn't a text of decimal digits"),
        ("gross", "NaN", "isn't a text of decimal digits"),
        ("gross", "", "is empty"),
        ("gross", "10000000000001.00", "beyond"),
        ("currency", "euro", "isn't a currency's three letters"),
        ("currency", "", "is empty"),
        ("created_utc", "31/01/2026", "isn't a date and time"),
        ("created_utc", "", "is empty"),
        ("source_id", "", "is empty"),
        ("reporting_category", "", "is empty"),
    ],
)
def test_a_value_that_cannot_be_read_is_named_with_line_and_column(
    tmp_path: Path, column: str, value: str, problem: str
) -> None:
    wrong = refused(tmp_path, stripe_line(CHARGE, **{column: value}))
    assert (wrong.line, wrong.column) == (4, column), "the description of the line before it holds a line break"
    assert problem in str(wrong)
    assert "Nothing was compared" in str(wrong)


def test_a_yen_amount_with_a_fraction_is_refused(tmp_path: Path) -> None:
    assert "more decimals than JPY" in str(refused(tmp_path, stripe_line(CHARGE, currency="jpy", gross="12.50")))


def test_a_partial_capture_without_its_charge_is_refused(tmp_path: Path) -> None:
    wrong = refused(tmp_path, stripe_line(CHARGE, reporting_category="partial_capture_reversal", gross="-1.00"))
    assert wrong.column == "charge_id"


def test_a_time_with_its_zone_is_taken_to_utc(tmp_path: Path) -> None:
    found = one(tmp_path, stripe_line(CHARGE, created_utc="2026-02-01T00:30:00+01:00"))
    assert found.occurred_at == datetime(2026, 1, 31, 23, 30, tzinfo=UTC)
