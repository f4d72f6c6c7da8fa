"""The handler: what it books, what it leaves alone, and what it refuses."""

from __future__ import annotations

import logging
import pickle
import re
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from core.decision import ErrorKind
from core.errors import SettingError, Unparseable
from core.money import Money, MoneyFact, Movement, MovementUnknown
from core.work import Applied, Held, Ignored, Unknown, WorkItem
from ledger import handler
from ledger import handler as handler_module
from ledger.directory import Merchant, MerchantUnknown
from ledger.handler import FactMismatch, LedgerHandler, handler_version
from ledger.queries.unknown import UnknownEvents
from ledger.settings import LedgerSettings
from processor.errors.classify import Classifier, Failure
from processor.workers.deadlines import Deadlines
from processor.workers.worker import Task
from providers.reconciled import Origin, build_reconciled_event
from providers.settings import MoneyRule, ProvidersSettings, StandardWebhooksSettings
from tests.unit.processor.fakes import run_groups

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
CAPTURE = MoneyFact("fake:ch_1:capture", Movement.CAPTURE, "acct_1", "pi_1", Money(1_000, "EUR"))


class FakeAdapter:
    """Answers with one fact, or raises."""

    def __init__(self, answer: MoneyFact | Exception | None) -> None:
        self._answer = answer

    def money(self, body: bytes, event_type: str) -> MoneyFact | None:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class FakeDirectory:
    """Knows ``acct_1``."""

    def lookup(self, provider: str, account: str, tenant: str | None = None) -> Merchant:
        if account != "acct_1":
            raise MerchantUnknown(provider, account)
        return Merchant("m-1")


def item(fact_key: str | None = "fake:ch_1:capture", provider: str = "fake", fact: MoneyFact = CAPTURE) -> WorkItem:
    event_key, entity_key = "fake:evt_1:charge", "fake:acct_1:pi_1"
    named = WorkItem(1, event_key, entity_key, provider, "acct_1", "charge", b"{}", fact_key, 0)
    return replace(named, fact_sha256=fact.sha256)


def handle(answer: MoneyFact | Exception | None, work: WorkItem) -> Applied | Ignored | Unknown:
    outcome = LedgerHandler({"fake": FakeAdapter(answer)}, FakeDirectory())(work)
    assert not isinstance(outcome, Held)
    return outcome


@pytest.mark.row("A15")
def test_a_money_fact_is_booked_on_the_merchant_of_its_account() -> None:
    outcome = handle(CAPTURE, item())
    assert isinstance(outcome, Applied)
    assert [(line.account, line.side) for line in outcome.postings] == [
        ("provider:fake/acct_1:clearing", "debit"),
        ("merchant:m-1:payable", "credit"),
    ]


def test_an_event_without_money_is_ignored() -> None:
    assert isinstance(handle(None, item(fact_key=None)), Ignored)


@pytest.mark.row("G1")
@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (MovementUnknown("type", "charge"), "type"),
        (MovementUnknown("status", "frozen"), "status='frozen'"),
    ],
)
def test_an_event_of_which_no_table_says_what_it_means_is_unknown(problem: MovementUnknown, code: str) -> None:
    assert handle(problem, item(fact_key=None)) == Unknown(code, str(problem))


def test_an_unknown_event_that_was_named_with_a_fact_dies() -> None:
    with pytest.raises(FactMismatch):
        handle(MovementUnknown("type", "charge"), item())


def test_an_event_of_a_provider_without_an_adapter_is_unknown_whether_it_names_money_or_not() -> None:
    """Its adapter would say whether money moved: nobody does."""
    for fact_key in ("other:ch_1:capture", None):
        answer = handle(CAPTURE, item(fact_key, provider="other"))
        assert isinstance(answer, Unknown)
        assert (answer.code, answer.reason) == ("adapter", "no adapter of other is installed here")
    advice = UnknownEvents("other", "charge", "adapter", 1, AT, AT, "k", "").advice
    assert advice.startswith("install the provider's package where the processor runs, then replay")
    told = (Path(__file__).parents[3] / "docs" / "adding-a-provider.md").read_text("utf-8")
    assert "Without it they are unknown" in told


@pytest.mark.parametrize(
    ("answer", "named"), [(CAPTURE, None), (CAPTURE, "fake:ch_2:capture"), (None, "fake:ch_1:capture")]
)
def test_a_fact_that_was_never_looked_up_is_not_booked(answer: MoneyFact | None, named: str | None) -> None:
    """Deduplication looked up the receiver's fact key; booking another one could book it twice."""
    with pytest.raises(FactMismatch) as raised:
        handle(answer, item(fact_key=named))
    assert raised.value.kind is ErrorKind.NRE


def test_a_fact_that_was_named_with_another_amount_is_not_booked() -> None:
    """The receiver read 10.00, the processor reads 10.01: deduplication compared the receiver's."""
    other = replace(CAPTURE, money=Money(1_001, "EUR"))
    with pytest.raises(FactMismatch, match="another amount, currency or account"):
        handle(other, item())


PAID = MoneyFact(
    "fake:po_1:payout_paid", Movement.PAYOUT_PAID, "acct_1", None, Money(5, "EUR"), "fake:po_1:payout_paid"
)
UNDONE = replace(PAID, fact_key="fake:po_1:undone", movement=Movement.PAYOUT_FAILED)


@pytest.mark.parametrize(("fact", "undoes"), [(PAID, False), (UNDONE, True)])
def test_a_fact_and_its_undo_answer_with_one_pair(fact: MoneyFact, undoes: bool) -> None:
    outcome = handle(fact, item(fact.fact_key, fact=fact))
    assert isinstance(outcome, Applied)
    assert (outcome.pair, outcome.undoes) == ("fake:po_1:payout_paid:5:EUR", undoes)


def test_a_tenants_fact_is_booked_under_the_tenants_key_on_the_tenants_merchant() -> None:
    class TenantDirectory:
        def lookup(self, provider: str, account: str, tenant: str | None = None) -> Merchant:
            return Merchant(f"m-of-{tenant}")

    handler = LedgerHandler({"fake": FakeAdapter(CAPTURE)}, TenantDirectory())
    outcome = handler(replace(item(fact_key="shop-a~fake:ch_1:capture"), tenant="shop-a"))
    assert isinstance(outcome, Applied)
    assert [line.account for line in outcome.postings] == [
        "provider:shop-a~fake/acct_1:clearing",
        "merchant:m-of-shop-a:payable",
    ]


@pytest.mark.parametrize(("named", "tenant"), [("fake:ch_1:capture", "shop-a"), ("shop-a~fake:ch_1:capture", None)])
def test_a_fact_that_was_looked_up_for_another_tenant_is_not_booked(named: str, tenant: str | None) -> None:
    with pytest.raises(FactMismatch):
        handle(CAPTURE, replace(item(fact_key=named), tenant=tenant))


def test_an_unknown_merchant_and_an_unreadable_body_are_raised_for_the_classifier() -> None:
    stranger = MoneyFact(CAPTURE.fact_key, Movement.CAPTURE, "acct_2", "pi_1", CAPTURE.money)
    with pytest.raises(MerchantUnknown):
        handle(stranger, item(fact=stranger))
    with pytest.raises(Unparseable):
        handle(Unparseable("no amount"), item())


def test_the_handler_is_built_on_the_worker_from_settings(tmp_path: Path) -> None:
    settings = LedgerSettings(merchants_file=str(tmp_path / "merchants.toml"))
    build = pickle.loads(pickle.dumps(partial(handler.build, settings, ProvidersSettings())))
    assert build().version == handler_version(ProvidersSettings())


def test_the_version_is_the_same_for_the_same_code_and_changes_with_what_is_known() -> None:
    plain = handler_version(ProvidersSettings())
    rule = MoneyRule(event_type="payment.captured", movement=Movement.CAPTURE, id="/data/id")
    knows = ProvidersSettings(standardwebhooks=StandardWebhooksSettings(money=(rule,)))
    assert plain == handler_version(ProvidersSettings())
    assert re.fullmatch(r"ledger-3\.[0-9a-f]{8}", plain)
    assert handler_version(knows) != plain


def test_the_version_changes_with_the_adapters_code(monkeypatch: pytest.MonkeyPatch) -> None:
    before = handler_version(ProvidersSettings())
    sources = handler_module._read_sources()
    monkeypatch.setattr(handler_module, "_read_sources", lambda: [*sources, ("new.py", b"KNOWN = True")])
    assert handler_version(ProvidersSettings()) != before


def test_no_directory_is_refused_at_start() -> None:
    with pytest.raises(SettingError, match="ledger.merchants_file"):
        handler.build(LedgerSettings(), ProvidersSettings())


@pytest.mark.parametrize("provider", ["fake", "stripe", "adyen"])
def test_an_event_of_payhooks_own_making_is_booked_whoever_the_provider_is(provider: str) -> None:
    found = replace(CAPTURE, fact_key=f"{provider}:ch_1:capture")
    origin = Origin("run", "report.csv", "00" * 32, 2, "ada", "lost")
    event = build_reconciled_event(
        provider, found, f"{provider}:acct_1:pi_1", datetime(2026, 1, 31, tzinfo=UTC), origin, "live"
    )
    work = replace(item(event.fact_key, provider, found), event_type=event.event_type, body=event.body)
    adapters = {provider: FakeAdapter(AssertionError("it isn't the adapter's"))}
    outcome = LedgerHandler(adapters, FakeDirectory())(work)
    assert isinstance(outcome, Applied)
    assert [line.account for line in outcome.postings] == [
        f"provider:{provider}/acct_1:clearing",
        "merchant:m-1:payable",
    ]


def test_an_event_of_payhooks_own_making_must_be_of_the_fact_that_was_looked_up() -> None:
    origin = Origin("run", "report.csv", "00" * 32, 2, "ada", "lost")
    event = build_reconciled_event(
        "fake", CAPTURE, "fake:acct_1:pi_1", datetime(2026, 1, 31, tzinfo=UTC), origin, "live"
    )
    with pytest.raises(FactMismatch):
        handle(None, replace(item("fake:other:capture"), event_type=event.event_type, body=event.body))


def test_it_logs_what_it_looks_up_and_decides(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ledger.handler")
    handle(CAPTURE, item())
    assert caplog.messages == [
        "charge of fake reports a capture of 1000 EUR (minor units) as fake:ch_1:capture",
        "looks up whose account acct_1 at fake is (tenant: none)",
        "it is m-1; books capture between it and fake/acct_1",
    ]
    caplog.clear()
    handle(None, item(fact_key=None))
    handle(MovementUnknown("status", "frozen"), item(fact_key=None))
    assert caplog.messages == [
        "charge of fake reports no movement of money",
        "charge of fake is unknown: status='frozen'",
    ]


def test_what_it_looked_up_is_kept_with_an_event_that_fails() -> None:
    """As the executors run it: where nobody configured a log."""
    other = replace(CAPTURE, account="acct_2")
    ledger = LedgerHandler({"fake": FakeAdapter(other)}, FakeDirectory())
    task = Task("ledger", lambda: ledger, Classifier(), Deadlines(60.0, 100.0), 1, stop_on_dead=True)
    [(_, failure)] = run_groups(task, ledger, [[replace(item(), fact_sha256=other.sha256)]])
    assert isinstance(failure, Failure) and failure.error_class == "MerchantUnknown"
    assert (failure.log_lines or "").splitlines()[-1] == (
        "INFO ledger.handler: looks up whose account acct_2 at fake is (tenant: none)"
    )
