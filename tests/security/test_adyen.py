"""Adyen signs eight fields of an item: what somebody can book who holds one delivery and changes the others."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable

from core.event import Event
from core.money import MoneyFact, MoneyInvalid, Movement, MovementUnknown
from providers import Adapter, ProvidersSettings, Request, build_adapters
from providers.adyen_money import MOVEMENTS
from providers.settings import AdyenSettings
from tests.dead_letters import DeadLetters
from tests.unit.ingest.app_under_test import NOW, Bench
from tests.unit.processor.harness import EVENTS
from tests.unit.providers.samples.adyen import CHARGED_BACK, KEY, LOST, REVERSED, body, disputed, item, signed
from tests.unit.providers.samples.table import holdings

STATUSES = [None, "Undefended", "Pending", "Lost", "Accepted", "Won"]
ACTIONS = [None, "cancel", "refund"]
REASONS = ["", "Transaction Recaptured"]
METHODS = ["visa", "klarna", "paypal"]
CODES = [*MOVEMENTS, "AUTHORISATION", "CANCELLATION", "CANCEL_OR_REFUND", "EXPIRE", "NOTIFICATION_OF_CHARGEBACK"]
CHARGEBACK_AT_ONCE, NEVER_DEFENDED = disputed("CHARGEBACK"), disputed("DISPUTE_DEFENSE_PERIOD_ENDED")
OPENED = "adyen:PSP1:CHARGEBACK:true"
GUIDE = Path(__file__).parents[2] / "docs" / "security.md"


@pytest.fixture
def adapter() -> Adapter:
    """Of an account that captures one method at once and others by hand."""
    capture = {"Main": "manual", "Main/klarna": "immediate"}
    return build_adapters(ProvidersSettings(adyen=AdyenSettings.model_validate({"capture": capture})))["adyen"]


def copies(code: str) -> Iterator[dict[str, Any]]:
    """Everything that one signature of an item covers, as far as a booking could rest on it."""
    for status, action, reason, method in itertools.product(STATUSES, ACTIONS, REASONS, METHODS):
        sent = {"disputeStatus": status, "modification.action": action}
        extra = {name: value for name, value in sent.items() if value is not None}
        yield signed(item(eventCode=code, reason=reason, paymentMethod=method, additionalData=extra))


def read(adapter: Adapter, one: dict[str, Any]) -> list[Event]:
    request = Request(body(one), [])
    assert adapter.verify(request, [KEY], NOW) == 0, "Adyen's signature covers it"
    return adapter.events(request, "live")


def fact_of(adapter: Adapter, event: Event) -> MoneyFact | None:
    try:
        return adapter.money(event.body, event.event_type)
    except (MoneyInvalid, MovementUnknown):
        return None


@pytest.mark.parametrize("code", CODES)
def test_after_a_delivery_its_altered_copies_book_the_loss_of_a_chargeback_at_most(adapter: Adapter, code: str) -> None:
    """Whatever was delivered first: a copy is a duplicate, a conflict, or books what the signed fields say."""
    altered = [read(adapter, one) for one in copies(code)]
    booked: set[tuple[str, MoneyFact]] = set()
    for first in altered:
        known = {event.event_key for event in first}
        fresh = [event for events in altered for event in events if event.event_key not in known]
        booked |= {(event.event_type, fact) for event in fresh if (fact := fact_of(adapter, event)) is not None}
    if code != "CHARGEBACK":
        assert not booked
        return
    [(event_type, fact)] = booked
    assert (event_type, fact.movement, fact.fact_key) == (
        "CHARGEBACK.lost",
        Movement.DISPUTE_LOST,
        "adyen:PSP1:dispute_lost",
    )
    assert (fact.money.amount_minor, fact.money.currency, fact.account, fact.payment) == (
        1000,
        "EUR",
        "Main",
        "ORIGINAL1",
    )


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ([], LOST),
        ([NEVER_DEFENDED], LOST),
        ([REVERSED], {"disputes": -10_000, "dispute_losses": 10_000}),
    ],
    ids=["while it is open", "lost in truth", "won in truth"],
)
def test_a_loss_that_is_made_up_stands_in_the_disputes_account_once_the_dispute_is_won(
    adapter: Adapter, then: list[bytes], expected: dict[str, int]
) -> None:
    """No second loss is booked when it is lost in truth; won, more of the dispute ended than began."""
    bodies = [CHARGED_BACK, CHARGEBACK_AT_ONCE, *then]
    events = [event for one in bodies for event in adapter.events(Request(one, []), "live")]
    facts = [adapter.money(event.body, event.event_type) for event in events]
    assert holdings([fact for fact in facts if fact is not None]) == expected


def losses_told_later(letters: DeadLetters) -> list[tuple[Any, ...]]:
    """The guide's query, asked of the journal."""
    [query] = re.findall(r"```sql\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    journal = DeltaTable(str(letters.layout.journal)).to_pyarrow_dataset()
    return duckdb.connect().register("journal", journal).execute(query).fetchall()


@pytest.mark.parametrize("statuses", [["Lost"], ["Undefended"], ["Undefended", "Lost"]], ids=" then ".join)
def test_an_auditor_finds_a_loss_that_another_body_told_than_its_chargeback(
    tmp_path: Path, statuses: list[str]
) -> None:
    (tmp_path / "receiver").mkdir()
    bench, letters = Bench(tmp_path / "receiver"), DeadLetters(tmp_path / "data")
    reported = item(eventCode="CHARGEBACK", amount={"value": 10_000, "currency": "EUR"})
    for status in statuses:
        copy, headers = bench.signed("adyen", body({**reported, "additionalData": {"disputeStatus": status}}))
        assert asyncio.run(bench.post(copy, headers, "/webhooks/adyen")).status_code == 200
    for event_key in (OPENED, f"{OPENED}:lost"):
        letters.books(event_key, 10_000, "EUR")
    for key, value, headers in bench.publisher.records:
        letters.send(EVENTS, value, [(name, text.encode()) for name, text in headers.items()], key)
    letters.batch()
    assert letters.decisions(f"{OPENED}:lost") == ["applied"] * ("Lost" in statuses)
    found = losses_told_later(letters)
    assert [row[0] for row in found] == [f"{OPENED}:lost"] * (len(statuses) - 1)
    for _, _, told_by, opened_by in found:
        said = [
            json.loads(letters.bodies.by_hash[sha256])["NotificationRequestItem"] for sha256 in (told_by, opened_by)
        ]
        assert [one["additionalData"]["disputeStatus"] for one in said] == ["Lost", "Undefended"]
