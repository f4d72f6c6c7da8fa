"""What providers' lists have and the journal lacks: asked over HTTP, of each provider's own paging."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from core.event import from_record
from ingest.catch_up import HELD_S_MAX, CaughtUpSpan, ListingSource, ListUnavailable, ProviderCatchUp, split_into_spans
from ingest.endpoints import EndpointContexts, SecretFiles
from ingest.event_reader import EventReader
from ingest.fetch import HttpFetch
from ingest.limits import LIMITS, RateLimits
from ingest.pan import CardMasker
from ingest.protocol import ClaimProtocol
from ingest.provider_client import CredentialsRefused, open_client
from ingest.reports import RequestReports
from ingest.verifier import Verifier
from load.samples.gocardless import GoCardlessEvent, batch
from load.samples.paddle import transaction_event
from load.samples.paypal import capture_event
from load.samples.square import payment_event
from load.samples.stripe import stripe_event
from providers.fields import array_items
from providers.port import ListingAdapter, Span
from tests.provider_lists import ListedEvent, Lists, serve_lists
from tests.unit.ingest.app_under_test import MASKING_KEY, NOW, Bench
from tests.unit.ingest.provider_server import passing
from tests.virtual_time import LoopClock

CREDENTIALS = {
    "stripe": "sk_live_" + "A1b2C3d4E5" * 2,
    "gocardless": "live_" + "A1b2C3d4E5" * 4,
    "paddle": "pdl_live_apikey_" + "a1b2c3d4e5" * 3,
    "square": "EAAA" + "A1b2C3d4E5" * 3,
    "paypal": f"{'A1b2C3d4E5' * 2}:{'E5d4C3b2A1' * 2}",
}
HOUR = Span(NOW - timedelta(hours=1), NOW)


def stripe(number: int, created: datetime, event_type: str = "charge.succeeded", amount: int = 500) -> bytes:
    about = {"payment": f"pi_{number}", "account": "acct_1", "amount_minor": amount, "currency": "EUR"}
    return stripe_event(f"evt_{number}", event_type, created=created, **about)  # type: ignore[arg-type]


def gocardless(number: int, created: datetime) -> bytes:
    event = GoCardlessEvent(f"EV{number}", "payments", "confirmed", {"payment": f"PM{number}"}, created)
    return next(array_items(batch([event]), "events"))


def paddle(number: int, created: datetime) -> bytes:
    return transaction_event(
        "transaction.completed",
        event_id=f"evt_{number}",
        transaction=f"txn_{number}",
        amount_minor=500,
        currency="EUR",
        occurred_at=created,
    )


def square(number: int, created: datetime) -> bytes:
    return payment_event(
        "payment.updated",
        event_id=f"evt-{number}",
        payment=f"pay{number}",
        account="ML1",
        amount_minor=500,
        currency="EUR",
        created=created,
    )


def paypal(number: int, created: datetime) -> bytes:
    return capture_event(
        "PAYMENT.CAPTURE.COMPLETED",
        event_id=f"WH-{number}",
        capture=f"CAP{number}",
        order=f"ORD{number}",
        merchant="M1",
        value="5.00",
        currency="EUR",
        created=created,
    )


EVENTS: dict[str, Callable[[int, datetime], bytes]] = {
    "stripe": stripe,
    "gocardless": gocardless,
    "paddle": paddle,
    "square": square,
    "paypal": paypal,
}
IDS = {"stripe": "evt_{}", "gocardless": "EV{}", "paddle": "evt_{}", "square": "evt-{}", "paypal": "WH-{}"}


class Catching(Bench):
    """A receiver's parts, without its listener, beside providers' lists."""

    def __init__(self, folder: Path, lists: Lists) -> None:
        super().__init__(folder)
        self.lists = lists
        self.known: set[str] = set()
        self.slept_s: list[float] = []
        for provider, credential in CREDENTIALS.items():
            (folder / f"{provider}-api").write_text(f"{credential}\n", "utf-8")

    def listed(self, provider: str, *numbers: int, age_s: float = 1_800.0) -> None:
        """Adds events that a second lies between; the first came to be so long ago."""
        for place, number in enumerate(numbers):
            created = NOW - timedelta(seconds=age_s - place)
            body = EVENTS[provider](number, created)
            self.lists.add(provider, ListedEvent(IDS[provider].format(number), created, body))
            payment = {"id": f"PM{number}", "amount": 500, "currency": "EUR"}
            self.lists.resources[f"/payments/PM{number}"] = json.dumps({"payments": payment})

    def catch_up(self, provider: str, span: Span = HOUR) -> CaughtUpSpan:
        return asyncio.run(self._catch_up(provider, span))

    @property
    def published(self) -> list[str]:
        return [from_record(body, _raw(headers)).event.event_id for _, body, headers in self.publisher.records]

    async def _catch_up(self, provider: str, span: Span) -> CaughtUpSpan:
        adapter, contexts = self.adapters[provider], EndpointContexts(self.settings)
        assert isinstance(adapter, ListingAdapter)
        secrets = SecretFiles(self._folder, self.clock, contexts)
        protocol = ClaimProtocol(self.claims, self.generations, self.publisher, self.metrics, LoopClock(), 0.2)
        async with open_client() as client:
            asleep = passing(self.clock)

            async def sleep(seconds: float) -> None:
                self.slept_s.append(seconds)
                await asleep(seconds)

            fetch = HttpFetch(client, self.clock, loopback=True, instead=self.lists.api_urls, sleep=asleep)
            rates = RateLimits({}, self.clock)
            verifier = Verifier(self.adapters, secrets, fetch, protocol, rates, self.metrics)
            reader = EventReader(verifier, contexts, CardMasker(self.settings.pan, MASKING_KEY))
            reports = RequestReports(self.publisher, self.metrics, self.clock, "live")
            engine = ProviderCatchUp(
                fetch, reader, protocol.take_events, reports, lambda *_: self.known, self.clock, sleep
            )
            source = ListingSource(
                adapter, None, contexts.find_context(provider, None), secrets.find_credentials(provider, None)
            )
            try:
                return await engine.catch_up(source, span)
            finally:
                await fetch.close()


def _raw(headers: dict[str, str]) -> list[tuple[str, bytes | None]]:
    return [(name, text.encode()) for name, text in headers.items()]


@pytest.fixture
def catching(tmp_path: Path) -> Iterator[Catching]:
    with serve_lists(Lists()) as lists:
        yield Catching(tmp_path, lists)


@pytest.mark.row("G4")
@pytest.mark.parametrize("provider", EVENTS)
def test_what_the_journal_lacks_comes_in_once_and_in_order(catching: Catching, provider: str) -> None:
    catching.lists.page_max = 3
    catching.listed(provider, *range(1, 9))
    first = catching.catch_up(provider)
    ids = [event.event_id for event in first.fetched]
    assert ids == [IDS[provider].format(number) for number in range(1, 9)]
    assert sorted(catching.published) == sorted(ids)
    assert (first.listed, first.known, first.passed_over) == (8, 0, 0)
    again = catching.catch_up(provider)
    assert (again.listed, again.known, again.fetched) == (8, 8, ())
    assert len(catching.published) == 8


@pytest.mark.parametrize("provider", EVENTS)
def test_what_the_journal_knows_is_left_alone(catching: Catching, provider: str) -> None:
    catching.listed(provider, 1, 2, 3)
    whole = catching.catch_up(provider)
    catching.publisher.records.clear()
    catching.claims = type(catching.claims)(catching.clock, 30.0, 1e6)
    catching.known = {event.event_key for event in whole.fetched[:2]}
    found = catching.catch_up(provider)
    assert (found.known, [event.event_id for event in found.fetched]) == (2, [IDS[provider].format(3)])


def test_it_is_marked_as_caught_up_and_its_webhook_is_a_duplicate(catching: Catching) -> None:
    catching.listed("stripe", 1)
    catching.catch_up("stripe")
    [(_, body, headers)] = catching.publisher.records
    assert headers["source"] == "catch-up"
    assert from_record(body, _raw(headers)).event.source == "catch-up"
    answer = asyncio.run(catching.post(*catching.signed("stripe", catching.lists.events["stripe"][0].body)))
    assert (answer.status_code, answer.headers["idempotent-replayed"]) == (200, "true")
    assert len(catching.publisher.records) == 1


def test_what_moves_no_money_is_passed_over(catching: Catching) -> None:
    created = NOW - timedelta(minutes=5)
    for number, event_type in enumerate(["customer.created", "charge.succeeded", "made_up.funds_moved"]):
        catching.lists.add("stripe", ListedEvent(f"evt_{number}", created, stripe(number, created, event_type)))
    found = catching.catch_up("stripe")
    assert found.passed_over == 1
    assert {event.event_type for event in found.fetched} == {"charge.succeeded", "made_up.funds_moved"}


def test_of_one_payment_the_older_event_comes_first_whatever_the_list_says(catching: Catching) -> None:
    created = NOW - timedelta(minutes=5)
    for number, event_type in enumerate(["charge.succeeded", "charge.refunded"]):
        body = stripe_event(
            f"evt_{number}",
            event_type,
            payment="pi_1",
            account="acct_1",
            amount_minor=500,
            currency="EUR",
            created=created,
        )
        catching.lists.add("stripe", ListedEvent(f"evt_{number}", created, body))
    fetched = catching.catch_up("stripe").fetched
    assert [event.event_type for event in fetched] == ["charge.succeeded", "charge.refunded"]


def test_what_an_event_points_to_is_asked_for_only_where_it_is_missing(catching: Catching) -> None:
    catching.listed("gocardless", 1, 2)
    [first, _] = catching.catch_up("gocardless").fetched
    assert b'"fetched"' in first.body
    catching.known = {event.event_key for event in catching.catch_up("gocardless").fetched} | {first.event_key}
    catching.lists.asked.clear()
    catching.catch_up("gocardless")
    assert "/payments/PM1" not in catching.lists.asked


def test_a_busy_host_is_asked_again_after_what_it_asks_for(catching: Catching) -> None:
    catching.listed("stripe", 1, 2)
    catching.lists.statuses, catching.lists.retry_after_s = [429, 503], 7
    assert len(catching.catch_up("stripe").fetched) == 2
    assert catching.slept_s[0] == 7.0


@pytest.mark.parametrize("status", [404, 500, 429])
def test_a_list_that_cannot_be_read_is_said_and_nothing_of_it_is_taken(catching: Catching, status: int) -> None:
    catching.listed("stripe", *range(1, 9))
    catching.lists.page_max, catching.lists.statuses = 3, [200, *[status] * 50]
    with pytest.raises(ListUnavailable):
        catching.catch_up("stripe")
    assert catching.published == []


def test_credentials_that_are_refused_are_named(catching: Catching) -> None:
    catching.lists.refuses = True
    with pytest.raises(CredentialsRefused):
        catching.catch_up("stripe")


def test_no_key_of_the_mode_is_said(catching: Catching, tmp_path: Path) -> None:
    (tmp_path / "stripe-api").write_text("sk_test_" + "A1b2C3d4E5" * 2 + "\n", "utf-8")
    with pytest.raises(ListUnavailable, match="no credential has the mode live"):
        catching.catch_up("stripe")


def test_what_kafka_does_not_take_is_not_called_caught_up(catching: Catching) -> None:
    catching.listed("stripe", 1, 2)
    entity = catching.catch_up("stripe").fetched[1].entity_key
    catching.claims = type(catching.claims)(catching.clock, 30.0, 1e6)
    catching.publisher.fails.add(entity.encode())
    with pytest.raises(ListUnavailable, match="acknowledge") as failed:
        catching.catch_up("stripe")
    assert failed.value.missing == 1


def test_what_a_killed_catch_up_still_holds_is_waited_for(catching: Catching, monkeypatch: pytest.MonkeyPatch) -> None:
    catching.listed("stripe", 1, 2)
    with monkeypatch.context() as killed:
        killed.setattr(catching.claims, "settle", lambda *_: None)
        catching.catch_up("stripe")
    assert [event.event_id for event in catching.catch_up("stripe").fetched] == ["evt_1", "evt_2"]
    assert LIMITS.lease_s <= sum(catching.slept_s) <= HELD_S_MAX


def test_what_is_held_for_good_is_said(catching: Catching, monkeypatch: pytest.MonkeyPatch) -> None:
    catching.listed("stripe", 1)
    catching.claims = type(catching.claims)(catching.clock, 1e6, 1e6)
    monkeypatch.setattr(catching.claims, "settle", lambda *_: None)
    catching.catch_up("stripe")
    with pytest.raises(ListUnavailable, match="another request holds an event"):
        catching.catch_up("stripe")


def test_a_list_that_does_not_move_on_ends(catching: Catching) -> None:
    catching.listed("paypal", 1, 2, 3)
    catching.lists.page_max = 0
    with pytest.raises(ListUnavailable):
        catching.catch_up("paypal")


def test_events_of_before_and_after_the_span_are_left_to_theirs(catching: Catching) -> None:
    catching.listed("paddle", 1, age_s=7_200.0)
    catching.listed("paddle", 2, age_s=1_800.0)
    found = catching.catch_up("paddle")
    assert (found.listed, [event.event_id for event in found.fetched]) == (1, ["evt_2"])


def test_spans_follow_on_each_other() -> None:
    since = NOW - timedelta(hours=2, minutes=30)
    found = list(split_into_spans(since, NOW))
    assert [span.until - span.since for span in found] == [timedelta(hours=1)] * 2 + [timedelta(minutes=30)]
    assert (found[0].since, found[-1].until) == (since, NOW)
    assert all(before.until == after.since for before, after in itertools.pairwise(found))
