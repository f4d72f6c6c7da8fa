"""One webhook's trace through the whole stack: receiver, Kafka, the journal, the subscriber; a collector that hangs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from load.client import wait_for
from tests.collector import Collector, Spanned, collecting
from tests.e2e.conftest import Stack, assert_once
from tests.faults.notify.test_delivery_through_faults import keys, shop, stack
from tests.shop import Shop

__all__ = ["shop", "stack"]

WAIT_S = 60.0
TRACE, SENDER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture(autouse=True)
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as made:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", made.url)
        yield made


@pytest.mark.row("A15")
def test_a_webhook_is_one_trace_from_its_sender_to_the_subscriber(
    collector: Collector, stack: Stack, shop: Shop
) -> None:
    [plain, quiet] = stack.captures(2, "traced")
    webhook = replace(plain, headers=plain.headers | {"traceparent": f"00-{TRACE}-{SENDER}-01"})
    unwanted = replace(quiet, headers=quiet.headers | {"traceparent": f"00-{'5c' * 16}-{SENDER}-00"})
    stack.post(webhook, unwanted)
    assert_once(stack, [webhook, unwanted])
    assert wait_for(lambda: shop.reported == keys([webhook, unwanted]), WAIT_S)

    def spans() -> dict[str, Spanned]:
        return {span.name: span for span in collector.spans if span.trace_id == TRACE}

    assert wait_for(lambda: len(spans()) == 3, WAIT_S), collector.spans
    receive, ledger, notify = (spans()[name] for name in ("receive stripe", "ledger applied", "notify applied"))
    assert (receive.service, ledger.service) == ("payhook-receiver", "payhook-processor")
    assert [receive.parent_id, ledger.parent_id, notify.parent_id] == [SENDER, receive.span_id, ledger.span_id]
    assert {receive.attributes["payhook.event_key"], ledger.attributes["payhook.event_key"]} == keys([webhook])
    assert set(shop.server.traces) == {f"00-{TRACE}-{notify.span_id}-01", None}, "the subscriber can go on with it"
    assert {span.trace_id for span in collector.spans} == {TRACE}, "who wants no trace gets none"

    collector.hangs.set()
    more = stack.captures(50, "hangs")
    assert {answer.status for answer in stack.post(*more)} == {200}
    assert_once(stack, more)
    asked = collector.requests
    assert wait_for(lambda: collector.requests > asked or asked > 0, WAIT_S)
    assert "all of it holds" in stack.verify()
