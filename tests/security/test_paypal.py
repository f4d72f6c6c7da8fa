"""PayPal signs a CRC-32 of the body: what somebody can do who has seen one delivery, and who has seen none."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from core.clock import ManualClock, to_rfc3339
from ingest.fetch import FetchFailed, HttpFetch
from ingest.fetch_settings import FetchSettings
from load.samples.paypal import capture_event
from providers.port import Fetched, Wanted
from tests.paypal_signer import LIVE_URL, headers_for, paypals_certificate
from tests.unit.ingest.app_under_test import NOW, Bench

WEBHOOK = "1AB23456CD789012E"
POLYNOMIAL = 0xEDB88320
CERTIFICATES = "https://api.paypal.com/v1/notifications/certs"


def capture(value: str, event_id: str = "WH-1") -> bytes:
    return capture_event(
        "PAYMENT.CAPTURE.COMPLETED",
        event_id=event_id,
        capture=f"cap-{event_id}",
        order="ord1",
        merchant="m1",
        value=value,
        currency="EUR",
        created=NOW,
    )


def with_crc32_of(body: bytes, wanted: bytes) -> bytes:
    """The body with a field more, so that its CRC-32 is another body's: four bytes make any, and blanks hide them."""
    document = json.loads(body)
    for number in range(1 << 22):
        document["n"] = number
        prefix = json.dumps(document).encode() + b" "
        ending = _four_bytes(zlib.crc32(prefix), zlib.crc32(wanted))
        if set(ending) <= set(b" \t\r\n"):
            return prefix + ending
        if number == 0:
            break
    return prefix + ending


def _four_bytes(now: int, then: int) -> bytes:
    """What takes a CRC-32 from one value to another."""
    register = then ^ 0xFFFFFFFF
    for _ in range(32):
        register = ((register << 1) ^ (POLYNOMIAL << 1 | 1) if register & 0x80000000 else register << 1) & 0x1FFFFFFFF
        register &= 0xFFFFFFFF
    return (register ^ now ^ 0xFFFFFFFF).to_bytes(4, "little")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    (tmp_path / "paypal").write_text(WEBHOOK + "\n", "utf-8")
    made.fetch.by_url[LIVE_URL] = Fetched(200, paypals_certificate())
    return made


def post(bench: Bench, body: bytes, headers: Mapping[str, str]) -> tuple[int, str]:
    answer = asyncio.run(bench.post(body, dict(headers), "/webhooks/paypal"))
    return answer.status_code, answer.text


def test_another_body_of_the_same_crc32_is_made_in_no_time() -> None:
    genuine, forged = capture("10.00"), with_crc32_of(capture("999.00", "WH-2"), capture("10.00"))
    assert zlib.crc32(forged) == zlib.crc32(genuine) and forged != genuine


def test_one_deliverys_headers_carry_one_body(bench: Bench) -> None:
    genuine = capture("10.00")
    forged = with_crc32_of(capture("999.00", "WH-2"), genuine)
    headers = headers_for(genuine, WEBHOOK, time=to_rfc3339(NOW))
    assert post(bench, genuine, headers)[0] == 200
    status, told = post(bench, forged, headers)
    assert (status, "signature_reused" in told) == (401, True)
    assert post(bench, genuine, headers)[0] == 200, "PayPal itself may come again"
    assert len(bench.publisher.records) == 1


def test_a_delivery_of_long_ago_carries_none(bench: Bench) -> None:
    genuine = capture("10.00")
    old = headers_for(genuine, WEBHOOK, time="2026-01-27T11:00:00Z")
    for body in (genuine, with_crc32_of(capture("999.00", "WH-2"), genuine)):
        status, told = post(bench, body, old)
        assert (status, "signature_stale" in told) == (401, True)
    assert bench.publisher.records == []


def test_while_redis_is_down_deliveries_are_taken(bench: Bench) -> None:
    """The journal still tells copies of an event apart; that of a forged one it can't know."""
    bench.claims.down = True
    genuine = capture("10.00")
    assert post(bench, genuine, headers_for(genuine, WEBHOOK, time=to_rfc3339(NOW)))[0] == 200
    assert bench.publisher.flags == ["deferred"]


def test_strangers_who_ask_for_certificates_leave_room_for_others() -> None:
    """Each names another certificate, and PayPal doesn't answer; Mollie is asked all the same."""
    hangs = asyncio.Event()

    async def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "api.paypal.com":
            await hangs.wait()
        return httpx.Response(200, stream=httpx.ByteStream(b"{}"))

    async def flood() -> None:
        settings = FetchSettings(at_once_max=4, waiting_max=20, timeout_s=5)
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            fetch = HttpFetch(client, settings, ManualClock(NOW))
            wanted = [Wanted(f"{CERTIFICATES}/CERT-{number}", kept_s=60.0) for number in range(40)]
            strangers = [asyncio.create_task(fetch.fetch(one)) for one in wanted]
            await asyncio.sleep(0)
            asked = [
                await fetch.fetch(Wanted(f"https://api.mollie.com/v2/payments/tr_{n}", bearers=("t",)))
                for n in range(8)
            ]
            assert [one.status for one in asked] == [200] * 8
            hangs.set()
            ended = await asyncio.gather(*strangers, return_exceptions=True)
            assert sum(isinstance(one, FetchFailed) for one in ended) == 30, "half of those who may wait are one host's"
            await fetch.close()

    asyncio.run(flood())
