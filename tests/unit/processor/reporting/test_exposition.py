"""Every stream's metrics on one page with a label for each stream, and whether the streams are ready."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from processor.reporting.exposition import join_registries, serve
from stack.servers.ports import LOOPBACK, free_ports


def registry(dead: int) -> CollectorRegistry:
    made = CollectorRegistry()
    Gauge("payhook_dlq_depth", "Dead events", registry=made).set(dead)
    Counter("payhook_decisions", "Rows", ("decision",), registry=made).labels("applied").inc(dead)
    return made


def test_a_sample_of_each_stream_under_one_family() -> None:
    page = generate_latest(join_registries({"ledger": registry(3), "notify": registry(5)})).decode()
    assert page.count("# TYPE payhook_dlq_depth gauge") == 1
    assert 'payhook_dlq_depth{stream="ledger"} 3.0' in page
    assert 'payhook_dlq_depth{stream="notify"} 5.0' in page
    assert 'payhook_decisions_total{decision="applied",stream="notify"} 5.0' in page


def test_it_is_asked_again_with_each_scrape() -> None:
    own = registry(1)
    whole = join_registries({"ledger": own})
    before = generate_latest(whole)
    Gauge("payhook_later", "A family that came later", registry=own).set(1)
    assert before != generate_latest(whole)


def asked(said: dict[str, dict[str, Any]], path: str) -> tuple[int, str]:
    (port,) = free_ports(1)
    serve(port, LOOPBACK, CollectorRegistry(), lambda: said)
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def test_it_is_ready_once_every_stream_is() -> None:
    status, body = asked({"ledger": {"ready": True, "state": "running"}}, "/readyz")
    assert (status, json.loads(body)["streams"]["ledger"]["state"]) == (200, "running")
    assert asked({"ledger": {}}, "/readyz")[0] == 503


def test_a_refused_stream_says_what_to_do() -> None:
    status, body = asked({"ledger": {"ready": False, "state": "refused", "why": "see `payhook recover`"}}, "/readyz")
    assert status == 503
    assert json.loads(body)["streams"]["ledger"] == {
        "ready": False,
        "state": "refused",
        "why": "see `payhook recover`",
    }


def test_a_stream_that_stands_by_is_ready_and_says_whose_lease_it_waits_for() -> None:
    """Else an upgrade that goes on when a pod is ready would wait for the standby's for ever."""
    why = "waits for the lease of host-2 (pid 7) since 2026-01-31T11:00:00.000000Z"
    status, body = asked({"ledger": {"ready": True, "state": "standby", "why": why}}, "/readyz")
    assert (status, json.loads(body)["streams"]["ledger"]["why"]) == (200, why)


def test_the_metrics_are_where_they_were() -> None:
    assert asked({}, "/metrics")[0] == 200
