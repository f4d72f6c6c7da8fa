"""Webhooks that only point to what happened, from the request to what is published: the provider's API is a stub."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from core.clock import ManualClock
from ingest.fetch import HttpFetch
from ingest.provider_client import open_client
from load.samples import mollie
from providers.mollieclassic import MollieClassicAdapter
from providers.port import FORM
from providers.settings import ProvidersSettings
from tests.unit.ingest.app_under_test import NOW, Bench
from tests.unit.ingest.provider_server import Provider, passing

TOKEN = "access_" + "A1b2C3d4E5" * 3


class Pointed(Bench):
    """A receiver that asks the stub by HTTP."""

    def __init__(self, folder: Path, provider: Provider, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.provider = provider
        provider.counting = False
        self.adapters["mollieclassic"] = MollieClassicAdapter(ProvidersSettings(), provider.base)

    async def post(self, body: bytes, headers: dict[str, str], path: str = "/webhooks/stripe") -> httpx2.Response:
        async with open_client() as client:
            fetch = HttpFetch(client, self.clock, loopback=True, sleep=passing(self.clock))
            fetch._absences = self.absences = getattr(self, "absences", fetch._absences)
            self.fetch = fetch  # type: ignore[assignment]
            answer = await super().post(body, headers, path)
            await fetch.close()
            return answer

    def send(self, body: bytes, headers: dict[str, str], path: str) -> tuple[int, str, str | None]:
        """Status, error code and Retry-After."""
        answer = asyncio.run(self.post(body, headers, path))
        code = "" if answer.is_success else answer.json()["error"]["code"]
        return answer.status_code, code, answer.headers.get("retry-after")


def classic(bench: Pointed, reference: bytes = b"tr_1", path: str = "mollieclassic") -> tuple[int, str, str | None]:
    return bench.send(b"id=" + reference, {"content-type": FORM}, f"/webhooks/{path}")


def paid(**more: Any) -> bytes:
    return mollie.fetched(mollie.payment("tr_1", amount_minor=500, currency="EUR", created=NOW) | more)


@pytest.fixture
def bench(tmp_path: Path, provider: Provider) -> Iterator[Pointed]:
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


def test_a_test_payment_is_fetched_with_an_oauth_token_at_the_test_endpoint(tmp_path: Path, provider: Provider) -> None:
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
