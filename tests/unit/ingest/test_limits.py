"""What the receiver takes on at once, and what it says beyond it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx2
import pytest

from core.clock import ManualClock
from ingest.errors import RETRY_AFTER_S, RequestRefused
from ingest.limits import BURST_S, GRACE_S, Load, OpenRequest, RateLimits, ReceiverLimits, source_of
from load.samples import mollie
from providers.port import FORM, Fetched
from tests import virtual_time
from tests.unit.ingest.app_under_test import NOW, Bench


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*fixtures: Any, **named: Any) -> None:
        virtual_time.run(test(*fixtures, **named))

    return run


def nothing() -> None:
    """It need not make way."""


def refusal(error: pytest.ExceptionInfo[RequestRefused]) -> tuple[int, str, int | None]:
    return error.value.status, error.value.code, error.value.retry_after_s


def test_as_many_requests_as_may_be_are_under_way_and_no_more_until_one_ends() -> None:
    load = Load(2, 1_000, ManualClock(NOW))
    first, other = load.begin("a", nothing), load.begin("b", nothing)
    first.finish_reading()
    other.finish_reading()
    with pytest.raises(RequestRefused) as refused:
        load.begin("c", nothing)
    assert refusal(refused) == (503, "overloaded", RETRY_AFTER_S)
    first.end()
    load.begin("c", nothing)
    assert load.requests == 2


def test_bytes_are_counted_over_all_requests_and_given_back_with_their_request() -> None:
    load = Load(10, 1_000, ManualClock(NOW))
    one, other = load.begin("a", nothing), load.begin("b", nothing)
    one.reserve_bytes(600)
    one.finish_reading()
    with pytest.raises(RequestRefused) as refused:
        other.reserve_bytes(401)
    assert refusal(refused) == (503, "overloaded", RETRY_AFTER_S)
    other.reserve_bytes(400)
    one.end()
    assert load.bytes == 400
    other.end()
    assert (load.requests, load.bytes) == (0, 0)


class Begun:
    """Requests of a `Load` by name, and those that made way."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.gave_up: list[str] = []

    def begin(self, name: str) -> OpenRequest:
        """``a1`` is of the source ``a``."""
        return self.load.begin(name[0], lambda: self.gave_up.append(name))


def test_an_unfinished_request_makes_way_for_a_newer_one_of_its_source_once_it_had_its_time() -> None:
    clock = ManualClock(NOW)
    begun = Begun(Load(16, 1_600, clock))
    oldest, whole = begun.begin("a1"), begun.begin("a2")
    oldest.reserve_bytes(10)
    whole.finish_reading()
    begun.begin("a3"), begun.begin("b1")
    clock.advance(GRACE_S)
    begun.begin("a4")
    assert begun.gave_up == ["a1"]
    assert (begun.load.requests, begun.load.bytes) == (4, 0)
    oldest.end()
    assert (begun.load.requests, begun.load.bytes) == (4, 0)


def test_a_burst_of_one_source_makes_no_way_for_itself_while_there_are_places() -> None:
    begun = Begun(Load(16, 1_600, ManualClock(NOW)))
    requests = [begun.begin(f"a{number}") for number in range(16)]
    for request in requests:
        request.finish_reading()
    assert begun.gave_up == []


def test_where_all_places_are_taken_the_source_with_most_unfinished_requests_makes_way() -> None:
    begun = Begun(Load(3, 1_000, ManualClock(NOW)))
    for name in ("a1", "b1", "c1"):
        begun.begin(name)
    begun.begin("d1").finish_reading()
    assert begun.gave_up == ["a1"]
    for _ in range(2):
        begun.begin("e1").finish_reading()
    assert begun.gave_up == ["a1", "b1", "c1"]
    with pytest.raises(RequestRefused):
        begun.begin("f1")


def test_unfinished_bodies_make_way_for_bytes_that_arrive_and_whole_ones_do_not() -> None:
    begun = Begun(Load(32, 1_000, ManualClock(NOW)))
    first, second, other = begun.begin("a1"), begun.begin("a2"), begun.begin("b1")
    first.reserve_bytes(500)
    second.reserve_bytes(400)
    second.finish_reading()
    other.reserve_bytes(300)
    assert begun.gave_up == ["a1"]
    with pytest.raises(RequestRefused):
        other.reserve_bytes(400)
    assert begun.load.bytes == 700


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("192.0.2.1", 1), ("192.0.2.1", 2), True),
        (("192.0.2.1", 1), ("192.0.2.2", 1), False),
        (("2001:db8::1", 1), ("2001:db8::ffff:1", 1), True),
        (("2001:db8:0:1::1", 1), ("2001:db8:0:2::1", 1), False),
        (("fe80::1%eth0", 1), ("fe80::1%eth1", 1), True),
        (None, None, True),
    ],
)
def test_a_source_is_an_address_or_an_ipv6_hosts_network(one: Any, other: Any, same: bool) -> None:
    assert (source_of(one) == source_of(other)) is same


def test_a_rate_lets_a_burst_through_and_then_as_much_as_time_brings() -> None:
    clock = ManualClock(NOW)
    rates = RateLimits({"stripe": 5.0}, clock)
    for _ in range(int(5 * BURST_S)):
        rates.take_token("stripe")
    with pytest.raises(RequestRefused) as refused:
        rates.take_token("stripe")
    assert refusal(refused) == (429, "too_many_requests", 1)
    clock.advance(0.19)
    with pytest.raises(RequestRefused):
        rates.take_token("stripe")
    clock.advance(0.02)
    rates.take_token("stripe")
    with pytest.raises(RequestRefused):
        rates.take_token("stripe")


def test_a_slow_rate_says_how_long_to_wait_and_no_rate_is_no_limit() -> None:
    rates = RateLimits({"stripe": 0.1}, ManualClock(NOW))
    rates.take_token("stripe")
    with pytest.raises(RequestRefused) as refused:
        rates.take_token("stripe")
    assert refusal(refused) == (429, "too_many_requests", 10)
    for _ in range(1_000):
        rates.take_token("adyen")


def test_time_never_fills_a_bucket_beyond_its_burst() -> None:
    clock = ManualClock(NOW)
    rates = RateLimits({"stripe": 1.0}, clock)
    clock.advance(3_600)
    for _ in range(int(BURST_S)):
        rates.take_token("stripe")
    with pytest.raises(RequestRefused):
        rates.take_token("stripe")


@on_a_loop
async def test_beyond_the_limit_a_request_is_reported_to_come_again_and_nothing_of_it_is_taken(tmp_path: Path) -> None:
    bench = Bench(tmp_path, ReceiverLimits(in_flight_max=2))
    bench.publisher.gate = asyncio.Event()
    async with bench.client() as client:

        async def post(event_id: str) -> httpx2.Response:
            body, headers = bench.stripe(event_id)
            return await client.post("/webhooks/stripe", content=body, headers=headers)

        held = [asyncio.create_task(post(f"evt_{number}")) for number in range(2)]
        await asyncio.sleep(0.05)
        refused = await post("evt_more")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        assert refused.json()["error"]["code"] == "overloaded"
        bench.publisher.gate.set()
        assert [answer.status_code for answer in await asyncio.gather(*held)] == [200, 200]
        assert (await post("evt_more")).status_code == 200
    assert len(bench.publisher.records) == 3
    assert [receipt["outcome"] for receipt in bench.publisher.receipts].count("overloaded") == 1


@on_a_loop
async def test_a_body_is_counted_as_it_arrives(tmp_path: Path) -> None:
    """What is announced and never sent costs nobody else their place."""
    bench = Bench(tmp_path, ReceiverLimits(in_flight_bytes_max=1 << 20), body_bytes_max=1 << 20)
    body, headers = bench.stripe()

    def slowly(first: bytes) -> AsyncIterator[bytes]:
        async def parts() -> AsyncIterator[bytes]:
            yield first
            await asyncio.sleep(0.3)
            yield b" "

        return parts()

    async with bench.client() as client:
        announced = {**headers, "content-length": str((1 << 20) - 10)}
        post = functools.partial(client.post, "/webhooks/stripe")
        first = asyncio.create_task(post(content=slowly(body), headers=announced))
        await asyncio.sleep(0.1)
        assert (await post(content=body, headers=headers)).status_code == 200
        await first
        large = asyncio.create_task(post(content=slowly(b"x" * ((1 << 20) - 10)), headers=announced))
        await asyncio.sleep(0.1)
        assert (await post(content=body, headers=headers)).status_code == 200
        assert (await large).status_code == 408


@on_a_loop
async def test_a_provider_beyond_its_rate_is_reported_when_to_come_again_and_others_are_not_affected(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, rates_per_s={"stripe": 1.0})
    async with bench.client() as client:
        answers = []
        for number in range(3):
            body, headers = bench.stripe(f"evt_{number}")
            answers.append(await client.post("/webhooks/stripe", content=body, headers=headers))
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert answers[-1].headers["retry-after"] == "1"
        body, headers = bench.adyen("A")
        assert (await client.post("/webhooks/adyen", content=body, headers=headers)).status_code == 200
    assert len(bench.publisher.records) == 3


@on_a_loop
async def test_nobody_without_a_secret_uses_a_providers_rate_up(tmp_path: Path) -> None:
    bench = Bench(tmp_path, rates_per_s={"stripe": 1.0})
    async with bench.client() as client:
        body, headers = bench.stripe()
        forged = [await client.post("/webhooks/stripe", content=body + b" ", headers=headers) for _ in range(20)]
        assert {answer.status_code for answer in forged} == {401}
        assert (await client.post("/webhooks/stripe", content=body, headers=headers)).status_code == 200


@on_a_loop
async def test_a_request_without_events_uses_no_rate_up(tmp_path: Path) -> None:
    """An id that a stranger made up is answered as if Mollie knew it, and isn't signed."""
    bench = Bench(tmp_path, rates_per_s={"mollieclassic": 1.0})
    headers = {"content-type": FORM}
    url = "https://api.mollie.com/v2/payments/{}?embed=captures,refunds,chargebacks"
    known = mollie.payment("tr_known", amount_minor=500, currency="EUR", created=NOW)
    bench.fetch.by_url[url.format("tr_known")] = Fetched(200, mollie.fetched(known), 0)
    async with bench.client() as client:

        async def post(payment: str) -> int:
            content = f"id={payment}".encode()
            return (await client.post("/webhooks/mollieclassic", content=content, headers=headers)).status_code

        for number in range(20):
            bench.fetch.by_url[url.format(f"tr_{number}")] = Fetched(404, b"{}", 0)
            assert await post(f"tr_{number}") == 200
        assert [await post("tr_known") for _ in range(3)] == [200, 200, 429]
    assert len(bench.publisher.records) == 1


def test_a_claim_outlives_its_request_and_publishing_ends_before_the_shortest_time_out_of_a_provider() -> None:
    for wrong in ({"lease_s": 15.0}, {"publish_timeout_ms": 5_000}):
        with pytest.raises(AssertionError):
            ReceiverLimits(**wrong)
