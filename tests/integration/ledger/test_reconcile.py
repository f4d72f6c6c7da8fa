"""A report made of the booked facts reconciles clean, and each planted difference is found with exactly its kind."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
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
from ledger.reconcile import Books, Period, ReconcileImpossible, ReportRequest, reconcile
from ledger.reconciliations import KINDS, Difference, Kind, Reconciliation, Reconciliations
from providers.settings import ProvidersSettings
from providers.settlement import ReportUnreadable, RowUnreadable, build_report
from tests.examples import examples
from tests.integration.ledger.conftest import AT, CONTROL, EVENTS, STARTS, new_row
from tests.settlement_reports import STRIPE_CATEGORIES, adyen_csv, adyen_line, stripe_csv, stripe_line

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


class Compared:
    """A run, and what it found."""

    def __init__(self, run: Reconciliation, books: Books) -> None:
        self.run = run
        self.found = list(books.found.read_differences(run.run_id))

    def kinds(self) -> set[tuple[Kind, str]]:
        return {(one.kind, one.fact_key) for one in self.found}

    def one(self, fact_key: str) -> Difference:
        [found] = [one for one in self.found if one.fact_key == fact_key]
        return found


Compare = Callable[..., Compared]


@pytest.fixture
def compare(spark: SparkSession, tmp_path: Path) -> Compare:
    return comparing(spark, tmp_path)


def comparing(spark: SparkSession, folder: Path) -> Compare:
    def compare(books: Books, body: bytes, provider: str = "stripe", account: str = "", **more: Any) -> Compared:
        report = folder / "report.csv"
        report.write_bytes(body)
        reader = build_report(provider, ProvidersSettings(), account)
        wanted = ReportRequest(report, reader, account, **more)
        return Compared(reconcile(spark, books, wanted, folder, ManualClock(NOW)), books)

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


def test_a_booking_that_another_shard_took_back_is_no_more_in_either(compare: Compare, tmp_path: Path) -> None:
    first, moved = fact("ch_0"), fact("ch_1")
    books = divided(books_of(tmp_path, rows_of(first, moved)), [fact("ch_2")], taken_back=[moved])
    compared = compare(books, stripe_csv(*[stripe_line(one) for one in (first, moved, fact("ch_2"))]))
    assert compared.kinds() == {("amount_differs", moved.fact_key)}
    assert compared.one(moved.fact_key).booked_minor == 0


EVERY = [fact(f"x_{movement.value}", movement) for movement in STRIPE_CATEGORIES]


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


def test_a_tenants_report_is_compared_with_the_tenants_facts(compare: Compare, tmp_path: Path) -> None:
    own = {"fact_key": "shop-a~stripe:ch_1:capture", "entity_key": "shop-a~stripe::pi_1", "tenant": "shop-a"}
    unseen = {"fact_key": "shop-a~stripe:ch_2:capture", "entity_key": "shop-a~stripe::pi_2", "tenant": "shop-a"}
    books = books_of(tmp_path, [booked(1, fact("ch_1"), **own), booked(2, fact("ch_2"), **unseen)])
    report = stripe_csv(stripe_line(fact("ch_1")))
    assert compare(books, report, tenant="shop-a").kinds() == {("missing_there", "shop-a~stripe:ch_2:capture")}
    assert compare(books, report).kinds() == {("missing_here", "stripe:ch_1:capture")}


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


def test_payouts_are_missed_only_in_a_report_that_tells_of_payouts(compare: Compare, tmp_path: Path) -> None:
    paid, other = fact("po_1", Movement.PAYOUT_PAID), fact("po_2", Movement.PAYOUT_PAID)
    books = books_of(tmp_path, rows_of(EVERY[0], paid, other))
    without = compare(books, stripe_csv(stripe_line(EVERY[0])))
    assert without.found == []
    assert without.run.not_compared == {"booked payouts, of which this report doesn't tell": 2}
    one_of_them = compare(books, stripe_csv(stripe_line(EVERY[0]), stripe_line(paid)))
    assert one_of_them.kinds() == {("missing_there", other.fact_key)}


def test_a_payout_of_which_only_the_failure_was_told_names_its_pair(compare: Compare, tmp_path: Path) -> None:
    """Its event is made with it, and books nothing."""
    paid, failed = fact("po_1", Movement.PAYOUT_PAID), fact("po_1", Movement.PAYOUT_FAILED)
    books = books_of(tmp_path, [booked(1, fact("ch_1")), booked(2, failed, postings=None)])
    missing = compare(books, stripe_csv(*map(stripe_line, [fact("ch_1"), paid, failed]))).one(paid.fact_key)
    assert (missing.kind, missing.absent, missing.pair) == ("missing_here", True, paid.fact_key)


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


def test_without_a_journal_or_a_period_there_is_nothing_to_compare(compare: Compare, tmp_path: Path) -> None:
    nowhere = Books([(tmp_path / "no", tmp_path / "none")], Reconciliations(tmp_path / "a", tmp_path / "b"))
    with pytest.raises(ReconcileImpossible, match="no journal"):
        compare(nowhere, stripe_csv(stripe_line(fact("ch_1"))))
    books = books_of(tmp_path, rows_of(fact("ch_1")))
    with pytest.raises(ReconcileImpossible, match="give --from and --to"):
        compare(books, stripe_csv())
    period = Period(AT - timedelta(days=1), AT + timedelta(days=1))
    assert compare(books, stripe_csv(), period=period).kinds() == {("missing_there", "stripe:ch_1:capture")}


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
