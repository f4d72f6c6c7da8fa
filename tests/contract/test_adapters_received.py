"""What a provider sees of the receiver: its own acknowledgement, once and again, and its own refusal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest

from core.event import Dedupe, to_headers
from load.samples.sender import NOW, Sample
from providers import Request
from providers.port import FetchingAdapter
from tests.contract.adapter_cases import CASES
from tests.contract.adapter_cases.case import Case
from tests.unit.ingest.app_under_test import Bench


@pytest.fixture(params=sorted(CASES), scope="module")
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture
def bench(case: Case, tmp_path: Path) -> Bench:
    """A receiver that has the case's secret and settings."""
    made = Bench(tmp_path)
    made.adapters = {case.name: case.adapter()}
    (tmp_path / case.name).write_text(case.secrets[0] + "\n", "utf-8")
    return made


def post(bench: Bench, case: Case, request: Request) -> httpx2.Response:
    adapter = bench.adapters[case.name]
    if isinstance(adapter, FetchingAdapter) and request.fetched is not None:
        wanted = adapter.wants(request, case.secrets[:1])
        assert wanted is not None
        bench.fetch.by_url[wanted.url] = request.fetched

    async def posted() -> httpx2.Response:
        async with bench.client() as client:
            return await client.post(
                f"/webhooks/{case.name}", content=request.body, headers=[*request.headers, (b"host", b"receiver")]
            )

    return asyncio.run(posted())


def test_a_valid_request_is_published_and_acknowledged_as_the_provider_wants(bench: Bench, case: Case) -> None:
    request = case.valid()
    (event,) = case.adapter().events(request, "live")
    response = post(bench, case, request)
    accepted = case.adapter().accepted()
    assert (response.status_code, response.content) == (accepted.status, accepted.body)
    assert response.headers["content-type"] == accepted.content_type
    [(key, value, headers)] = bench.publisher.records
    assert (key, value) == (event.entity_key.encode(), event.body)
    sent = dict(to_headers(event, NOW, Dedupe.CLAIMED))
    assert headers == {name: text.decode() for name, text in sent.items()}


def test_a_redelivery_is_acknowledged_in_the_same_words_and_published_once(bench: Bench, case: Case) -> None:
    first, again = (post(bench, case, case.valid(Sample(delivery=number))) for number in (1, 2))
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers["idempotent-replayed"] == "true"
    assert len(bench.publisher.records) == 1


def test_one_event_with_two_amounts_is_published_as_a_conflict(bench: Bench, case: Case) -> None:
    for amount in (1_250, 1_251):
        assert post(bench, case, case.valid(Sample(amount_minor=amount))).is_success
    assert bench.publisher.flags == (["claimed", "conflict"] if case.names_amounts else ["claimed"])


def test_one_event_in_two_versions_of_an_api_is_published_once(bench: Bench, case: Case) -> None:
    for number, bodies in enumerate(case.renderings(), 1):
        for body in bodies:
            request = case.request(body.replace(b"evt_1", b"evt_%d" % number), case.secrets[0])
            assert post(bench, case, request).is_success
        assert bench.publisher.flags == ["claimed"] * number


def test_a_forged_request_is_refused_with_the_providers_status_and_leaves_nothing(bench: Bench, case: Case) -> None:
    response = post(bench, case, case.forged())
    assert response.status_code == case.adapter().signature_status
    assert response.json()["error"]["code"] == "signature_mismatch"
    assert bench.publisher.records == []


def test_a_batch_is_published_event_by_event(bench: Bench, case: Case) -> None:
    several = [Sample(event=f"e{number}", movement=f"m{number}", payment=f"p{number}") for number in range(3)]
    body = case.batch(several)
    if body is None:
        several = several[:1]
        body = case.body(several[0])
    assert post(bench, case, case.request(body, case.secrets[0], several[0])).is_success
    assert len(bench.publisher.records) == len(several)
