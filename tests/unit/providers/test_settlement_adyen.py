"""Adyen's Settlement details report names each movement as the adapter names the movement's webhook."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.money import Money, MoneyFact, Movement
from load.samples.adyen import AdyenItem, adyen_notification
from providers.adyen import AdyenAdapter
from providers.port import Request
from providers.settings import ProvidersSettings
from providers.settlement import build_report
from providers.settlement.report import NotCompared, ReportLine, RowUnreadable, SettlementLine, read_report
from tests.settlement_reports import ADYEN_COLUMNS, AT, adyen_csv, adyen_line, as_csv

PAIR = "adyen:MOD1:capture"
CAPTURE = MoneyFact(PAIR, Movement.CAPTURE, "Shop", "PAY1", Money(1_234, "EUR"), PAIR)


def read(folder: Path, body: bytes, account: str = "", settings: ProvidersSettings | None = None) -> list[ReportLine]:
    path = folder / "settlement_detail_report_batch_7.csv"
    path.write_bytes(body)
    report = build_report("adyen", settings or ProvidersSettings(), account)
    return list(read_report(path, report, hashlib.sha256()))


def one(folder: Path, line: dict[str, str]) -> SettlementLine:
    [found] = read(folder, adyen_csv(line))
    assert isinstance(found, SettlementLine)
    return found


def refused(folder: Path, **changes: str) -> RowUnreadable:
    with pytest.raises(RowUnreadable) as raised:
        read(folder, adyen_csv(adyen_line(CAPTURE, **changes)))
    return raised.value


@pytest.mark.parametrize("entity", ["payment", "merchant"])
@pytest.mark.parametrize(
    ("kind", "code", "side"),
    [
        ("Settled", "CAPTURE", "Credit"),
        ("SettledReversed", "SETTLED_REVERSED", "Debit"),
        ("Refunded", "REFUND", "Debit"),
        ("RefundedReversed", "REFUNDED_REVERSED", "Credit"),
        ("Chargeback", "CHARGEBACK", "Debit"),
        ("ChargebackReversed", "CHARGEBACK_REVERSED", "Credit"),
        ("SecondChargeback", "SECOND_CHARGEBACK", "Debit"),
        ("PaidOut", "PAYOUT_THIRDPARTY", "Debit"),
        ("PaidOutReversed", "PAIDOUT_REVERSED", "Credit"),
    ],
)
def test_a_line_is_the_fact_and_the_entity_of_its_webhook(
    tmp_path: Path, kind: str, code: str, side: str, entity: str
) -> None:
    settings = ProvidersSettings.model_validate({"entity": entity})
    adapter = AdyenAdapter(settings)
    item = AdyenItem("MOD1", "PAY1", "Shop", "order-1", code, 1_234, "EUR", AT)
    event = adapter.events(Request(adyen_notification([item]), []), "live")[0]
    amounts = {"Gross Credit (GC)": "", f"Gross {side} (GC)": "12.34"}
    [found] = read(tmp_path, adyen_csv(adyen_line(CAPTURE, Type=kind, **amounts)), settings=settings)
    assert isinstance(found, SettlementLine)
    told = adapter.money(event.body, code)
    assert told is not None
    if code == "CHARGEBACK_REVERSED":
        # A report doesn't say which of a dispute's reversals a line is.
        told = replace(told, fact_key="adyen:MOD1:dispute_won")
    assert found.fact == told
    assert found.fact.sha256 == told.sha256
    # A second chargeback's webhook is two events: one alone isn't made.
    assert found.entity_key == (None if kind == "SecondChargeback" else event.entity_key)
    assert found.occurred_at == AT


def settings_of(**capture: str) -> ProvidersSettings:
    return ProvidersSettings.model_validate({"adyen": {"capture": capture}})


def test_where_the_account_captures_at_once_the_payment_names_the_capture(tmp_path: Path) -> None:
    settings = settings_of(Shop="immediate")
    adapter = AdyenAdapter(settings)
    item = AdyenItem("PAY1", "", "Shop", "order-1", "AUTHORISATION", 1_234, "EUR", AT)
    [event] = adapter.events(Request(adyen_notification([item]), []), "live")
    [found] = read(tmp_path, adyen_csv(adyen_line(CAPTURE)), settings=settings)
    assert isinstance(found, SettlementLine)
    assert found.fact == adapter.money(event.body, "AUTHORISATION")
    assert found.entity_key == event.entity_key


@pytest.mark.parametrize(("method", "reference"), [("visa", "PAY1"), ("klarna", "MOD1")])
def test_the_payment_method_says_so_where_it_decides(tmp_path: Path, method: str, reference: str) -> None:
    settings = settings_of(**{"Shop": "immediate", "Shop/klarna": "manual"})
    line = adyen_line(CAPTURE, **{"Payment Method": method})
    [found] = read(tmp_path, adyen_csv(line), settings=settings)
    assert isinstance(found, SettlementLine)
    assert found.fact.fact_key == f"adyen:{reference}:capture"
    with pytest.raises(RowUnreadable, match="providers.adyen.capture"):
        read(tmp_path, adyen_csv(adyen_line(CAPTURE, **{"Payment Method": ""})), settings=settings)


@pytest.mark.parametrize(
    ("currency", "amount", "amount_minor"), [("JPY", "1234", 1_234), ("KWD", "1.234", 1_234), ("EUR", "0.05", 5)]
)
def test_amounts_have_their_currencys_decimals(tmp_path: Path, currency: str, amount: str, amount_minor: int) -> None:
    line = adyen_line(CAPTURE, **{"Gross Currency": currency, "Gross Credit (GC)": amount})
    assert one(tmp_path, line).fact.money == Money(amount_minor, currency)


def test_the_gross_amount_counts_and_not_what_was_settled(tmp_path: Path) -> None:
    line = adyen_line(CAPTURE, **{"Net Currency": "USD", "Net Credit (NC)": "13.00", "Exchange Rate": "1.07"})
    assert one(tmp_path, line).fact.money == Money(1_234, "EUR")


def test_a_movement_against_its_own_way_is_below_zero(tmp_path: Path) -> None:
    line = adyen_line(CAPTURE, **{"Gross Credit (GC)": "", "Gross Debit (GC)": "12.34"})
    assert one(tmp_path, line).fact.money == Money(-1_234, "EUR")


@pytest.mark.parametrize("kind", ["Fee", "MerchantPayout", "Balancetransfer", "DepositCorrection", "ReserveAdjustment"])
def test_what_books_nothing_is_counted_by_its_type(tmp_path: Path, kind: str) -> None:
    fields = {"Psp Reference": "", "Modification Reference": "Transaction Fees January", "Gross Credit (GC)": ""}
    line = adyen_line(CAPTURE, Type=kind, **fields)
    assert read(tmp_path, adyen_csv(line)) == [NotCompared(2, kind)]


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"Commission (NC)": "0.45"}, Money(45, "EUR")),
        ({"Markup (NC)": "0.10", "Scheme Fees (NC)": "0.05", "Interchange (NC)": "0.20"}, Money(35, "EUR")),
        ({"Net Currency": "USD", "Commission (NC)": "-0.45"}, Money(-45, "USD")),
        ({}, None),
        ({"Type": "Fee", "Gross Credit (GC)": "", "Net Debit (NC)": "7.00"}, Money(700, "EUR")),
        ({"Type": "Fee", "Gross Credit (GC)": "", "Net Credit (NC)": "7.00"}, Money(-700, "EUR")),
    ],
)
def test_what_adyen_kept_of_a_line_is_its_fee(tmp_path: Path, changes: dict[str, str], kept: Money | None) -> None:
    columns = (*ADYEN_COLUMNS, "Commission (NC)", "Markup (NC)", "Scheme Fees (NC)", "Interchange (NC)")
    [line] = read(tmp_path, as_csv(columns, [{**adyen_line(CAPTURE), **changes}]))
    assert line.fee == kept


def test_of_several_accounts_one_can_be_chosen(tmp_path: Path) -> None:
    other = MoneyFact("adyen:MOD2:capture", Movement.CAPTURE, "Other", "PAY2", Money(5, "EUR"))
    body = adyen_csv(adyen_line(CAPTURE), adyen_line(other))
    mine, others = read(tmp_path, body, "Shop")
    assert isinstance(mine, SettlementLine)
    assert others == NotCompared(3, "of the account Other")


def test_the_newer_name_of_a_column_is_known(tmp_path: Path) -> None:
    columns = ["Modification Psp Reference" if name == "Modification Reference" else name for name in ADYEN_COLUMNS]
    line = adyen_line(CAPTURE)
    line["Modification Psp Reference"] = line.pop("Modification Reference")
    [found] = read(tmp_path, as_csv(columns, [line]))
    assert isinstance(found, SettlementLine)
    assert found.fact == CAPTURE


@pytest.mark.parametrize(("zone", "hour"), [("CET", 11), ("CEST", 10), ("EDT", 16), ("", 12), ("utc", 12)])
def test_times_are_taken_to_utc(tmp_path: Path, zone: str, hour: int) -> None:
    found = one(tmp_path, adyen_line(CAPTURE, TimeZone=zone))
    assert found.occurred_at == datetime(2026, 1, 31, hour, tzinfo=UTC)


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("Gross Credit (GC)", "12.345", "more decimals than EUR"),
        ("Gross Credit (GC)", "", "either a debit or a credit"),
        ("Gross Debit (GC)", "1.00", "either a debit or a credit"),
        ("Gross Currency", "", "is empty"),
        ("Gross Currency", "€", "isn't a currency's three letters"),
        ("Psp Reference", "", "is empty"),
        ("Modification Reference", "", "is empty"),
        ("Merchant Account", "", "is empty"),
        ("Creation Date", "yesterday", "isn't a date and time"),
        ("TimeZone", "IST", "have the report made in UTC"),
        ("Type", "", "is empty"),
    ],
)
def test_a_value_that_cannot_be_read_is_named_with_line_and_column(
    tmp_path: Path, column: str, value: str, problem: str
) -> None:
    wrong = refused(tmp_path, **{column: value})
    assert wrong.line == 2
    assert wrong.column == ("Gross Credit (GC)" if "either" in problem else column)
    assert problem in str(wrong)
