"""A report made of the booked facts reconciles clean, and each planted difference is found with exactly its kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from core.decision import Decision
from core.money import Money, MoneyFact, Movement
from ledger.reconciliations import KINDS, Kind, Reconciliations
from tests.examples import examples
from tests.integration.ledger.compared import (
    EVERY,
    NOW,
    Compare,
    booked,
    books_of,
    comparing,
    fact,
    reversal,
    rows_of,
)
from tests.integration.ledger.compared import compare as compare
from tests.integration.ledger.conftest import AT
from tests.settlement_reports import STRIPE_CATEGORIES, adyen_csv, adyen_line, stripe_csv, stripe_line


@pytest.mark.row("A15")
def test_a_report_of_what_was_booked_reconciles_clean(compare: Compare, tmp_path: Path) -> None:
    lost = fact("dp_1", Movement.DISPUTE_LOST)
    lines = [stripe_line(one) for one in EVERY]
    others = [stripe_line(EVERY[0], reporting_category=name) for name in ("fee", "fee", "transfer")]
    nothing = stripe_line(fact("ch_0", amount_minor=0))
    compared = compare(books_of(tmp_path, rows_of(*EVERY, lost)), stripe_csv(*lines, *others, nothing))
    assert compared.found == []
    run = compared.run
    assert run.clean
    assert (run.lines, run.compared, run.agreed) == (11, 7, 7)
    assert run.not_compared == {"fee": 2, "transfer": 1, "an amount of zero": 1}
    assert (run.since, run.until, run.at) == (AT, AT, NOW)
    assert (run.journal_seq, run.provider, run.report_name) == (8, "stripe", "report.csv")


@pytest.mark.row("G6")
def test_totals_by_kind_are_those_of_the_report_and_of_the_ledger(compare: Compare, tmp_path: Path) -> None:
    paid, back, kept = (
        fact("ch_1", amount_minor=10_000),
        fact("re_1", Movement.REFUND, 2_000),
        fact("dp_1", Movement.FEE, 1_500),
    )
    yen, lost, sent = (
        fact("ch_2", amount_minor=700, currency="JPY"),
        fact("ch_3"),
        fact("po_1", Movement.PAYOUT_PAID, 6_180),
    )
    lines = [
        stripe_line(paid, fee="3.20"),
        stripe_line(back),
        stripe_line(yen, fee="25"),
        stripe_line(lost, fee="0.30"),
        stripe_line(sent),
        stripe_line(fact("x", amount_minor=-1_500), reporting_category="fee"),
    ]
    compared = compare(books_of(tmp_path, rows_of(paid, back, yen, kept, sent)), stripe_csv(*lines))
    assert compared.kinds() == {("missing_here", lost.fact_key)}, "a fee is no line of a report"
    totals = {(one.kind, one.currency): one for one in compared.run.totals}
    assert {key: (one.reported, one.reported_minor, one.booked, one.booked_minor) for key, one in totals.items()} == {
        ("payments", "EUR"): (2, 11_000, 1, 10_000),
        ("payments", "JPY"): (1, 700, 1, 700),
        ("refunds", "EUR"): (1, -2_000, 1, -2_000),
        ("fees", "EUR"): (3, -1_850, 1, -1_500),
        ("fees", "JPY"): (1, -25, 0, 0),
        ("payouts", "EUR"): (1, -6_180, 1, -6_180),
    }
    assert totals["payments", "EUR"].differs_minor == 1_000
    again = Reconciliations(tmp_path / "lake" / "reconciliation", tmp_path / "lake" / "runs").find_run(
        compared.run.run_id
    )
    assert again.totals == compared.run.totals


def test_a_dispute_whose_money_went_twice_reconciles_by_its_transactions(compare: Compare, tmp_path: Path) -> None:
    """Stripe's adapter names each further withdrawal by its balance transaction; the report's lines have both ids."""
    first, back = fact("dp_1", Movement.DISPUTE_OPENED), fact("dp_1", Movement.DISPUTE_WON)
    again = replace(fact("txn_9", Movement.DISPUTE_OPENED), payment="pi_dp_1")
    own = {"source_id": "dp_1", "payment_intent_id": "pi_dp_1"}
    lines = [
        stripe_line(first, balance_transaction_id="txn_7", **own),
        stripe_line(back, balance_transaction_id="txn_8", **own),
        stripe_line(again, balance_transaction_id="txn_9", **own),
    ]
    assert compare(books_of(tmp_path, rows_of(first, back, again)), stripe_csv(*lines)).found == []
    other = tmp_path / "other"
    assert compare(books_of(other, rows_of(first, back)), stripe_csv(*lines)).kinds() == {
        ("twice", "stripe:dp_1:dispute_opened")
    }


def test_adyens_report_reconciles_by_the_modifications_references(compare: Compare, tmp_path: Path) -> None:
    capture = MoneyFact("adyen:MOD1:capture", Movement.CAPTURE, "Shop", "PAY1", Money(1_234, "EUR"))
    refund = MoneyFact("adyen:MOD2:refund", Movement.REFUND, "Shop", "PAY1", Money(234, "EUR"))
    second = MoneyFact("adyen:MOD3:refund", Movement.REFUND, "Shop", "PAY1", Money(1_000, "EUR"))
    books = books_of(tmp_path, rows_of(capture, refund))
    compared = compare(books, adyen_csv(*(adyen_line(one) for one in (capture, refund, second))), "adyen")
    assert compared.kinds() == {("missing_here", "adyen:MOD3:refund")}
    assert compared.run.account == "Shop"
    missing = compared.one("adyen:MOD3:refund")
    assert (missing.reported_minor, missing.entity_key) == (-1_000, "adyen:Shop:PAY1")
    assert missing.absent


@pytest.mark.row("G6")
def test_each_planted_difference_is_found_with_exactly_its_kind(compare: Compare, tmp_path: Path) -> None:
    same, amount, currency, account, twice, not_there = (
        fact(f"ch_{name}") for name in ("same", "amount", "currency", "account", "twice", "not_there")
    )
    elsewhere = replace(account, account="acct_2")
    books = books_of(tmp_path, rows_of(same, amount, currency, elsewhere, twice, not_there))
    yen = {"currency": "jpy", "gross": "1000", "customer_facing_currency": "jpy"}
    compared = compare(
        books,
        stripe_csv(
            stripe_line(same, description="plain"),
            stripe_line(amount, gross="10.01", description="plain"),
            stripe_line(currency, description="plain", **yen),
            stripe_line(account, description="plain"),
            stripe_line(twice, description="plain"),
            stripe_line(twice, description="plain"),
            stripe_line(fact("ch_not_here"), description="plain"),
        ),
    )
    assert compared.kinds() == {
        ("amount_differs", amount.fact_key),
        ("currency_differs", currency.fact_key),
        ("account_differs", account.fact_key),
        ("twice", twice.fact_key),
        ("missing_there", not_there.fact_key),
        ("missing_here", "stripe:ch_not_here:capture"),
    }
    assert compared.run.counts == dict.fromkeys(KINDS, 1)
    assert (compared.run.compared, compared.run.agreed) == (6, 2)
    differs = compared.one(amount.fact_key)
    assert (differs.reported_minor, differs.booked_minor, differs.line) == (1_001, 1_000, 3)
    assert (differs.event_key, differs.seq, differs.decision) == ("stripe:evt_2:charge", 2, "applied")
    other = compared.one(currency.fact_key)
    assert (other.reported_minor, other.reported_currency, other.booked_currency) == (1_000, "JPY", "EUR")
    assert compared.one(twice.fact_key).line == 7
    lacking = compared.one(not_there.fact_key)
    assert (lacking.line, lacking.booked_minor, lacking.seq, lacking.absent) == (None, 1_000, 6, False)
    missing = compared.one("stripe:ch_not_here:capture")
    assert (missing.seq, missing.decision, missing.absent, missing.payment) == (None, None, True, "pi_ch_not_here")
    assert missing.occurred_at == AT


def test_what_the_journal_says_of_what_is_missing_is_shown(compare: Compare, tmp_path: Path) -> None:
    cases: list[tuple[list[Decision], str | None, bool]] = [
        ([Decision.DEAD], "dead", False),
        ([Decision.PARKED], "parked", False),
        ([Decision.RETRY], "retry", False),
        ([Decision.DEAD, Decision.DUPLICATE], "dead", False),
        ([Decision.DEAD, Decision.PURGED], "purged", False),
        ([Decision.IGNORED], "ignored", True),
        ([Decision.UNKNOWN], "unknown", True),
        ([], None, True),
    ]
    lost = [fact(f"ch_lost{number}") for number in range(len(cases))]
    rows = [booked(1, fact("ch_1"))]
    for of, (decisions, _, _) in zip(lost, cases, strict=True):
        rows += [
            booked(seq, of, decision=decision, postings=None) for seq, decision in enumerate(decisions, len(rows) + 1)
        ]
    compared = compare(books_of(tmp_path, rows), stripe_csv(*map(stripe_line, [fact("ch_1"), *lost])))
    for of, (_, shown, absent) in zip(lost, cases, strict=True):
        missing = compared.one(of.fact_key)
        assert (missing.kind, missing.decision, missing.absent) == ("missing_here", shown, absent)


def test_a_reversed_booking_counts_for_what_is_left_of_it(compare: Compare, tmp_path: Path) -> None:
    partly, wholly, unseen = (fact(f"ch_{name}") for name in ("partly", "wholly", "unseen"))
    rows = [*rows_of(partly, wholly, unseen), reversal(4, partly, 300), reversal(5, wholly, 1_000)]
    rows.append(reversal(6, unseen, 1_000))
    compared = compare(books_of(tmp_path, rows), stripe_csv(stripe_line(partly, gross="7.00"), stripe_line(wholly)))
    assert compared.kinds() == {("amount_differs", wholly.fact_key)}
    assert compared.one(wholly.fact_key).booked_minor == 0


def test_a_partial_capture_is_its_two_lines(compare: Compare, tmp_path: Path) -> None:
    charge = fact("ch_1", amount_minor=700)
    whole = stripe_line(charge, gross="10.00")
    part = stripe_line(charge, reporting_category="partial_capture_reversal", source_id="re_1", charge_id="ch_1")
    orphan = {**part, "charge_id": "ch_of_another_month"}
    body = stripe_csv(whole, {**part, "gross": "-3.00"}, orphan)
    compared = compare(books_of(tmp_path, rows_of(charge)), body)
    assert compared.found == []
    assert compared.run.not_compared == {"part of a movement that this report has no line of": 1}


PLANTS: tuple[Kind | None, ...] = (None, *(kind for kind in KINDS if kind != "account_differs"))


@st.composite
def ledgers(draw: st.DrawFn) -> list[tuple[MoneyFact, Kind | None]]:
    """Facts of all movements, currencies and sizes, each with what is wrong with it."""
    made = []
    for number in range(draw(st.integers(1, 40))):
        movement = draw(st.sampled_from(list(STRIPE_CATEGORIES)))
        amount_minor = draw(st.integers(1, 10**15 - 1))
        currency = draw(st.sampled_from(["EUR", "JPY", "KWD", "USD"]))
        plant = draw(st.sampled_from(PLANTS))
        made.append((fact(f"x{number}", movement, amount_minor, currency), plant))
    return made


@pytest.mark.slow
@given(ledger=ledgers())
@settings(max_examples=examples(5), deadline=None)
def test_whatever_is_booked_and_planted_is_found(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, ledger: list[tuple[MoneyFact, Kind | None]]
) -> None:
    folder = tmp_path_factory.mktemp("ledger")
    anchor = fact("anchor", Movement.PAYOUT_PAID)
    here = [one for one, plant in ledger if plant != "missing_here"]
    lines = [stripe_line(anchor)]
    for one, plant in ledger:
        lines += planted(one, plant)
    compared = comparing(spark, folder)(books_of(folder, rows_of(anchor, *here)), stripe_csv(*lines))
    assert compared.kinds() == {(plant, one.fact_key) for one, plant in ledger if plant is not None}
    assert compared.run.clean == all(plant is None for _, plant in ledger)


def planted(of: MoneyFact, plant: Kind | None) -> list[dict[str, str]]:
    """The report's lines of a booked fact with that difference between them."""
    line = stripe_line(of)
    if plant == "missing_there":
        return []
    if plant == "twice":
        return [line, line]
    if plant == "amount_differs":
        return [stripe_line(replace(of, money=Money(of.money.amount_minor + 1, of.money.currency)))]
    if plant == "currency_differs":
        return [stripe_line(replace(of, money=Money(of.money.amount_minor, "GBP")))]
    return [line]
