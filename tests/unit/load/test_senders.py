"""What the senders put on the wire, and what they do while a receiver stands still."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest

from core.clock import ManualClock
from load import open_loop
from load.open_loop import CONNECTIONS_MAX, Answer, post_at_rate
from load.traffic import PROVIDERS, MixedRequests, Traffic, Webhook
from providers import ProvidersSettings, Request, build_adapters

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
SECRETS = {"stripe": "whsec_x", "adyen": "ab" * 32, "standardwebhooks": "whsec_" + "c2VjcmV0" * 4}
SENT = 3 * CONNECTIONS_MAX
LATER_S = 900.0
"""Longer than any provider's signature counts."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def traffic(tmp_path: Path, clock: ManualClock) -> Traffic:
    for provider, secret in SECRETS.items():
        (tmp_path / provider).write_text(secret, "utf-8")
    return Traffic(tmp_path, clock, random.Random(7), "p")


def taken_apart(request: bytes) -> tuple[str, Request]:
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    assert int(headers["content-length"]) == len(body)
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    return first.split()[1].rpartition("/")[2], Request(body, raw)


def test_a_mixed_load_holds_one_new_signed_event_a_request_of_each_provider_in_turn(
    traffic: Traffic, clock: ManualClock
):
    adapters = build_adapters(ProvidersSettings())
    sent = [taken_apart(request) for request in MixedRequests(traffic, 6)]
    assert {provider for provider, _ in sent} == set(PROVIDERS)
    keys = []
    for provider, request in sent:
        adapters[provider].verify(request, [SECRETS[provider]], clock.now())
        keys += [event.event_key for event in adapters[provider].events(request, "live")]
    assert len(set(keys)) == len(sent)


def test_a_request_of_a_mixed_load_is_signed_when_it_is_asked_for(traffic: Traffic, clock: ManualClock):
    requests = MixedRequests(traffic, 3)
    clock.advance(LATER_S)
    provider, request = taken_apart(requests[0])
    build_adapters(ProvidersSettings())[provider].verify(request, [SECRETS[provider]], clock.now())


def test_a_receiver_that_stands_still_gets_no_more_at_once_than_there_are_connections(
    traffic: Traffic, monkeypatch: pytest.MonkeyPatch
):
    goes_on = asyncio.Event()
    under_way: list[int] = []
    most = [0]

    async def slow(_: httpx2.AsyncClient, webhook: Webhook) -> Answer:
        under_way.append(1)
        most[0] = max(most[0], len(under_way))
        await goes_on.wait()
        under_way.pop()
        return Answer(webhook, 200, 0.0)

    def progress(sent: int) -> None:
        if sent == SENT:
            asyncio.get_running_loop().call_later(0.05, goes_on.set)

    monkeypatch.setattr(open_loop, "post", slow)
    answers = asyncio.run(post_at_rate("http://localhost", traffic.single, SENT * 32.0, 1 / 32, progress))
    assert len(answers) == SENT
    assert most == [CONNECTIONS_MAX]
    assert max(answer.seconds for answer in answers) > 0.04
