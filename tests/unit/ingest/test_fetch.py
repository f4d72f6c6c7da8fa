"""What is fetched from providers: kept, shared, asked with one credential after the other."""

from __future__ import annotations

import asyncio
import base64

import pytest

from core.clock import ManualClock
from ingest.fetch import HttpFetch
from ingest.provider_client import CredentialsRefused
from providers.port import Fetched, Wanted
from tests.unit.ingest.provider_server import SECRET, ProviderServer, failing, running, until


def test_what_is_wanted_comes_as_it_was_sent(provider: ProviderServer, clock: ManualClock) -> None:
    async def scene(fetching: HttpFetch) -> None:
        fetched = await fetching.fetch(Wanted(f"{provider.base}/v2/payments/tr_1?embed=refunds", 0, (SECRET,)))
        assert fetched == Fetched(200, b'{"id":"tr_1"} of 1', 0)

    running(scene, clock)
    assert provider.asked == [("/v2/payments/tr_1?embed=refunds", SECRET)]


def test_a_clients_id_and_secret_are_exchanged_for_a_token(provider: ProviderServer, clock: ManualClock) -> None:
    provider.body, provider.counting = b'{"access_token":"t-1","expires_in":600}', False
    wanted = Wanted(f"{provider.base}/event", bearers=("id:secret",), token_url=f"{provider.base}/token")

    async def scene(fetching: HttpFetch) -> None:
        await fetching.fetch(wanted)
        clock.advance(539)
        await fetching.fetch(wanted)
        clock.advance(1)
        await fetching.fetch(wanted)

    running(scene, clock)
    basic = f"Basic {base64.b64encode(b'id:secret').decode()}"
    assert provider.asked == [
        *[("/token", basic), ("/event", "t-1"), ("/event", "t-1")],
        *[("/token", basic), ("/event", "t-1")],
    ]


@pytest.mark.parametrize(
    "answer", [b"", b"{}", b'{"access_token":"two words","expires_in":600}', b'{"access_token":"t"}']
)
def test_what_is_no_token_is_asked_for_again_later(provider: ProviderServer, clock: ManualClock, answer: bytes) -> None:
    provider.body, provider.counting = answer, False

    async def scene(fetching: HttpFetch) -> None:
        wanted = Wanted(f"{provider.base}/e", bearers=("id:secret",), token_url=f"{provider.base}/token")
        assert "access_token" in (await failing(fetching, wanted)).problem

    running(scene, clock)
    assert [path for path, _ in provider.asked] == ["/token"]


def test_a_client_that_is_refused_is_named_and_a_broken_token_server_isnt_its_fault(
    provider: ProviderServer, clock: ManualClock
) -> None:
    wanted = Wanted(f"{provider.base}/e", bearers=("id:secret",), token_url=f"{provider.base}/token")

    async def scene(fetching: HttpFetch) -> None:
        provider.status["*"] = 401
        with pytest.raises(CredentialsRefused) as refused:
            await fetching.fetch(wanted)
        assert "secret" not in str(refused.value)
        provider.status["*"] = 500
        assert (await failing(fetching, wanted)).problem == "answered 500"

    running(scene, clock)


def test_a_token_is_asked_for_by_https_alone(provider: ProviderServer, clock: ManualClock) -> None:
    async def scene(fetching: HttpFetch) -> None:
        wanted = Wanted(f"{provider.base}/e", bearers=("id:secret",), token_url="http://api.example/token")
        assert "https" in (await failing(fetching, wanted)).problem

    running(scene, clock)
    assert provider.asked == []


def test_without_credentials_none_are_sent(provider: ProviderServer, clock: ManualClock) -> None:
    async def scene(fetching: HttpFetch) -> None:
        assert (await fetching.fetch(Wanted(f"{provider.base}/cert"))).status == 200

    running(scene, clock)
    assert provider.bearers == [""]


def test_an_answer_is_kept_for_as_long_as_the_adapter_allows_and_no_longer(
    provider: ProviderServer, clock: ManualClock
) -> None:
    async def scene(fetching: HttpFetch) -> None:
        cert = Wanted(f"{provider.base}/cert", kept_s=60)
        first = await fetching.fetch(cert)
        clock.advance(59.9)
        assert await fetching.fetch(cert) == first
        assert len(provider.asked) == 1
        clock.advance(0.1)
        assert await fetching.fetch(cert) != first
        assert len(provider.asked) == 2

    running(scene, clock)


def test_what_may_not_be_kept_is_asked_each_time_even_after_another_kept_it(
    provider: ProviderServer, clock: ManualClock
) -> None:
    async def scene(fetching: HttpFetch) -> None:
        await fetching.fetch(Wanted(f"{provider.base}/p", kept_s=60))
        for _ in range(2):
            await fetching.fetch(Wanted(f"{provider.base}/p"))
        assert len(provider.asked) == 3

    running(scene, clock)


def test_what_one_credential_may_see_is_not_shown_to_another(provider: ProviderServer, clock: ManualClock) -> None:
    async def scene(fetching: HttpFetch) -> None:
        await fetching.fetch(Wanted(f"{provider.base}/p", 60, ("one",)))
        await fetching.fetch(Wanted(f"{provider.base}/p", 60, ("other",)))

    running(scene, clock)
    assert provider.bearers == ["one", "other"]


def test_one_credentials_answer_under_way_is_not_shared_with_another(
    provider: ProviderServer, clock: ManualClock
) -> None:
    async def scene(fetching: HttpFetch) -> None:
        provider.open.clear()
        asking = [asyncio.create_task(fetching.fetch(Wanted(f"{provider.base}/p", 60, (key,)))) for key in "ab"]
        await until(lambda: len(provider.asked) == 2)
        provider.open.set()
        await asyncio.gather(*asking)

    running(scene, clock)
    assert sorted(provider.bearers) == ["a", "b"]


def test_an_answer_to_a_credential_is_kept_for_that_credential(provider: ProviderServer, clock: ManualClock) -> None:
    async def scene(fetching: HttpFetch) -> None:
        for _ in range(3):
            await fetching.fetch(Wanted(f"{provider.base}/p", 60, ("one",)))

    running(scene, clock)
    assert provider.bearers == ["one"]


@pytest.mark.parametrize("status", [404, 410])
def test_what_is_gone_is_handed_over_and_not_kept(provider: ProviderServer, clock: ManualClock, status: int) -> None:
    provider.status["*"] = status

    async def scene(fetching: HttpFetch) -> None:
        for _ in range(2):
            assert (await fetching.fetch(Wanted(f"{provider.base}/p", 60))).status == status

    running(scene, clock)
    assert len(provider.asked) == 2


def test_the_least_used_of_too_many_kept_answers_is_dropped(provider: ProviderServer, clock: ManualClock) -> None:
    async def scene(fetching: HttpFetch) -> None:
        for path in ("/a", "/b", "/a", "/c", "/a", "/b"):
            await fetching.fetch(Wanted(provider.base + path, kept_s=60))

    running(scene, clock, kept_max=2)
    assert [path for path, _ in provider.asked] == ["/a", "/b", "/c", "/b"]


def test_all_who_want_what_may_be_kept_share_the_request_under_way(
    provider: ProviderServer, clock: ManualClock
) -> None:
    async def scene(fetching: HttpFetch) -> None:
        provider.open.clear()
        cert = Wanted(f"{provider.base}/cert", kept_s=60)
        first = asyncio.create_task(fetching.fetch(cert))
        await until(lambda: len(provider.asked) == 1)
        others = [asyncio.create_task(fetching.fetch(cert)) for _ in range(20)]
        await asyncio.sleep(0)
        provider.open.set()
        answers = await asyncio.gather(first, *others)
        assert len(set(answers)) == 1

    running(scene, clock)
    assert len(provider.asked) == 1


def test_a_later_webhook_never_takes_an_answer_that_is_older_than_itself(
    provider: ProviderServer, clock: ManualClock
) -> None:
    """The answer under way may have been made before what the later webhook is about: it shares the next one."""

    async def scene(fetching: HttpFetch) -> None:
        provider.open.clear()
        payment = Wanted(f"{provider.base}/p", bearers=("key",))
        first = asyncio.create_task(fetching.fetch(payment))
        await until(lambda: len(provider.asked) == 1)
        later = [asyncio.create_task(fetching.fetch(payment)) for _ in range(20)]
        await asyncio.sleep(0.05)
        assert len(provider.asked) == 1
        provider.open.set()
        assert (await first).body.endswith(b" of 1")
        assert {fetched.body for fetched in await asyncio.gather(*later)} == {b'{"id":"tr_1"} of 2'}

    running(scene, clock)
    assert len(provider.asked) == 2


def test_who_goes_away_does_not_take_the_answer_from_others(provider: ProviderServer, clock: ManualClock) -> None:
    async def scene(fetching: HttpFetch) -> None:
        provider.open.clear()
        cert = Wanted(f"{provider.base}/cert", kept_s=60)
        gone, stays = (asyncio.create_task(fetching.fetch(cert)) for _ in range(2))
        await until(lambda: len(provider.asked) == 1)
        gone.cancel()
        provider.open.set()
        assert (await stays).status == 200
        with pytest.raises(asyncio.CancelledError):
            await gone

    running(scene, clock)


def test_a_refused_credential_is_followed_by_the_next(provider: ProviderServer, clock: ManualClock) -> None:
    provider.status = {"old": 401, "other": 403}

    async def scene(fetching: HttpFetch) -> None:
        assert (await fetching.fetch(Wanted(f"{provider.base}/p", 0, ("old", "other", "new", "spare")))).bearer == 2

    running(scene, clock)
    assert provider.bearers == ["old", "other", "new"]


def test_when_all_credentials_are_refused_the_operator_has_to_act(provider: ProviderServer, clock: ManualClock) -> None:
    provider.status = {"*": 401}

    async def scene(fetching: HttpFetch) -> None:
        with pytest.raises(CredentialsRefused) as caught:
            await fetching.fetch(Wanted(f"{provider.base}/p?q=1", 0, ("a-secret", SECRET)))
        assert caught.value.refused == (0, 1)
        assert caught.value.url == f"{provider.base}/p"

    assert running(scene, clock).failures == 1


def test_a_payment_that_another_credential_knows_is_found(provider: ProviderServer, clock: ManualClock) -> None:
    provider.status = {"live": 404}

    async def scene(fetching: HttpFetch) -> None:
        fetched = await fetching.fetch(Wanted(f"{provider.base}/p", 0, ("live", "test")))
        assert (fetched.status, fetched.bearer) == (200, 1)

    running(scene, clock)


def test_a_payment_is_not_gone_while_a_refused_credential_might_know_it(
    provider: ProviderServer, clock: ManualClock
) -> None:
    provider.status = {"mistyped": 401, "test": 404}

    async def scene(fetching: HttpFetch) -> None:
        with pytest.raises(CredentialsRefused) as caught:
            await fetching.fetch(Wanted(f"{provider.base}/p", 0, ("mistyped", "test")))
        assert caught.value.refused == (0,)

    running(scene, clock)
