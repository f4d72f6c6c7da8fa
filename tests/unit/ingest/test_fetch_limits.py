"""The limits of fetching: addresses, sizes, times, who waits, hosts that fail, and what may be said of it."""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
from dataclasses import replace
from types import SimpleNamespace

import pybreaker
import pytest

from core.clock import ManualClock
from ingest.fetch import HttpFetch
from ingest.provider_client import CredentialsRefused, FetchFailed
from load.samples import mollie
from providers.mollieclassic import MollieClassicAdapter
from providers.port import Request, Wanted
from providers.settings import ProvidersSettings
from tests.unit.ingest.provider_server import NOW, SECRET, ProviderServer, failing, running, until


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(provider: ProviderServer, clock: ManualClock, status: int) -> None:
    provider.status["*"] = status
    provider.headers["location"] = "/elsewhere"

    async def scene(fetching: HttpFetch) -> None:
        assert f"answered {status}" in (await failing(fetching, Wanted(f"{provider.base}/p", 0, (SECRET,)))).problem

    running(scene, clock)
    assert [path for path, _ in provider.asked] == ["/p"]


@pytest.mark.parametrize(
    "url",
    [
        "http://api.example.com/p",
        "http://127.0.0.1.example.com/p",
        "http://10.0.0.1/p",
        "ftp://127.0.0.1/p",
        "file:///etc/passwd",
        "https://user:pass@api.example.com/p",
        "https://",
        "//api.example.com/p",
        "api.example.com",
        "",
        "https://exa mple.com\x00/p",
    ],
)
def test_only_https_is_fetched(clock: ManualClock, url: str) -> None:
    async def scene(fetching: HttpFetch) -> None:
        assert "pass" not in str(await failing(fetching, Wanted(url))).replace("passwd", "")

    running(scene, clock)


def test_plain_http_to_the_loopback_address_needs_to_be_allowed(provider: ProviderServer, clock: ManualClock) -> None:
    async def scene(fetching: HttpFetch) -> None:
        await failing(fetching, Wanted(f"{provider.base}/p"))

    running(scene, clock, loopback=False)
    assert provider.asked == []


@pytest.mark.parametrize("chunks", [1, 8])
def test_an_answer_beyond_the_limit_is_refused(provider: ProviderServer, clock: ManualClock, chunks: int) -> None:
    provider.body, provider.chunks = b"x" * (2_048 // chunks), chunks

    async def scene(fetching: HttpFetch) -> None:
        assert "larger than 1024 bytes" in (await failing(fetching, Wanted(f"{provider.base}/p"))).problem

    running(scene, clock, answer_bytes_max=1_024)


def test_a_compressed_answer_is_refused_because_it_may_unpack_to_any_size(
    provider: ProviderServer, clock: ManualClock
) -> None:
    provider.headers["content-encoding"] = "gzip"

    async def scene(fetching: HttpFetch) -> None:
        assert "compressed" in (await failing(fetching, Wanted(f"{provider.base}/p"))).problem

    running(scene, clock)


def test_nobody_waits_for_a_slow_provider_beyond_the_time_out(provider: ProviderServer, clock: ManualClock) -> None:
    provider.open.clear()

    async def scene(fetching: HttpFetch) -> None:
        assert "no answer within 0.2 s" in (await failing(fetching, Wanted(f"{provider.base}/p"))).problem

    running(scene, clock, timeout_s=0.2)


def test_who_finds_no_place_in_time_is_put_off_and_it_is_not_the_hosts_fault(
    provider: ProviderServer, clock: ManualClock
) -> None:
    async def scene(fetching: HttpFetch) -> None:
        async with fetching._places:
            waiting = [failing(fetching, Wanted(f"{provider.base}/{n}")) for n in range(5)]
            assert all("no place" in failed.problem for failed in await asyncio.gather(*waiting))
        assert provider.asked == []
        fetching._limits = replace(fetching._limits, timeout_s=60.0)
        assert (await fetching.fetch(Wanted(f"{provider.base}/b"))).status == 200

    running(scene, clock, timeout_s=0.1, at_once_max=1, failures_max=2)


def test_one_more_than_may_wait_is_put_off_at_once(provider: ProviderServer, clock: ManualClock) -> None:
    async def scene(fetching: HttpFetch) -> None:
        provider.open.clear()
        waiting = [asyncio.create_task(fetching.fetch(Wanted(f"{provider.base}/{n}"))) for n in range(3)]
        await until(lambda: len(provider.asked) == 2)
        assert "3 requests wait" in (await failing(fetching, Wanted(f"{provider.base}/x"))).problem
        provider.open.set()
        await asyncio.gather(*waiting)
        assert (await fetching.fetch(Wanted(f"{provider.base}/x"))).status == 200

    # A third of each is one domain's.
    running(scene, clock, waiting_max=9, at_once_max=6)


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_host_that_keeps_failing_is_left_alone_and_asked_again_after_its_time(
    provider: ProviderServer, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(pybreaker, "datetime", SimpleNamespace(now=lambda _: clock.now()))
    provider.status["*"] = status

    async def scene(fetching: HttpFetch) -> None:
        for _ in range(8):
            await failing(fetching, Wanted(f"{provider.base}/p"))
        assert len(provider.asked) == 3
        assert "isn't asked" in (await failing(fetching, Wanted(f"{provider.base}/p"))).problem
        provider.status.clear()
        clock.advance(1.1)
        for _ in range(3):
            assert (await fetching.fetch(Wanted(f"{provider.base}/p"))).status == 200

    assert running(scene, clock, failures_max=3, reset_s=1.0).failures == 9


def test_a_host_that_is_not_there_counts_as_failing(clock: ManualClock) -> None:
    async def scene(fetching: HttpFetch) -> None:
        problems = [(await failing(fetching, Wanted("http://127.0.0.1:1/p"))).problem for _ in range(4)]
        assert problems[:2] == ["ConnectError", "ConnectError"]
        assert all("isn't asked" in problem for problem in problems[2:])

    running(scene, clock, failures_max=2)


@pytest.mark.parametrize("status", [400, 402, 418, 302, 401])
def test_what_is_wrong_with_one_request_does_not_shut_out_the_others(
    provider: ProviderServer, clock: ManualClock, status: int
) -> None:
    provider.status["*"] = status

    async def scene(fetching: HttpFetch) -> None:
        for _ in range(5):
            await failing(fetching, Wanted(f"{provider.base}/p"))
        assert len(provider.asked) == 5

    running(scene, clock, failures_max=2)


def test_one_hosts_breaker_does_not_hold_another_up(provider: ProviderServer, clock: ManualClock) -> None:
    async def scene(fetching: HttpFetch) -> None:
        for _ in range(3):
            await failing(fetching, Wanted("http://127.0.0.1:1/p"))
        assert (await fetching.fetch(Wanted(f"{provider.base}/p"))).status == 200

    running(scene, clock, failures_max=2)


def test_breakers_are_remembered_for_a_bounded_number_of_hosts(provider: ProviderServer, clock: ManualClock) -> None:
    async def scene(fetching: HttpFetch) -> None:
        for host in ("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"):
            await failing(fetching, Wanted(f"http://{host}/p"))
        assert list(fetching._breakers) == ["127.0.0.1:2", "127.0.0.1:3"]

    running(scene, clock, hosts_max=2)


def test_nothing_of_credentials_or_queries_is_reported_to_anybody(
    provider: ProviderServer, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wanted = Wanted(f"{provider.base}/p?token=hush", 0, (SECRET,))

    async def scene(fetching: HttpFetch) -> None:
        for status in (500, 400, 302, 401):
            provider.status["*"] = status
            with pytest.raises((FetchFailed, CredentialsRefused)) as caught:
                await fetching.fetch(wanted)
            assert caught.value.__cause__ is None
            assert "hush" not in str(caught.value)
            assert SECRET not in str(caught.value)

    running(scene, clock)
    assert SECRET not in caplog.text
    assert SECRET not in repr(wanted)


def test_hosts_leave_no_cookies(provider: ProviderServer, clock: ManualClock) -> None:
    provider.headers["set-cookie"] = "seen=1; Path=/"

    async def scene(fetching: HttpFetch) -> None:
        await fetching.fetch(Wanted(f"{provider.base}/p"))
        assert list(fetching._provider._client.cookies.jar) == []

    running(scene, clock)


def test_what_is_under_way_at_the_end_is_given_up_and_said_to_be(provider: ProviderServer, clock: ManualClock) -> None:
    async def scene(fetching: HttpFetch) -> None:
        provider.open.clear()
        waiting = asyncio.create_task(failing(fetching, Wanted(f"{provider.base}/p")))
        await until(lambda: len(provider.asked) == 1)
        await fetching.close()
        assert "the receiver ends" in (await waiting).problem

    running(scene, clock)


def test_what_an_adapter_wants_is_fetched_and_reported(provider: ProviderServer, clock: ManualClock) -> None:
    """Mollie's classic delivery from its id to its events; the second key is the one that Mollie takes."""
    adapter = MollieClassicAdapter(ProvidersSettings(), provider.base)
    old, new = adapter.new_secret(), adapter.new_secret()
    paid = mollie.payment("tr_1", amount_minor=1_000, currency="EUR", created=NOW)
    provider.body, provider.counting = mollie.fetched(paid), False
    provider.status = {old: 401}

    async def scene(fetching: HttpFetch) -> None:
        delivery = Request(b"id=tr_1", [])
        wanted = adapter.wants(delivery, [old, new])
        assert wanted is not None
        proven = replace(delivery, fetched=await fetching.fetch(wanted))
        assert adapter.verify(proven, [old, new], NOW) == 1
        assert [event.event_key for event in adapter.events(proven, "live")] == ["mollieclassic:tr_1:payment.paid"]

    running(scene, clock)
    assert provider.asked[1] == ("/v2/payments/tr_1?embed=captures,refunds,chargebacks", new)


def test_nothing_is_left_behind_by_many_fetches(provider: ProviderServer, clock: ManualClock) -> None:
    async def scene(fetching: HttpFetch) -> None:
        await asyncio.gather(*(fetching.fetch(Wanted(f"{provider.base}/{n % 7}")) for n in range(60)))
        await until(lambda: not fetching._flights)
        assert (fetching._waiting, len(fetching._kept), fetching._places._value) == (0, 0, 4)

    running(scene, clock, at_once_max=4)


def test_a_breaker_that_opens_is_logged(
    provider: ProviderServer, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(fetching: HttpFetch) -> None:
        await failing(fetching, Wanted("http://127.0.0.1:1/p"))
        assert fetching._breakers["127.0.0.1:1"].current_state == pybreaker.STATE_OPEN

    running(scene, clock, failures_max=1)
    assert "the breaker to 127.0.0.1:1 is open" in caplog.text


@pytest.mark.parametrize(
    "error", [FetchFailed("https://api.example.com/p", "answered 500"), CredentialsRefused("https://x/p", (0, 1))]
)
def test_errors_travel_and_are_copied_whole(error: Exception) -> None:
    for back in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert str(back) == str(error)
        assert vars(back) == vars(error)
