"""Webhooks that only point to what happened, from the request to what is published: the provider's API is a stub."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from core.clock import ManualClock, to_rfc3339
from core.errors import SettingError
from core.event import Mode
from ingest import verifier
from ingest.endpoints import EndpointContexts, SecretFiles
from ingest.fetch import HttpFetch
from ingest.provider_client import open_client
from load.samples import mollie
from load.samples.gocardless import GoCardlessEvent, batch
from providers.gocardless import GoCardlessAdapter
from providers.mollie import MollieAdapter
from providers.mollieclassic import MollieClassicAdapter
from providers.port import FORM
from providers.reread import reread_events
from providers.settings import ProvidersSettings
from providers.stripe import StripeAdapter
from tests.unit.ingest.app_under_test import NOW, Bench
from tests.unit.ingest.provider_server import ProviderServer, passing

TOKEN = "access_" + "A1b2C3d4E5" * 3


class Pointed(Bench):
    """A receiver that asks the stub by HTTP."""

    def __init__(self, folder: Path, provider: ProviderServer, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.provider = provider
        self.kept: Any = None
        self.shares_fetch = False
        provider.counting = False
        self.adapters["mollieclassic"] = MollieClassicAdapter(ProvidersSettings(), provider.base)

    async def post(self, body: bytes, headers: dict[str, str], path: str = "/webhooks/stripe") -> httpx2.Response:
        async with open_client() as client:
            fetch = HttpFetch(client, self.clock, loopback=True, sleep=passing(self.clock))
            fetch._absences = self.absences = getattr(self, "absences", fetch._absences)
            if self.shares_fetch:
                fetch._kept = self.kept = self.kept or fetch._kept
            self.fetch = fetch  # type: ignore[assignment]
            answer = await super().post(body, headers, path)
            await fetch.close()
            return answer

    def send(self, body: bytes, headers: dict[str, str], path: str) -> tuple[int, str, str | None]:
        """Status, error code and Retry-After."""
        answer = asyncio.run(self.post(body, headers, path))
        code = "" if answer.is_success else answer.json()["error"]["code"]
        return answer.status_code, code, answer.headers.get("retry-after")


GOCARDLESS_TOKEN = "live_" + "A1b2C3d4E5" * 4
MOLLIE_KEY = "live_" + "A1b2C3d4E5" * 3
STRIPE_KEY = "sk_live_" + "A1b2C3d4E5" * 2
CHARGE = {"id": "ch_1", "amount": 500, "amount_captured": 500, "captured": True, "currency": "eur"}


def thin(bench: Pointed, event_type: str = "v1.charge.succeeded", **more: Any) -> tuple[int, str, str | None]:
    related = {"id": "ch_1", "type": "charge", "url": "/v1/charges/ch_1"}
    said = {"id": "evt_1", "object": "v2.core.event", "type": event_type, "created": to_rfc3339(NOW), "livemode": True}
    body = json.dumps({**said, "related_object": related, **more}).encode()
    return bench.send(*bench.signed("stripe", body), "/webhooks/stripe")


def asking_stripe(bench: Pointed, folder: Path, *keys: str) -> None:
    bench.adapters["stripe"] = StripeAdapter(ProvidersSettings(), bench.provider.base)
    bench.provider.body = json.dumps(CHARGE).encode()
    (folder / "stripe-api").write_text("".join(f"{key}\n" for key in keys or (STRIPE_KEY,)), "utf-8")


def confirmed(*payments: str, created: datetime = NOW) -> bytes:
    """A batch of a confirmation for each."""
    return batch(
        [
            GoCardlessEvent(f"EV{n}", "payments", "confirmed", {"payment": one}, created)
            for n, one in enumerate(payments)
        ]
    )


def gocardless(bench: Pointed, body: bytes, path: str = "gocardless", **more: str) -> tuple[int, str, str | None]:
    content, headers = bench.signed(path, body)
    return bench.send(content, headers | more, f"/webhooks/{path}")


def asking_gocardless(bench: Pointed, folder: Path, *payments: str) -> None:
    urls: dict[Mode, str] = {"live": bench.provider.base, "test": bench.provider.base}
    bench.adapters["gocardless"] = GoCardlessAdapter(ProvidersSettings(), urls)
    (folder / "gocardless-api").write_text(GOCARDLESS_TOKEN + "\n", "utf-8")
    for one in payments:
        payment = {"id": one, "amount": 1_000, "currency": "GBP", "links": {"creditor": "CR1"}}
        bench.provider.bodies[f"/payments/{one}"] = json.dumps({"payments": payment}).encode()


def payment_of(action: str, payment: str, created: datetime) -> GoCardlessEvent:
    return GoCardlessEvent(f"EV{action}", "payments", action, {"payment": payment}, created)


def published(bench: Pointed) -> list[tuple[str | None, str | None]]:
    """What was published: each event's fact, and what its kept body says by itself."""
    said: list[tuple[str | None, str | None]] = []
    for _, body, headers in bench.publisher.records:
        adapter = bench.adapters[headers["provider"]]
        again = {event.event_key: event for event in reread_events(adapter, body, "live")}
        event = again[headers["event_key"]]
        assert (event.entity_key, event.content_sha256) == (headers["entity_key"], headers["content_sha256"])
        said.append((headers.get("fact_key"), event.fact_key))
    return said


def classic(bench: Pointed, reference: bytes = b"tr_1", path: str = "mollieclassic") -> tuple[int, str, str | None]:
    return bench.send(b"id=" + reference, {"content-type": FORM}, f"/webhooks/{path}")


def paid(**more: Any) -> bytes:
    return mollie.fetched(mollie.payment("tr_1", amount_minor=500, currency="EUR", created=NOW) | more)


@pytest.fixture
def bench(tmp_path: Path, provider: ProviderServer) -> Iterator[Pointed]:
    provider.body = paid()
    yield Pointed(tmp_path, provider)


def test_a_payment_that_mollie_knows_a_second_after_its_webhook_is_taken(bench: Pointed) -> None:
    bench.provider.first = [404]
    assert classic(bench)[0] == 200
    assert len(bench.publisher.records) == 1


def test_an_id_that_mollie_never_knows_is_sent_again_and_then_answered_with_a_receipt(bench: Pointed) -> None:
    bench.provider.status["*"] = 404
    assert classic(bench) == (503, "not_there", "30")
    assert isinstance(bench.clock, ManualClock)
    bench.clock.advance(12)
    assert classic(bench) == (503, "not_there", "18")
    bench.clock.advance(18)
    assert classic(bench)[0] == 200
    assert [(one["outcome"], one["status"]) for one in bench.publisher.receipts] == [
        *(("not_there", 503), ("not_there", 503), ("not_there", 200)),
    ]
    assert bench.publisher.records == []


def test_a_test_payment_is_fetched_with_an_oauth_token_at_the_test_endpoint(
    tmp_path: Path, provider: ProviderServer
) -> None:
    bench = Pointed(tmp_path, provider, test_traffic=True, endpoints={"mollieclassic/sandbox": {"mode": "test"}})
    (tmp_path / "mollieclassic.sandbox").write_text(TOKEN + "\n", "utf-8")
    provider.body = paid(mode="test")
    assert classic(bench, path="mollieclassic/sandbox")[0] == 200
    assert provider.asked == [("/v2/payments/tr_1?embed=captures,refunds,chargebacks&testmode=true", TOKEN)]
    assert [headers["mode"] for *_, headers in bench.publisher.records] == ["test"]


def test_an_orders_id_with_a_dot_is_fetched(bench: Pointed) -> None:
    order = mollie.order("ord_1.6i4fed", amount_minor=500, currency="EUR", created=NOW)
    bench.provider.body = mollie.fetched(order, payments=[mollie.payment("tr_1", **MONEY)])
    assert classic(bench, b"ord_1.6i4fed")[0] == 200
    assert bench.provider.asked[0][0].startswith("/v2/orders/ord_1.6i4fed?")


MONEY: dict[str, Any] = {"amount_minor": 500, "currency": "EUR", "created": NOW}


def test_while_mollie_asks_for_a_pause_its_webhooks_are_put_off_for_as_long(bench: Pointed) -> None:
    bench.provider.first, bench.provider.headers = [429], {"retry-after": "20"}
    assert classic(bench) == (503, "not_fetched", "20")


def test_a_thin_event_is_fetched_and_kept_with_what_was_found(bench: Pointed, tmp_path: Path) -> None:
    asking_stripe(bench, tmp_path)
    assert thin(bench, context="acct_1")[0] == 200
    assert bench.provider.asked == [("/v1/charges/ch_1?expand[]=refunds", STRIPE_KEY)]
    assert published(bench) == [("stripe:ch_1:capture", "stripe:ch_1:capture")]
    bench.provider.body = json.dumps({**CHARGE, "amount_captured": 900}).encode()
    assert thin(bench, context="acct_1")[0] == 200
    assert len(bench.publisher.records) == 1, "a redelivery is a duplicate, whatever is found by then"


def refund_at_mollie(bench: Pointed, **more: Any) -> tuple[int, str, str | None]:
    snapshot = mollie.refund("re_1", of="tr_1", **MONEY) | more
    body = mollie.nextgen_event("refund.refunded", event_id="whe_1", entity="re_1", created=NOW, snapshot=snapshot)
    return bench.send(*bench.signed("mollie", body), "/webhooks/mollie")


def asking_mollie(bench: Pointed, folder: Path, *keys: str) -> None:
    bench.adapters["mollie"] = MollieAdapter(ProvidersSettings(), bench.provider.base)
    bench.provider.body = json.dumps(mollie.payment("tr_1", **MONEY) | {"method": "paypal"}).encode()
    (folder / "mollie-api").write_text("".join(f"{key}\n" for key in keys), "utf-8")


@pytest.mark.parametrize(
    ("keys", "mode", "asked"),
    [
        ([MOLLIE_KEY], "live", [("/v2/payments/tr_1", MOLLIE_KEY)]),
        ([TOKEN], "live", [("/v2/payments/tr_1", TOKEN)]),
        ([MOLLIE_KEY.replace("live", "test")], "live", []),
    ],
)
def test_the_payment_of_a_refund_that_does_not_say_who_makes_it_is_fetched(
    bench: Pointed, tmp_path: Path, keys: list[str], mode: Mode, asked: list[tuple[str, str]]
) -> None:
    asking_mollie(bench, tmp_path, *keys)
    assert refund_at_mollie(bench, mode=mode)[0] == 200
    assert bench.provider.asked == asked
    assert published(bench) == [("mollie:re_1:refund", "mollie:re_1:refund")]
    [(_, body, _)] = bench.publisher.records
    fact = bench.adapters["mollie"].money(body, "refund.refunded")
    assert fact is not None
    assert (fact.outside and fact.outside.method) == ("paypal" if asked else None)


def test_the_payment_of_a_refund_that_says_who_makes_it_is_not_asked_for(bench: Pointed, tmp_path: Path) -> None:
    asking_mollie(bench, tmp_path, MOLLIE_KEY)
    assert refund_at_mollie(bench, settlementAmount=mollie.money(0, "EUR"))[0] == 200
    assert bench.provider.asked == []


def test_a_refund_whose_payment_mollie_does_not_tell_is_sent_again(bench: Pointed, tmp_path: Path) -> None:
    asking_mollie(bench, tmp_path, MOLLIE_KEY)
    bench.provider.status["*"] = 500
    assert refund_at_mollie(bench)[:2] == (503, "not_fetched")
    assert bench.publisher.records == []


def test_without_a_key_a_thin_event_is_kept_and_nobody_is_asked(bench: Pointed) -> None:
    assert thin(bench)[0] == 200
    assert (bench.provider.asked, published(bench)) == ([], [(None, None)])


def test_a_key_of_another_mode_is_no_key(bench: Pointed, tmp_path: Path) -> None:
    asking_stripe(bench, tmp_path, STRIPE_KEY.replace("live", "test"))
    assert thin(bench)[0] == 200
    assert (bench.provider.asked, published(bench)) == ([], [(None, None)])


def test_a_key_that_is_replaced_is_read_again(bench: Pointed, tmp_path: Path) -> None:
    asking_stripe(bench, tmp_path)
    bench.provider.status[STRIPE_KEY] = 401
    assert thin(bench) == (503, "not_configured", "2")
    (tmp_path / "stripe-api").write_text(f"{STRIPE_KEY}new\n{STRIPE_KEY}\n", "utf-8")
    assert isinstance(bench.clock, ManualClock)
    bench.clock.advance(1)
    assert thin(bench)[0] == 200
    assert bench.provider.bearers == [STRIPE_KEY, f"{STRIPE_KEY}new"]


def test_what_is_no_key_of_stripes_is_said_at_the_start(bench: Pointed, tmp_path: Path) -> None:
    asking_stripe(bench, tmp_path, "whsec_" + "a" * 30)
    with pytest.raises(SettingError, match="stripe-api"):
        SecretFiles(tmp_path, bench.clock, EndpointContexts(bench.settings)).check(bench.adapters)


def test_types_that_move_nothing_are_not_fetched(bench: Pointed, tmp_path: Path) -> None:
    asking_stripe(bench, tmp_path)
    assert [thin(bench, kind, id=kind)[0] for kind in ("v1.customer.created", "v2.core.account.created")] == [200, 200]
    assert bench.provider.asked == []


def test_a_thin_event_that_is_forged_makes_nobody_ask(bench: Pointed, tmp_path: Path) -> None:
    asking_stripe(bench, tmp_path)
    bench.secrets["stripe"] = "whsec_another"
    assert thin(bench)[:2] == (401, "signature_mismatch")
    assert bench.provider.asked == []


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"id":"ch_2"}', b"{}", b""])
def test_a_garbled_answer_is_asked_for_again_by_the_next_delivery(
    bench: Pointed, tmp_path: Path, answer: bytes
) -> None:
    asking_stripe(bench, tmp_path)
    bench.provider.body, good = answer, bench.provider.body
    assert thin(bench)[:2] == (503, "not_fetched")
    bench.provider.body = good
    assert thin(bench)[0] == 200


def test_what_stripe_never_finds_is_refused_for_an_hour_and_then_kept_as_unknown(
    bench: Pointed, tmp_path: Path
) -> None:
    asking_stripe(bench, tmp_path)
    bench.provider.status["*"] = 404
    for _ in range(3):
        assert thin(bench)[:2] == (503, "not_there")
        assert isinstance(bench.clock, ManualClock)
        bench.clock.advance(40)
    assert thin(bench)[:2] == (503, "not_there"), "it is given up, and new"
    assert thin(bench, created="2026-01-31T10:59:00Z")[0] == 200
    assert published(bench) == [(None, None)]


def test_each_event_of_a_batch_is_kept_with_its_payment_which_is_asked_for_once(bench: Pointed, tmp_path: Path) -> None:
    asking_gocardless(bench, tmp_path, "PM1", "PM2")
    assert gocardless(bench, confirmed("PM1", "PM2", "PM1"))[0] == 200
    facts = [f"gocardless:PM{n}:capture" for n in (1, 2, 1)]
    assert published(bench) == [(fact, fact) for fact in facts]
    assert sorted(bench.provider.asked) == [("/payments/PM1", GOCARDLESS_TOKEN), ("/payments/PM2", GOCARDLESS_TOKEN)]


def test_without_a_token_ten_payments_are_ten_events_without_a_fact_and_nobody_is_asked(bench: Pointed) -> None:
    assert gocardless(bench, confirmed(*(f"PM{n}" for n in range(10))))[0] == 200
    assert published(bench) == [(None, None)] * 10
    assert bench.provider.asked == []


def test_a_batch_with_more_than_gocardless_waits_for_goes_on_where_it_was(
    bench: Pointed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    payments = [f"PM{n}" for n in range(12)]
    asking_gocardless(bench, tmp_path, *payments)
    bench.shares_fetch = True
    monkeypatch.setattr(verifier, "VIEWS_S", 0.5)
    bench.provider.slow_after = 7
    assert gocardless(bench, confirmed(*payments))[:2] == (503, "not_fetched")
    assert bench.publisher.records == []
    bench.provider.slow_after = None
    bench.provider.open.set()
    monkeypatch.setattr(verifier, "VIEWS_S", 60)
    asked = len(bench.provider.asked)
    assert gocardless(bench, confirmed(*payments))[0] == 200
    assert len(bench.publisher.records) == 12
    assert 0 < len(bench.provider.asked) - asked < 12, "what was answered is kept"


def test_one_payment_that_isnt_there_keeps_its_batch_back_while_it_is_new_and_not_for_ever(
    bench: Pointed, tmp_path: Path
) -> None:
    asking_gocardless(bench, tmp_path, "PM1")
    bench.provider.absent.add("/payments/PM2")
    assert isinstance(bench.clock, ManualClock)
    for _ in range(4):
        assert gocardless(bench, confirmed("PM1", "PM2"))[:2] == (503, "not_there")
        bench.clock.advance(40)
    assert bench.publisher.records == []
    assert gocardless(bench, confirmed("PM1", "PM2", created=NOW - timedelta(hours=2)))[0] == 200
    assert published(bench) == [("gocardless:PM1:capture",) * 2, (None, None)]


@pytest.mark.parametrize(
    ("hours_before", "fact"), [(72, "gocardless:PM1:capture_failed"), (None, None)], ids=["late", "at once"]
)
def test_of_a_failed_payment_it_is_asked_whether_it_was_confirmed_before(
    bench: Pointed, tmp_path: Path, hours_before: int | None, fact: str | None
) -> None:
    asking_gocardless(bench, tmp_path, "PM1")
    told = [] if hours_before is None else [payment_of("confirmed", "PM1", NOW - timedelta(hours=hours_before))]
    bench.provider.bodies["/events"] = batch(told) if told else b'{"events":[],"meta":{}}'
    assert gocardless(bench, batch([payment_of("failed", "PM1", NOW)]))[0] == 200
    assert published(bench) == [(fact, fact)]
    query = "resource_type=payments&action=confirmed&payment=PM1"
    assert sorted(path for path, _ in bench.provider.asked) == [f"/events?{query}", "/payments/PM1"]


@pytest.mark.parametrize("answer", [b"<html>", b"{}", b'{"events":{}}', b'{"payments":{"id":"PM1"}}'])
def test_another_answer_than_the_confirmations_is_asked_for_again(
    bench: Pointed, tmp_path: Path, answer: bytes
) -> None:
    asking_gocardless(bench, tmp_path, "PM1")
    bench.provider.bodies["/events"] = answer
    assert gocardless(bench, batch([payment_of("failed", "PM1", NOW)]))[:2] == (503, "not_fetched")
    assert bench.publisher.records == []


@pytest.mark.parametrize("answer", [b"<html>", b'{"payments":[]}', b'{"payments":{"id":"PM2"}}', b'{"refunds":{}}'])
def test_another_answer_than_the_payment_is_asked_for_again(bench: Pointed, tmp_path: Path, answer: bytes) -> None:
    asking_gocardless(bench, tmp_path)
    bench.provider.bodies["/payments/PM1"] = answer
    assert gocardless(bench, confirmed("PM1"))[:2] == (503, "not_fetched")


def test_what_the_sandbox_sends_to_a_live_endpoint_is_refused_before_anybody_is_asked(
    bench: Pointed, tmp_path: Path
) -> None:
    asking_gocardless(bench, tmp_path, "PM1")
    sent = gocardless(bench, confirmed("PM1"), Origin="https://api-sandbox.gocardless.com")
    assert sent[:2] == (422, "mode_mismatch")
    assert bench.provider.asked == []


def test_a_rate_limit_of_gocardless_puts_the_batch_off(bench: Pointed, tmp_path: Path) -> None:
    asking_gocardless(bench, tmp_path, "PM1")
    bench.provider.first, bench.provider.headers = [429], {"retry-after": "30"}
    assert gocardless(bench, confirmed("PM1")) == (503, "not_fetched", "30")


def test_card_numbers_in_what_was_fetched_are_masked_as_in_what_was_sent(bench: Pointed, tmp_path: Path) -> None:
    asking_stripe(bench, tmp_path)
    card = {"payment_method_details": {"type": "card", "card": {"number": "4242 4242 4242 4242", "cvc": "123"}}}
    bench.provider.body = json.dumps({**CHARGE, **card}).encode()
    assert thin(bench)[0] == 200
    [(_, body, headers)] = bench.publisher.records
    assert b"4242 4242" not in body
    assert b'"123"' not in body
    assert headers["fact_key"] == "stripe:ch_1:capture"
    event = reread_events(bench.adapters["stripe"], body, "live")[0]
    assert (event.event_key, event.fact_key) == (headers["event_key"], headers["fact_key"])
