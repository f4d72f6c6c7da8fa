"""PayPal signs a CRC-32 of the body: what somebody can do who has seen one delivery, and who has seen none."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import zlib
from collections.abc import Mapping
from pathlib import Path

import httpx2
import pytest

from core.clock import ManualClock, to_rfc3339
from core.errors import SettingError
from ingest.endpoints import LOOK_AGAIN_S, EndpointContexts, SecretFiles, SecretsMissing
from ingest.fetch import FetchLimits, HttpFetch
from ingest.pan import FILE
from ingest.provider_client import FetchFailed
from ingest.settings import IngestSettings
from load.samples.paypal import capture_event
from providers.port import Fetched, Wanted
from stack.services.receiver import check_settings
from stack.settings import Settings
from tests.paypal_api import CLIENT, TOKEN_LASTS_S, PayPalApi
from tests.paypal_signer import LIVE_URL, SANDBOX_URL, headers_for, paypals_certificate
from tests.unit.ingest.app_under_test import NOW, Bench
from tests.unit.ingest.provider_server import passing

WEBHOOK = "1AB23456CD789012E"
FREE = 64
"""Letters to choose from; 32 would do if none were like another."""


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
    """The body with a field more, of letters that are chosen so that its CRC-32 is another body's.

    A CRC is linear: each letter that is flipped changes the same bits of it, whatever the others are.
    """
    letters = bytearray(b"a" * FREE)
    head, tail = body.rstrip()[:-1] + b',"n":"', b'"}'

    def crc() -> int:
        return zlib.crc32(head + bytes(letters) + tail)

    plain = crc()
    rows: dict[int, tuple[int, int]] = {}
    for place in range(FREE):
        letters[place] ^= 1
        bits, places = crc() ^ plain, 1 << place
        letters[place] ^= 1
        bits, places = _reduced(bits, places, rows)
        if bits:
            rows[bits.bit_length()] = bits, places
    _, flips = _reduced(plain ^ zlib.crc32(wanted), 0, rows)
    for place in range(FREE):
        letters[place] ^= flips >> place & 1
    return head + bytes(letters) + tail


def _reduced(bits: int, places: int, rows: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
    """What is left of the bits without those that known rows can flip, and the places flipped for it."""
    for length in range(32, 0, -1):
        if bits.bit_length() == length and length in rows:
            bits, places = bits ^ rows[length][0], places ^ rows[length][1]
    return bits, places


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
    assert zlib.crc32(forged) == zlib.crc32(genuine)
    assert json.loads(forged)["resource"]["amount"]["value"] == "999.00"


def test_one_deliverys_headers_carry_one_body(bench: Bench) -> None:
    genuine = capture("10.00")
    forged = with_crc32_of(capture("999.00", "WH-2"), genuine)
    headers = headers_for(genuine, WEBHOOK, time=to_rfc3339(NOW))
    assert post(bench, genuine, headers)[0] == 200
    status, reported = post(bench, forged, headers)
    assert (status, "signature_reused" in reported) == (401, True)
    assert post(bench, genuine, headers)[0] == 200, "PayPal itself may come again"
    assert len(bench.publisher.records) == 1


def test_a_delivery_of_long_ago_carries_none(bench: Bench) -> None:
    genuine = capture("10.00")
    old = headers_for(genuine, WEBHOOK, time="2026-01-27T11:00:00Z")
    for body in (genuine, with_crc32_of(capture("999.00", "WH-2"), genuine)):
        status, reported = post(bench, body, old)
        assert (status, "signature_stale" in reported) == (401, True)
    assert bench.publisher.records == []


def test_while_redis_is_down_deliveries_are_taken(bench: Bench) -> None:
    """The journal still tells copies of an event apart; that of a forged one it can't know."""
    bench.claims.down = True
    genuine = capture("10.00")
    assert post(bench, genuine, headers_for(genuine, WEBHOOK, time=to_rfc3339(NOW)))[0] == 200
    assert bench.publisher.flags == ["deferred"]


class Asking(Bench):
    """A receiver with credentials of PayPal's API, which it asks by HTTP."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "paypal").write_text(WEBHOOK + "\n", "utf-8")
        (folder / "paypal-api").write_text(CLIENT + "\n", "utf-8")
        self.api = PayPalApi()
        client = httpx2.AsyncClient(transport=self.api.transport())
        self.fetch = HttpFetch(client, self.clock, sleep=passing(self.clock))  # type: ignore[assignment]


@pytest.fixture
def asking(tmp_path: Path) -> Asking:
    return Asking(tmp_path)


def deliver(bench: Bench, body: bytes, genuine: bytes | None = None, **headers: str) -> tuple[int, str]:
    """A body with the headers of a genuine delivery (its own, unless given)."""
    given = {"time": to_rfc3339(NOW)} | headers
    return post(bench, body, headers_for(genuine or body, WEBHOOK, **given))  # type: ignore[arg-type]


def test_money_is_asked_for_again_before_it_is_published(asking: Asking) -> None:
    asking.api.events["WH-1"] = capture("10.00")
    assert deliver(asking, capture("10.00"))[0] == 200
    assert asking.api.asked == ["certs", "token", "webhooks-events"]
    assert asking.api.hosts[1:] == ["api-m.paypal.com"] * 2
    assert len(asking.publisher.records) == 1


@pytest.mark.parametrize("redis", ["up", "down"])
def test_another_body_is_refused_though_it_comes_first(asking: Asking, redis: str) -> None:
    """Its event is none of PayPal's, or has other money there; the genuine one is taken afterwards."""
    asking.claims.down = redis == "down"
    genuine = capture("10.00")
    asking.api.events["WH-1"] = genuine
    for event_id, refused in (("WH-2", (503, "not_there")), ("WH-1", (401, "signature_unconfirmed"))):
        status, said = deliver(asking, with_crc32_of(capture("999.00", event_id), genuine), genuine)
        assert (status, json.loads(said)["error"]["code"]) == refused
    assert asking.publisher.records == []
    assert deliver(asking, genuine)[0] == 200
    assert len(asking.publisher.records) == 1


def test_a_body_without_money_that_comes_first_doesnt_keep_the_money_out(asking: Asking) -> None:
    genuine = capture("10.00")
    asking.api.events["WH-1"] = genuine
    harmless = with_crc32_of(genuine.replace(b"CAPTURE.COMPLETED", b"CAPTURE.PENDING"), genuine)
    assert deliver(asking, harmless, genuine)[0] == 200
    assert deliver(asking, genuine)[0] == 200
    assert [json.loads(body)["event_type"] for _, body, _ in asking.publisher.records] == [
        "PAYMENT.CAPTURE.PENDING",
        "PAYMENT.CAPTURE.COMPLETED",
    ]


def test_links_and_states_of_the_delivery_may_differ_in_paypals_answer(asking: Asking) -> None:
    answer = json.loads(capture("10.00")) | {"links": [], "status": "PENDING", "transmissions": [{"status": "FAILURE"}]}
    asking.api.events["WH-1"] = json.dumps(answer, indent=2).encode()
    assert deliver(asking, capture("10.00"))[0] == 200


def test_the_sandbox_is_asked_for_what_the_sandbox_sent(tmp_path: Path) -> None:
    bench = Asking(tmp_path)
    bench.settings = bench.settings.model_copy(update={"mode": "test"})
    bench.api.events["WH-1"] = capture("10.00")
    assert deliver(bench, capture("10.00"), url=SANDBOX_URL)[0] == 200
    assert bench.api.hosts == ["api.sandbox.paypal.com"] + ["api-m.sandbox.paypal.com"] * 2


def test_an_events_id_cant_lead_the_receiver_elsewhere(asking: Asking) -> None:
    for event_id in ("../../v2/payments?x=#y", ".."):
        deliver(asking, capture("10.00", event_id))
    assert asking.api.asked == ["certs", "token", "webhooks-events", "webhooks-events"]


def test_an_event_that_the_api_knows_a_second_later_is_taken_and_one_that_it_never_knows_is_refused(
    asking: Asking,
) -> None:
    known, unknown = capture("10.00"), capture("10.00", "WH-2")
    asking.api.late["WH-1"] = known
    assert deliver(asking, known)[0] == 200
    assert [deliver(asking, unknown)[0] for _ in range(2)] == [503, 503]
    for _ in range(2):
        asking.clock.advance(30)
        status, said = deliver(asking, unknown)
    assert (status, "signature_unconfirmed" in said) == (401, True)


def test_while_paypals_api_is_down_money_waits_at_paypal(asking: Asking) -> None:
    asking.api.events["WH-1"] = capture("10.00")
    asking.api.down = True
    status, said = deliver(asking, capture("10.00"))
    assert (status, "not_fetched" in said) == (503, True)
    asking.api.down = False
    assert deliver(asking, capture("10.00"))[0] == 200


def test_a_token_is_used_until_its_end_and_replaced_when_it_is_refused(asking: Asking) -> None:
    for number in (1, 2):
        asking.api.events[f"WH-{number}"] = capture("10.00", f"WH-{number}")
        assert deliver(asking, capture("10.00", f"WH-{number}"), transmission_id=f"t-{number}")[0] == 200
    assert asking.api.asked.count("token") == 1
    asking.api.end_tokens()
    assert deliver(asking, capture("10.00"))[0] == 200
    assert asking.api.asked.count("token") == 2
    asking.clock.advance(TOKEN_LASTS_S)
    assert deliver(asking, capture("10.00"))[0] == 200
    assert asking.api.asked.count("token") == 3


def test_of_two_credentials_the_newest_that_paypal_takes_counts(asking: Asking, tmp_path: Path) -> None:
    newer = "a-newer-client-012345:a-newer-secret-012345"
    (tmp_path / "paypal-api").write_text(f"{newer}\n{CLIENT}\n", "utf-8")
    asking.api.events["WH-1"] = capture("10.00")
    assert deliver(asking, capture("10.00"))[0] == 200
    assert asking.api.asked == ["certs", "token", "token", "webhooks-events"]
    asking.api.clients.clear()
    asking.api.end_tokens()
    assert deliver(asking, capture("10.00"))[0] == 503
    asking.api.clients.add(newer)
    assert deliver(asking, capture("10.00"))[0] == 200


@pytest.mark.parametrize("wrong", ["short:short", "no-colon-0123456789abcdef", "client id:with a blank 0123456"])
def test_credentials_of_another_form_are_refused_at_start_and_on_reload(
    asking: Asking, tmp_path: Path, wrong: str
) -> None:
    secrets = SecretFiles(tmp_path, asking.clock, EndpointContexts(asking.settings))
    (tmp_path / "paypal-api").write_text(wrong + "\n", "utf-8")
    with pytest.raises((SettingError, SecretsMissing)) as refused:
        secrets.check(asking.adapters)
    assert wrong not in str(refused.value)
    asking.api.events["WH-1"] = capture("10.00")
    assert deliver(asking, capture("10.00"))[0] == 503
    assert asking.publisher.records == []


def test_credentials_that_are_taken_away_while_it_runs_close_the_door(asking: Asking, tmp_path: Path) -> None:
    secrets = SecretFiles(tmp_path, asking.clock, EndpointContexts(asking.settings))
    assert secrets.find_credentials("paypal", None) == (CLIENT,)
    (tmp_path / "paypal-api").unlink()
    asking.clock.advance(2)
    with pytest.raises(SecretsMissing):
        secrets.find_credentials("paypal", None)


def test_credentials_that_appear_while_it_runs_count_within_a_second(asking: Asking, tmp_path: Path) -> None:
    (tmp_path / "paypal-api").unlink()
    secrets = SecretFiles(tmp_path, asking.clock, EndpointContexts(asking.settings))
    assert secrets.find_credentials("paypal", None) == ()
    (tmp_path / "paypal-api").write_text(CLIENT + "\n", "utf-8")
    assert secrets.find_credentials("paypal", None) == (), "it isn't looked for with every request"
    asking.clock.advance(LOOK_AGAIN_S)
    assert secrets.find_credentials("paypal", None) == (CLIENT,)


def test_an_endpoint_has_credentials_of_its_own_or_none(tmp_path: Path) -> None:
    for name in ("paypal", "paypal.eu", "paypal.us", "stripe"):
        (tmp_path / name).write_text(WEBHOOK + "\n", "utf-8")
    (tmp_path / "paypal-api.eu").write_text(CLIENT + "\n", "utf-8")
    secrets = SecretFiles(tmp_path, ManualClock(NOW), EndpointContexts(IngestSettings()))
    assert secrets.find_credentials("paypal", "eu") == (CLIENT,)
    assert secrets.find_credentials("paypal", None) == secrets.find_credentials("paypal", "us") == ()
    assert secrets.find_missing_credentials("paypal") == ["paypal-api", "paypal-api.us"]


def test_the_start_says_what_isnt_asked_for_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir(mode=0o700)
    (folder / "paypal").write_text(WEBHOOK + "\n", "utf-8")
    (folder / FILE).write_text("k" * 20 + "0123456789abcdef\n", "utf-8")
    merchant = {"paypal": {"merchant_id": "M1"}}
    settings = Settings.model_validate({"ingest": {"secrets_dir": str(folder)}, "providers": merchant})
    with caplog.at_level(logging.WARNING):
        check_settings(settings)
    assert "secrets/paypal-api" in caplog.text
    caplog.clear()
    (folder / "paypal-api").write_text(CLIENT + "\n", "utf-8")
    check_settings(settings)
    assert caplog.text == ""


def test_strangers_who_ask_for_certificates_leave_room_for_others() -> None:
    """Each names another certificate on one of PayPal's hosts, which doesn't answer. Mollie is asked all the same, and
    so is PayPal for what was proven before."""
    hangs = asyncio.Event()

    async def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.host.endswith("paypal.com") and "certs" in request.url.path:
            await hangs.wait()
        return httpx2.Response(200, stream=httpx2.ByteStream(b"{}"))

    async def flood() -> None:
        limits = FetchLimits(at_once_max=4, waiting_max=20, timeout_s=5)
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
            fetch = HttpFetch(client, ManualClock(NOW), limits)
            hosts = itertools.cycle(["api.paypal.com", "api-m.paypal.com", "api.sandbox.paypal.com"])
            path = "v1/notifications/certs/CERT"
            wanted = [Wanted(f"https://{next(hosts)}/{path}-{number}", kept_s=60.0) for number in range(40)]
            strangers = [asyncio.create_task(fetch.fetch(one)) for one in wanted]
            await asyncio.sleep(0)
            asked = [
                await fetch.fetch(Wanted(f"https://api.mollie.com/v2/payments/tr_{n}", bearers=("t",)))
                for n in range(8)
            ]
            assert [one.status for one in asked] == [200] * 8
            proven = Wanted("https://api.paypal.com/v1/notifications/webhooks-events/WH-1", verified=True)
            assert (await fetch.fetch(proven)).status == 200
            hangs.set()
            ended = await asyncio.gather(*strangers, return_exceptions=True)
            assert sum(isinstance(one, FetchFailed) for one in ended) == 34, "a third may be PayPal's"
            await fetch.close()

    asyncio.run(flood())
