"""Nothing of a card number leaves the receiver: not to Kafka, nor in answers, logs, metrics, receipts or headers."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from prometheus_client import generate_latest

from core.event import WITHHELD_SHA256, Event, Mode
from core.log import JsonFormatter
from ingest.metrics import IngestMetrics
from providers.port import Request
from tests.unit.ingest import app_under_test
from tests.unit.ingest.app_under_test import MASKING_KEY, Bench

CARD, HIDDEN = "4111111111111111", "411111******1111"
MIDDLE = CARD[4:14]


class StderrLines(logging.Handler):
    """What the process would write on stderr."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.setFormatter(JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        self.text += self.format(record) + "\n"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> IngestMetrics:
    made = IngestMetrics()
    monkeypatch.setattr(app_under_test, "IngestMetrics", lambda: made)
    return made


@pytest.fixture
def lines() -> Iterator[StderrLines]:
    handler = StderrLines()
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.removeHandler(handler)
    root.setLevel(before)


def reported(bench: Bench, metrics: IngestMetrics, lines: StderrLines) -> str:
    """All that was written about requests, but for what ids say."""
    return (
        repr(bench.publisher.records)
        + repr(bench.publisher.receipts)
        + lines.text
        + str(generate_latest(metrics.registry))
    )


def test_an_event_reaches_kafka_masked_without_a_codes_hash(bench: Bench, metrics: IngestMetrics, lines: StderrLines):
    plain, _ = bench.stripe()
    whole = json.loads(plain)
    whole["data"]["object"] |= {"description": f"card {CARD}", "card": {"number": CARD, "cvc": "737"}}
    body, headers = bench.signed("stripe", json.dumps(whole).encode())
    answer = asyncio.run(bench.post(body, headers))
    assert answer.status_code == 200
    [(_, value, sent)] = bench.publisher.records
    charge = json.loads(value)["data"]["object"]
    assert charge["description"] == f"card {HIDDEN}"
    assert charge["card"] == {"number": "************1111", "cvc": "***"}
    assert sent["original_sha256"] == WITHHELD_SHA256
    assert "original_content_sha256" not in sent
    assert hashlib.sha256(body).hexdigest() not in reported(bench, metrics, lines)
    assert sent["body_sha256"] == hashlib.sha256(value).hexdigest()
    assert MIDDLE not in reported(bench, metrics, lines)


def test_a_redelivery_of_a_masked_event_is_its_duplicate(bench: Bench):
    plain, _ = bench.stripe()
    body, headers = bench.signed("stripe", plain.replace(b'"order_id": "', f'"order_id": "{CARD} '.encode()))

    async def twice() -> list[httpx2.Response]:
        async with bench.client() as client:
            return [await client.post("/webhooks/stripe", content=body, headers=headers) for _ in range(2)]

    answers = asyncio.run(twice())
    assert [answer.headers.get("idempotent-replayed") for answer in answers] == [None, "true"]
    assert len(bench.publisher.records) == 1


@pytest.mark.parametrize(
    "body",
    [
        f'{{"id": "evt_1", "type": {CARD}}}',
        f'{{"id": "evt_1", "card": "{CARD}',
        f'{{"id": "evt_1", "card": "{CARD}", "card": "{CARD}"}}',
        f"card={CARD}",
    ],
)
def test_poison_reaches_kafka_masked(bench: Bench, metrics: IngestMetrics, lines: StderrLines, body: str):
    signed, headers = bench.signed("stripe", body.encode())
    answer = asyncio.run(bench.post(signed, headers))
    assert answer.status_code == 200
    [(_, _, sent)] = bench.publisher.records
    assert sent["poison"]
    assert sent["original_sha256"] == MASKING_KEY.sha256(signed)
    assert hashlib.sha256(signed).hexdigest() not in reported(bench, metrics, lines)
    assert MIDDLE not in answer.text + reported(bench, metrics, lines)


def test_an_adapter_that_quotes_the_body_tells_nobody(
    bench: Bench, metrics: IngestMetrics, lines: StderrLines, monkeypatch: pytest.MonkeyPatch
):
    def fails(request: Request, mode: Mode) -> list[Event]:
        raise ValueError(f"what is {request.body!r}?")

    monkeypatch.setattr(bench.adapters["stripe"], "events", fails)
    body, headers = bench.signed("stripe", f'{{"card": "{CARD}"}}'.encode())
    answer = asyncio.run(bench.post(body, headers))
    assert answer.status_code == 200
    assert "ValueError" in lines.text
    assert MIDDLE not in answer.text + reported(bench, metrics, lines)


@pytest.mark.parametrize(
    ("path", "extra", "status"),
    [
        (f"/webhooks/{CARD}", {}, 404),
        (f"/webhooks/stripe/{CARD} 1", {}, 404),
        (f"/webhooks/stripe/a/{CARD}", {}, 404),
        ("/webhooks/stripe", {"Content-Encoding": CARD}, 415),
        ("/webhooks/stripe", {"Content-Type": f"text/{CARD}"}, 415),
        ("/webhooks/stripe", {"Stripe-Signature": f"t={CARD},v1={CARD}"}, 401),
        ("/webhooks/stripe", {"Stripe-Signature": CARD}, 401),
        ("/webhooks/paypal", {"paypal-cert-url": f"https://{CARD}.example/{CARD}"}, 401),
        ("/webhooks/mollieclassic", {"Content-Type": "application/x-www-form-urlencoded"}, 401),
    ],
)
def test_no_refusal_quotes_what_it_refuses(
    bench: Bench, metrics: IngestMetrics, lines: StderrLines, path: str, extra: dict[str, str], status: int
):
    _, headers = bench.stripe()
    answer = asyncio.run(bench.post(f'{{"card": "{CARD}"}}'.encode(), headers | extra, path))
    assert answer.status_code == status
    assert MIDDLE not in answer.text + str(answer.headers) + reported(bench, metrics, lines)
    assert bench.publisher.records == []
