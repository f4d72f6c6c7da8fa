"""What the receiver answers, and what it publishes."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client import generate_latest

from core.event import Event, unquote_text
from ingest.claims import ClaimKey
from ingest.event_reader import ON_LOOP_BYTES_MAX
from ingest.limits import ReceiverLimits
from ingest.pan import CardMasker
from load.samples.stripe import stripe_event
from providers.port import Adapter
from tests import virtual_time
from tests.unit.ingest.app_under_test import NOW, Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def post(bench: Bench, signed: tuple[bytes, dict[str, str]], path: str = "/webhooks/stripe") -> httpx2.Response:
    return virtual_time.run(bench.post(*signed, path=path))


def test_a_signed_event_is_published_with_its_exact_bytes_and_identities(bench: Bench) -> None:
    body, headers = bench.stripe()
    answer = post(bench, (body, headers))
    assert (answer.status_code, answer.json()) == (200, {"status": "accepted"})
    [(key, value, sent)] = bench.publisher.records
    assert (key, value) == (b"stripe:acct_1:pi_1", body)
    assert sent["event_key"] == "stripe:evt_1:charge.succeeded"
    assert sent["dedupe"] == "claimed"
    assert sent["ce_specversion"] == "1.0"


def test_a_redelivery_is_answered_from_redis_and_not_published(bench: Bench) -> None:
    post(bench, bench.stripe())
    answer = post(bench, bench.stripe())
    assert (answer.status_code, answer.headers["idempotent-replayed"]) == (200, "true")
    assert len(bench.publisher.records) == 1
    assert [receipt["outcome"] for receipt in bench.publisher.receipts] == ["claimed", "duplicate"]


def test_the_same_id_with_other_content_goes_on_as_a_conflict(bench: Bench) -> None:
    post(bench, bench.stripe(amount=500))
    assert post(bench, bench.stripe(amount=900)).status_code == 200
    assert bench.publisher.flags == ["claimed", "conflict"]


@pytest.mark.row("A10")
def test_the_same_id_with_another_type_is_another_event(bench: Bench) -> None:
    post(bench, bench.stripe())
    authorized = stripe_event(
        "evt_1", "charge.pending", payment="pi_1", account="acct_1", amount_minor=500, currency="EUR", created=NOW
    )
    assert "idempotent-replayed" not in post(bench, bench.signed("stripe", authorized)).headers
    assert bench.publisher.flags == ["claimed", "claimed"]
    keys = [sent["event_key"] for *_, sent in bench.publisher.records]
    assert keys == ["stripe:evt_1:charge.succeeded", "stripe:evt_1:charge.pending"]


def test_one_event_twice_in_a_request_is_published_once_and_other_content_beside_it_as_a_conflict(bench: Bench) -> None:
    signed = bench.adyen("PSP1", "PSP1", "PSP2")
    answer = post(bench, signed, "/webhooks/adyen")
    assert (answer.status_code, answer.text) == (200, "[accepted]")
    assert [sent["event_key"] for *_, sent in bench.publisher.records] == [
        "adyen:PSP1:CAPTURE:true",
        "adyen:PSP2:CAPTURE:true",
    ]


def test_when_kafka_takes_nothing_the_answer_is_503_and_the_claim_is_given_back(bench: Bench) -> None:
    bench.publisher.fails.add(b"stripe:acct_1:pi_1")
    answer = post(bench, bench.stripe())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    bench.publisher.fails.clear()
    assert post(bench, bench.stripe()).status_code == 200
    assert bench.publisher.flags == ["claimed"]


def test_of_a_batch_what_kafka_took_is_confirmed_and_the_rest_is_released(bench: Bench) -> None:
    bench.publisher.fails.add(b"adyen:Shop:pay-PSP2")
    signed = bench.adyen("PSP1", "PSP2")
    assert post(bench, signed, "/webhooks/adyen").status_code == 503
    bench.publisher.fails.clear()
    assert post(bench, signed, "/webhooks/adyen").status_code == 200
    keys = [sent["event_key"] for *_, sent in bench.publisher.records]
    assert keys == ["adyen:PSP1:CAPTURE:true", "adyen:PSP2:CAPTURE:true"]


@pytest.mark.row("A6")
def test_redis_down_events_go_on_deferred(bench: Bench) -> None:
    bench.claims.down = True
    for _ in range(5):
        assert post(bench, bench.stripe()).status_code == 200
    assert bench.publisher.flags == ["deferred"] * 5


def test_while_another_request_publishes_the_copy_waits_and_then_is_a_duplicate(bench: Bench) -> None:
    async def both() -> list[httpx2.Response]:
        bench.publisher.gate = asyncio.Event()
        async with bench.client() as client:
            body, headers = bench.stripe()
            first = asyncio.create_task(client.post("/webhooks/stripe", content=body, headers=headers))
            await asyncio.sleep(0.02)
            second = asyncio.create_task(client.post("/webhooks/stripe", content=body, headers=headers))
            await asyncio.sleep(0.05)
            bench.publisher.gate.set()
            return [await first, await second]

    first, second = virtual_time.run(both())
    assert (first.status_code, second.status_code) == (200, 200)
    assert second.headers["idempotent-replayed"] == "true"
    assert len(bench.publisher.records) == 1


def test_a_large_body_is_looked_through_beside_other_requests(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    began, other_answered = threading.Event(), threading.Event()
    masked = CardMasker.mask_event

    def slow(masker: CardMasker, event: Event, adapter: Adapter) -> Event:
        if event.event_id == "evt_large":
            began.set()
            assert other_answered.wait(30), "it held the other request up"
        return masked(masker, event, adapter)

    async def both() -> list[httpx2.Response]:
        async with bench.client() as client:
            body, headers = bench.signed("stripe", bench.stripe("evt_large")[0] + b" " * ON_LOOP_BYTES_MAX)
            large = asyncio.create_task(client.post("/webhooks/stripe", content=body, headers=headers))
            assert await asyncio.to_thread(began.wait, 30)
            body, headers = bench.stripe("evt_small")
            small = await client.post("/webhooks/stripe", content=body, headers=headers)
            other_answered.set()
            return [small, await large]

    monkeypatch.setattr(CardMasker, "mask_event", slow)
    assert [answer.status_code for answer in asyncio.run(both())] == [200, 200]


def test_a_copy_with_other_content_that_waited_is_reported_a_conflict_by_its_own_content(bench: Bench) -> None:
    async def both() -> list[httpx2.Response]:
        bench.publisher.gate = asyncio.Event()
        async with bench.client() as client:
            (body, headers), (other, other_headers) = bench.stripe(amount=500), bench.stripe(amount=900)
            first = asyncio.create_task(client.post("/webhooks/stripe", content=body, headers=headers))
            await asyncio.sleep(0.02)
            second = asyncio.create_task(client.post("/webhooks/stripe", content=other, headers=other_headers))
            await asyncio.sleep(0.05)
            bench.publisher.gate.set()
            return [await first, await second]

    assert [answer.status_code for answer in virtual_time.run(both())] == [200, 200]
    assert bench.publisher.flags == ["claimed", "conflict"]


def test_a_copy_that_waited_in_vain_is_reported_to_come_again(bench: Bench) -> None:
    event_key = "stripe:evt_1:charge.succeeded"
    virtual_time.run(bench.claims.claim([ClaimKey.for_event(event_key, "ab" * 32)], b"o" * 16))
    answer = post(bench, bench.stripe())
    assert (answer.status_code, answer.headers["retry-after"]) == (409, "1")
    bench.clock.advance(31)
    assert post(bench, bench.stripe(created=bench.clock.now())).status_code == 200
    assert bench.publisher.flags == ["reclaimed"]


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"Stripe-Signature": ""}, 401, "signature_malformed"),
        ({"Stripe-Signature": "t=1700000000,v1=00"}, 401, "signature_mismatch"),
        ({"Content-Encoding": "gzip"}, 415, "encoded"),
    ],
)
def test_what_is_not_proven_is_refused_before_it_is_read(
    bench: Bench, change: dict[str, str], status: int, code: str
) -> None:
    body, headers = bench.stripe()
    answer = post(bench, (body, {**headers, **change}))
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert bench.publisher.records == []
    assert bench.publisher.receipts[-1]["outcome"] == code


def test_two_signature_headers_are_a_400(bench: Bench) -> None:
    async def twice() -> httpx2.Response:
        body, headers = bench.stripe()
        async with bench.client() as client:
            pairs = [*headers.items(), ("Stripe-Signature", "t=1,v1=00")]
            return await client.post("/webhooks/stripe", content=body, headers=pairs)

    assert virtual_time.run(twice()).status_code == 400


def test_signed_bytes_that_cannot_be_read_are_kept_as_poison_and_answered_200(bench: Bench) -> None:
    answer = post(bench, bench.signed("stripe", b'{"id": "evt_1", "id": "evt_2"}'))
    assert answer.status_code == 200
    [(_, value, sent)] = bench.publisher.records
    assert value == b'{"id": "evt_1", "id": "evt_2"}'
    assert "twice" in sent["poison"] or "duplicate" in sent["poison"].lower()


def test_a_webhook_that_claims_to_be_an_event_of_payhooks_own_is_kept_as_poison(bench: Bench) -> None:
    own = bench.stripe()[0].replace(b"charge.succeeded", b"payhook.reconciled")
    answer = post(bench, bench.signed("stripe", own))
    assert answer.status_code == 200
    [(_, value, sent)] = bench.publisher.records
    assert value == own
    assert "only payhook makes events of a type payhook." in unquote_text(sent["poison"])
    assert sent["ce_type"] == "poison"
    assert "fact_key" not in sent


def test_a_body_over_the_limit_is_refused_by_its_length_and_while_it_streams(tmp_path: Path) -> None:
    bench = Bench(tmp_path, body_bytes_max=2_000)
    assert post(bench, (b"x" * 2_001, {})).status_code == 413

    async def streamed() -> httpx2.Response:
        async def parts() -> Any:
            for _ in range(10):
                yield b"x" * 500

        async with bench.client() as client:
            return await client.post("/webhooks/stripe", content=parts())

    assert virtual_time.run(streamed()).status_code == 413


def test_a_body_that_does_not_come_is_given_up(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ReceiverLimits(read_deadline_s=0.1))

    async def slow() -> httpx2.Response:
        async def parts() -> Any:
            yield b"{"
            await asyncio.sleep(1)

        async with bench.client() as client:
            return await client.post("/webhooks/stripe", content=parts())

    assert virtual_time.run(slow()).status_code == 408


def test_an_unknown_provider_is_a_404_that_names_the_known_ones(bench: Bench) -> None:
    answer = post(bench, bench.stripe(), "/webhooks/nobody")
    assert answer.status_code == 404
    assert "stripe" in answer.json()["error"]["message"]


def test_test_traffic_at_a_live_endpoint_is_refused_where_the_flag_is_not_signed(bench: Bench) -> None:
    answer = post(bench, bench.adyen("PSP1", live=False), "/webhooks/adyen")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "mode_mismatch")


TEST_EVENT: dict[str, Any] = {"livemode": False, "event_id": "evt_test"}


def test_a_test_event_at_a_live_endpoint_goes_to_the_test_ledger_where_test_traffic_is_taken(tmp_path: Path) -> None:
    """Stripe sends events of both modes to a live endpoint of Connect."""
    bench = Bench(tmp_path, test_traffic=True)
    for request in (bench.stripe(), bench.stripe(**TEST_EVENT)):
        assert post(bench, request).status_code == 200
    assert [headers["mode"] for *_, headers in bench.publisher.records] == ["live", "test"]
    assert {receipt["outcome"] for receipt in bench.publisher.receipts} == {"claimed"}


def test_without_test_traffic_a_test_event_at_a_live_endpoint_is_answered_2xx_and_listed(tmp_path: Path) -> None:
    """A refusal would be sent again for days, until the provider closes the endpoint."""
    bench = Bench(tmp_path)
    answers = [post(bench, bench.stripe(**TEST_EVENT)) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert bench.publisher.records == []
    for receipt in bench.publisher.receipts:
        assert (receipt["outcome"], receipt["status"]) == ("test_traffic_off", 200)
        assert receipt["event_key"] == "stripe:evt_test:charge.succeeded"
    assert len(bench.publisher.receipts) == 2
    counted = 'payhook_ingest_events_total{outcome="test_traffic_off",provider="stripe"} 1.0'
    assert counted in generate_latest(bench.metrics.registry).decode()


def test_a_test_event_that_nobody_signed_is_refused_all_the_same(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    body, headers = bench.stripe(**TEST_EVENT)
    assert post(bench, (body.replace(b"evt_test", b"evt_tes2"), headers)).status_code == 401
    assert [receipt["outcome"] for receipt in bench.publisher.receipts] == ["signature_mismatch"]


def test_a_live_event_at_a_test_endpoint_is_refused(tmp_path: Path) -> None:
    """Its secret is known to more people than a live one should be."""
    bench = Bench(tmp_path, test_traffic=True, endpoints={"stripe/sandbox": {"mode": "test"}})
    answer = post(bench, bench.stripe(endpoint="stripe/sandbox"), "/webhooks/stripe/sandbox")
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "mode_mismatch")
    assert bench.publisher.records == []


def test_a_rotated_secret_is_taken_up_without_a_restart(bench: Bench, tmp_path: Path) -> None:
    assert post(bench, bench.stripe()).status_code == 200
    old = bench.secrets["stripe"]
    bench.secrets["stripe"] = bench.adapters["stripe"].new_secret()
    (tmp_path / "stripe").write_text(f"{bench.secrets['stripe']}\n{old}\n", "utf-8")
    bench.clock.advance(2)
    assert post(bench, bench.stripe("evt_2")).status_code == 200


def test_without_a_secret_nothing_is_believed_and_the_sender_may_come_again(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "stripe").unlink()
    answer = post(bench, bench.stripe())
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_configured")


def test_what_cant_be_looked_through_for_card_numbers_is_not_published(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(CardMasker, "mask_event", broken)
    answer = post(bench, bench.stripe())
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_masked")
    assert answer.headers["retry-after"] == "2"
    assert bench.publisher.records == []
