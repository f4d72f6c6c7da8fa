"""The processor's own listener says whether its streams are ready, and what a person has to look at."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from prometheus_client import CollectorRegistry

from processor.reporting.exposition import serve
from stack.ports import LOOPBACK, free_ports


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


def test_the_metrics_are_where_they_were() -> None:
    assert asked({}, "/metrics")[0] == 200
