"""Whose report it is, and of which ledger: accounts, tenants, shards, postings that are behind, runs that are kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from core.money import Money, MoneyFact, Movement
from ledger.reconcile.job import Books, Period, ReconcileImpossible
from ledger.reconciliations import Reconciliations
from providers.settlement.report import ReportUnreadable, RowUnreadable
from tests.integration.ledger.compared import (
    EVERY,
    Compare,
    booked,
    books_of,
    divided,
    fact,
    rows_of,
)
from tests.integration.ledger.compared import compare as compare
from tests.integration.ledger.conftest import AT
from tests.settlement_reports import adyen_csv, adyen_line, stripe_csv, stripe_line


@pytest.mark.parametrize("has_postings", [True, False])
def test_facts_of_all_shards_are_compared_each_once(compare: Compare, tmp_path: Path, has_postings: bool) -> None:
    first, moved, later, lost = (fact(f"ch_{number}") for number in range(4))
    books = divided(books_of(tmp_path, rows_of(first, moved)), [later], has_postings=has_postings)
    lines = [stripe_line(one) for one in (first, moved, later, lost)]
    compared = compare(books, stripe_csv(*lines))
    assert compared.kinds() == {("missing_here", lost.fact_key)}
    assert compared.one(lost.fact_key).absent
    assert (compared.run.compared, compared.run.agreed) == (4, 3)
    [other] = compared.run.other_shards
    assert (compared.run.journal_seq, other.stream, other.journal_seq) == (2, "journal.1", 3)
    assert (other.postings_version is not None) == has_postings
    assert books.found.find_run(compared.run.run_id) == compared.run


@pytest.mark.more(reason="Spark compares more than once; all shards are compared by an everyday test")
def test_a_booking_that_another_shard_took_back_is_no_more_in_either(compare: Compare, tmp_path: Path) -> None:
    first, moved = fact("ch_0"), fact("ch_1")
    books = divided(books_of(tmp_path, rows_of(first, moved)), [fact("ch_2")], taken_back=[moved])
    compared = compare(books, stripe_csv(*[stripe_line(one) for one in (first, moved, fact("ch_2"))]))
    assert compared.kinds() == {("amount_differs", moved.fact_key)}
    assert compared.one(moved.fact_key).booked_minor == 0


@pytest.mark.more(reason="Spark compares more than once; all shards are compared by an everyday test")
def test_facts_of_other_accounts_providers_tenants_and_times_arent_missed(compare: Compare, tmp_path: Path) -> None:
    mine, account, before, after = (fact(f"ch_{name}") for name in ("mine", "account", "before", "after"))
    adyen = MoneyFact("adyen:MOD1:capture", Movement.CAPTURE, "", "PAY1", Money(5, "EUR"))
    tenants = {"fact_key": "shop-a~stripe:ch_t:capture", "entity_key": "shop-a~stripe::pi_t", "tenant": "shop-a"}
    rows = [
        booked(1, mine),
        booked(2, replace(account, account="acct_2")),
        booked(3, before, occurred_at=AT - timedelta(seconds=1)),
        booked(4, after, occurred_at=AT + timedelta(seconds=1)),
        booked(5, adyen),
        booked(6, fact("ch_t"), **tenants),
    ]
    books, report = books_of(tmp_path, rows), stripe_csv(stripe_line(mine))
    assert compare(books, report).found == []
    wider = Period(AT - timedelta(seconds=1), AT + timedelta(seconds=1))
    assert compare(books, report, period=wider).kinds() == {("missing_there", before.fact_key)}
    longer = Period(AT, AT + timedelta(seconds=2))
    assert compare(books, report, period=longer).kinds() == {("missing_there", after.fact_key)}


@pytest.mark.more(reason="Spark compares more than once; all shards are compared by an everyday test")
def test_a_tenants_report_is_compared_with_the_tenants_facts(compare: Compare, tmp_path: Path) -> None:
    own = {"fact_key": "shop-a~stripe:ch_1:capture", "entity_key": "shop-a~stripe::pi_1", "tenant": "shop-a"}
    unseen = {"fact_key": "shop-a~stripe:ch_2:capture", "entity_key": "shop-a~stripe::pi_2", "tenant": "shop-a"}
    books = books_of(tmp_path, [booked(1, fact("ch_1"), **own), booked(2, fact("ch_2"), **unseen)])
    report = stripe_csv(stripe_line(fact("ch_1")))
    assert compare(books, report, tenant="shop-a").kinds() == {("missing_there", "shop-a~stripe:ch_2:capture")}
    assert compare(books, report).kinds() == {("missing_here", "stripe:ch_1:capture")}


@pytest.mark.more(reason="Spark compares more than once; what is kept of a run is no money")
def test_a_run_keeps_whose_report_it_is(compare: Compare, tmp_path: Path) -> None:
    plain, connected = fact("ch_1"), fact("ch_2", account="acct_1")
    of_two = [MoneyFact(f"adyen:{name}:capture", Movement.CAPTURE, name, "P", Money(5, "EUR")) for name in ("B", "A")]
    books = books_of(tmp_path, rows_of(plain, connected, *of_two))
    assert compare(books, stripe_csv(stripe_line(plain))).run.account is None
    assert compare(books, stripe_csv(stripe_line(connected)), account="acct_1").run.account == "acct_1"
    report = adyen_csv(*map(adyen_line, of_two))
    assert compare(books, report, "adyen").run.account == "A,B"
    assert compare(books, report, "adyen", "A").run.account == "A"
    assert [run.account for run in books.found.list_runs()].count("A") == 1


@pytest.mark.more(reason="Spark compares more than once; a difference of each kind is in the other file")
def test_payouts_are_missed_only_in_a_report_that_tells_of_payouts(compare: Compare, tmp_path: Path) -> None:
    paid, other = fact("po_1", Movement.PAYOUT_PAID), fact("po_2", Movement.PAYOUT_PAID)
    books = books_of(tmp_path, rows_of(EVERY[0], paid, other))
    without = compare(books, stripe_csv(stripe_line(EVERY[0])))
    assert without.found == []
    assert without.run.not_compared == {"booked payouts, which this report doesn't cover": 2}
    one_of_them = compare(books, stripe_csv(stripe_line(EVERY[0]), stripe_line(paid)))
    assert one_of_them.kinds() == {("missing_there", other.fact_key)}


@pytest.mark.more(reason="Spark compares more than once; a difference of each kind is in the other file")
def test_a_payout_of_which_only_the_failure_was_told_names_its_pair(compare: Compare, tmp_path: Path) -> None:
    """Its event is made with it, and books nothing."""
    paid, failed = fact("po_1", Movement.PAYOUT_PAID), fact("po_1", Movement.PAYOUT_FAILED)
    books = books_of(tmp_path, [booked(1, fact("ch_1")), booked(2, failed, postings=None)])
    missing = compare(books, stripe_csv(*map(stripe_line, [fact("ch_1"), paid, failed]))).one(paid.fact_key)
    assert (missing.kind, missing.absent, missing.pair) == ("missing_here", True, paid.fact_key)


@pytest.mark.more(reason="Spark compares more than once; a difference of each kind is in the other file")
def test_a_payment_that_failed_moved_nothing(compare: Compare, tmp_path: Path) -> None:
    """Its line when it was begun, and its failure: no webhook reported either."""
    begun = stripe_line(fact("py_1"), charge_id="py_1")
    failed = {**begun, "reporting_category": "charge_failure", "source_id": "pyr_1", "gross": "-10.00"}
    assert (
        compare(books_of(tmp_path, rows_of(fact("ch_1"))), stripe_csv(stripe_line(fact("ch_1")), begun, failed)).found
        == []
    )
    booked_all = compare(books_of(tmp_path / "booked", rows_of(fact("py_1"))), stripe_csv(begun, failed))
    assert booked_all.kinds() == {("amount_differs", fact("py_1").fact_key)}


@pytest.mark.parametrize("postings_upto", [0, 1])
def test_postings_that_are_behind_hide_nothing(compare: Compare, tmp_path: Path, postings_upto: int) -> None:
    facts = [fact("ch_1"), fact("ch_2")]
    books = books_of(tmp_path, rows_of(*facts), postings_upto)
    assert compare(books, stripe_csv(*map(stripe_line, facts))).found == []


@pytest.mark.more(reason="Spark compares more than once; what is kept of a run is no money")
def test_each_run_of_a_report_is_kept_with_an_id_of_its_own(compare: Compare, tmp_path: Path) -> None:
    books = books_of(tmp_path, rows_of(fact("ch_1")))
    body = stripe_csv(stripe_line(fact("ch_1")), stripe_line(fact("ch_2")))
    first, second = compare(books, body), compare(books, body)
    assert first.run.run_id != second.run.run_id
    assert first.run.report_sha256 == second.run.report_sha256
    assert first.found == second.found
    assert {run.run_id for run in books.found.list_runs()} == {first.run.run_id, second.run.run_id}
    assert books.found.find_run(first.run.run_id) == first.run


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (stripe_csv(stripe_line(fact("ch_1")), stripe_line(fact("ch_2"), gross="1.005")), RowUnreadable),
        (adyen_csv(), ReportUnreadable),
    ],
)
def test_of_a_wrong_report_nothing_is_written(
    compare: Compare, tmp_path: Path, body: bytes, error: type[Exception]
) -> None:
    books = books_of(tmp_path, rows_of(fact("ch_1")))
    with pytest.raises(error):
        compare(books, body)
    assert books.found.list_runs() == []
    assert not DeltaTable.is_deltatable(str(tmp_path / "lake" / "reconciliation"))


@pytest.mark.more(reason="Spark compares more than once; what is kept of a run is no money")
def test_without_a_journal_or_a_period_there_is_nothing_to_compare(compare: Compare, tmp_path: Path) -> None:
    nowhere = Books([(tmp_path / "no", tmp_path / "none")], Reconciliations(tmp_path / "a", tmp_path / "b"))
    with pytest.raises(ReconcileImpossible, match="no journal"):
        compare(nowhere, stripe_csv(stripe_line(fact("ch_1"))))
    books = books_of(tmp_path, rows_of(fact("ch_1")))
    with pytest.raises(ReconcileImpossible, match="give --from and --to"):
        compare(books, stripe_csv())
    period = Period(AT - timedelta(days=1), AT + timedelta(days=1))
    assert compare(books, stripe_csv(), period=period).kinds() == {("missing_there", "stripe:ch_1:capture")}
