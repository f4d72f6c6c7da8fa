"""A minute without the merchant directory, on the whole stack, by the wall clock; the processor is killed amid it."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from load.client import wait_for
from load.embedded import embedded_stack
from load.open_loop import Answer, post_at_rate
from processor.calls.downstream import PROBES
from processor.settings import DownstreamSettings
from tests.e2e.conftest import Stack, assert_once
from tests.merchant_service import MerchantService, found, ill

SETTINGS = DownstreamSettings()
OUTAGE_S, BEFORE_S, AFTER_S, PER_S = 60.0, 10.0, 10.0, 20.0
APPLIED_S = 600.0
"""The breaker's longest wait, and some thirty batches: only a dead machine takes so long."""
CALLS_MAX = SETTINGS.failures_to_open + SETTINGS.concurrency_max + math.ceil(OUTAGE_S / SETTINGS.reset_s) * PROBES
"""Those that open the breaker, those under way meanwhile, and the probes."""


@pytest.fixture
def service() -> Iterator[MerchantService]:
    running = MerchantService()
    yield running
    running.stop()


@pytest.fixture
def stack(
    service: MerchantService, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """A stack whose ledger asks the service for every new account."""
    monkeypatch.setenv("PAYHOOK_LEDGER__MERCHANTS_URL", service.url)
    with embedded_stack(tmp_path_factory.mktemp("stack")) as data_dir:
        yield Stack(data_dir)


@pytest.mark.row("A11")
def test_a_minutes_outage_dead_letters_nothing_and_costs_few_calls(
    stack: Stack, service: MerchantService, capsys: pytest.CaptureFixture[str]
) -> None:
    webhooks = [
        stack.traffic.stripe(f"outage-{n}", "charge.succeeded", 1_000 + n, "EUR", account=f"acct_{n}")
        for n in range(int((BEFORE_S + OUTAGE_S + AFTER_S) * PER_S))
    ]
    answers: list[Answer] = []

    def post() -> None:
        answers.extend(
            asyncio.run(
                post_at_rate(
                    stack.endpoints["ingest"],
                    lambda number: webhooks[number],
                    PER_S,
                    len(webhooks) / PER_S,
                    lambda sent: None,
                )
            )
        )

    posting = threading.Thread(target=post)
    posting.start()
    time.sleep(BEFORE_S)
    before, service.answer = len(service.asked), ill
    time.sleep(OUTAGE_S / 2)
    stack.kill("processor")
    time.sleep(OUTAGE_S / 2)
    calls, service.answer = len(service.asked) - before, found
    posting.join()
    keys = {key for answer in answers for key in answer.webhook.event_keys}

    def decisions() -> Counter[str]:
        return Counter(row["decision"] for row in stack.rows(["event_key", "decision"]) if row["event_key"] in keys)

    done = wait_for(lambda: decisions()["applied"] == len(keys), APPLIED_S)
    with capsys.disabled():
        print(f"\n{calls} calls in {OUTAGE_S:.0f} s, {CALLS_MAX} at most; {len(keys)} events: {dict(decisions())}")  # noqa: T201 - the figure is what one runs it for
    assert before > 0
    assert SETTINGS.failures_to_open <= calls <= CALLS_MAX
    assert decisions()["dead"] == 0
    assert done, f"once the directory is back everything is applied, not {dict(decisions())} of {len(keys)}"
    assert_once(stack, webhooks)
