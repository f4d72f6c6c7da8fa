"""What a provider doesn't know yet is asked for again, within the request and after it; hosts may ask for a pause."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from core.clock import ManualClock
from ingest.fetch import HttpFetch
from ingest.provider_client import FetchFailed, NotThereYet
from providers.port import Wanted
from tests.unit.ingest.provider_server import SECRET, ProviderServer, failing, running, until


def wanted(provider: ProviderServer, **more: Any) -> Wanted:
    return Wanted(f"{provider.base}/p", bearers=(SECRET,), **{"may_appear": True, "within_s": 10.0, **more})


async def absent(fetching: HttpFetch, what: Wanted) -> float:
    """After how long it may be asked for again."""
    with pytest.raises(NotThereYet) as caught:
        await fetching.fetch(what)
    assert caught.value.retry_after_s is not None
    return caught.value.retry_after_s


@pytest.mark.parametrize("status", [404, 410])
def test_what_appears_a_second_later_is_found_within_the_request(
    provider: ProviderServer, clock: ManualClock, status: int
) -> None:
    provider.first = [status]

    async def scene(fetching: HttpFetch) -> None:
        assert (await fetching.fetch(wanted(provider))).status == 200
        assert clock.monotonic_s() == 1.0

    running(scene, clock)
    assert len(provider.asked) == 2


def test_it_is_asked_for_after_1_and_5_s_and_then_the_provider_is_to_send_again(
    provider: ProviderServer, clock: ManualClock
) -> None:
    provider.status["*"] = 404

    async def scene(fetching: HttpFetch) -> None:
        assert await absent(fetching, wanted(provider)) == 30.0
        assert clock.monotonic_s() == 6.0

    running(scene, clock)
    assert len(provider.asked) == 3


def test_no_request_waits_for_longer_than_its_provider_does(provider: ProviderServer, clock: ManualClock) -> None:
    provider.status["*"] = 404

    async def scene(fetching: HttpFetch) -> None:
        assert await absent(fetching, wanted(provider, within_s=5.0)) == 5.0
        assert clock.monotonic_s() == 1.0

    running(scene, clock)


def test_tries_are_remembered_between_deliveries_and_a_delivery_too_early_asks_nobody(
    provider: ProviderServer, clock: ManualClock
) -> None:
    provider.status["*"] = 404

    async def scene(fetching: HttpFetch) -> None:
        await absent(fetching, wanted(provider))
        clock.advance(10)
        assert await absent(fetching, wanted(provider)) == 20.0
        assert len(provider.asked) == 3
        clock.advance(20)
        assert (await fetching.fetch(wanted(provider))).status == 404
        assert len(provider.asked) == 4

    running(scene, clock)


def test_what_was_given_up_is_asked_for_once_a_delivery_and_found_when_it_is_there(
    provider: ProviderServer, clock: ManualClock
) -> None:
    provider.first = [404] * 5

    async def scene(fetching: HttpFetch) -> None:
        await absent(fetching, wanted(provider))
        clock.advance(30)
        for status in (404, 404, 200, 200):
            assert (await fetching.fetch(wanted(provider))).status == status

    running(scene, clock)
    assert len(provider.asked) == 7


def test_what_was_found_is_forgotten(provider: ProviderServer, clock: ManualClock) -> None:
    provider.first = [404, 200, 404]

    async def scene(fetching: HttpFetch) -> None:
        for _ in range(2):
            began = clock.monotonic_s()
            assert (await fetching.fetch(wanted(provider))).status == 200
            assert clock.monotonic_s() - began == 1.0

    running(scene, clock)


def test_two_deliveries_at_once_count_as_one_try(provider: ProviderServer, clock: ManualClock) -> None:
    provider.first = [404, 404]

    async def scene(fetching: HttpFetch) -> None:
        with pytest.raises(FetchFailed):
            await asyncio.gather(*(fetching.fetch(wanted(provider, within_s=0.0)) for _ in range(8)))
        clock.advance(1)
        assert (await fetching.fetch(wanted(provider))).status == 200

    running(scene, clock)


def test_made_up_ids_keep_no_more_than_a_part_of_those_who_wait_asleep(
    provider: ProviderServer, clock: ManualClock
) -> None:
    """Anybody posts ids to Mollie's endpoint: real ones must find room meanwhile."""
    provider.status["*"] = 404
    asleep = asyncio.Semaphore(0)

    async def scene(fetching: HttpFetch) -> None:
        fetching._sleep = lambda _: asleep.acquire()  # type: ignore[assignment,return-value]
        asks = [Wanted(f"{provider.base}/{n}", may_appear=True, within_s=10.0) for n in range(3)]
        sleeping = [asyncio.create_task(fetching.fetch(one)) for one in asks[:2]]
        await until(lambda: sum(share.asleep for share in fetching._shares.values()) == 2)
        assert await absent(fetching, asks[2]) == 1.0
        for one in sleeping:
            one.cancel()
        await asyncio.gather(*sleeping, return_exceptions=True)
        assert sum(share.asleep for share in fetching._shares.values()) == 0

    running(scene, clock, waiting_max=24)


def test_only_so_many_absences_are_remembered(provider: ProviderServer, clock: ManualClock) -> None:
    provider.status["*"] = 404

    async def scene(fetching: HttpFetch) -> None:
        for n in range(5):
            await absent(fetching, Wanted(f"{provider.base}/{n}", may_appear=True, within_s=0.0))
        assert len(fetching._absences) == 3

    running(scene, clock, absent_max=3)


def test_a_host_that_asks_for_a_pause_gets_it_and_the_provider_of_the_webhook_is_told(
    provider: ProviderServer, clock: ManualClock
) -> None:
    provider.first, provider.headers["retry-after"] = [429], "7"

    async def scene(fetching: HttpFetch) -> None:
        assert (await failing(fetching, wanted(provider))).retry_after_s == 7.0
        clock.advance(2)
        assert (await failing(fetching, Wanted(f"{provider.base}/other"))).retry_after_s == 5.0
        assert len(provider.asked) == 1
        clock.advance(5)
        assert (await fetching.fetch(wanted(provider))).status == 200

    running(scene, clock)


@pytest.mark.parametrize(("said", "pause_s"), [("0", 0.0), ("soon", None), ("999999999", 60.0)])
def test_no_pause_is_longer_than_a_minute(
    provider: ProviderServer, clock: ManualClock, said: str, pause_s: float | None
) -> None:
    provider.first, provider.headers["retry-after"] = [429], said

    async def scene(fetching: HttpFetch) -> None:
        assert (await failing(fetching, wanted(provider))).retry_after_s == pause_s
        clock.advance(pause_s or 0)
        assert (await fetching.fetch(wanted(provider))).status == 200

    running(scene, clock)


def test_a_credential_may_ask_in_words_of_its_own(provider: ProviderServer, clock: ManualClock) -> None:
    provider.status["api-key"] = 404

    async def scene(fetching: HttpFetch) -> None:
        for path in ("/p", "/p?embed=refunds"):
            what = Wanted(provider.base + path, bearers=("api-key", "token"), queries=("", "testmode=true"))
            assert (await fetching.fetch(what)).bearer == 1

    running(scene, clock)
    assert [path for path, _ in provider.asked] == [
        *("/p", "/p?testmode=true"),
        *("/p?embed=refunds", "/p?embed=refunds&testmode=true"),
    ]
