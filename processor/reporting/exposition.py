"""The metrics of every work stream of a process on one page, and whether its streams are ready."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from core.metrics import STREAM_LABEL, add_process

READY_PATH = "/readyz"
STATUS_PATH = "/status"

Said = Callable[[], Mapping[str, Mapping[str, Any]]]
"""What each stream last reported of itself (`processor.reporting.status.StatusFile`)."""


class _Labelled(Collector):
    def __init__(self, registries: Mapping[str, CollectorRegistry]) -> None:
        self._registries = registries

    def collect(self) -> Iterable[Metric]:
        merged: dict[str, Metric] = {}
        for stream, registry in self._registries.items():
            for family in registry.collect():
                whole = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                label = {STREAM_LABEL: stream}
                whole.samples.extend(sample._replace(labels={**sample.labels, **label}) for sample in family.samples)
        return merged.values()


def by_stream(registries: Mapping[str, CollectorRegistry]) -> CollectorRegistry:
    """One registry over those of the streams, by their names, and of this process; asked again with each scrape."""
    whole = CollectorRegistry()
    whole.register(_Labelled(registries))
    add_process(whole)
    return whole


def serve(port: int, host: str, registry: CollectorRegistry, said: Said) -> None:
    """Answers ``/metrics``, `READY_PATH` and `STATUS_PATH` on a thread of its own.

    Readiness is 200 where every stream is ready, else 503; its body says each stream's state, and why it isn't ready.
    The status is what each stream's status file says, by its name: for who can't read those files.
    """
    server, _ = start_http_server(port, host, registry)
    server.set_app(_with_status(make_wsgi_app(registry), said))


def _with_status(metrics: Any, said: Said) -> Any:
    def answer(environ: dict[str, Any], start_response: Any) -> Any:
        path, ready, body = environ.get("PATH_INFO"), True, dict[str, Any]()
        if path == READY_PATH:
            ready, body = readiness(said())
        elif path == STATUS_PATH:
            body = {"streams": {name: dict(one) for name, one in said().items()}}
        else:
            return metrics(environ, start_response)
        start_response("200 OK" if ready else "503 Service Unavailable", [("Content-Type", "application/json")])
        return [json.dumps(body).encode()]

    return answer


def readiness(said: Mapping[str, Mapping[str, Any]]) -> tuple[bool, dict[str, Any]]:
    """Whether every stream is ready, and of each its state and what holds it up."""
    streams = {
        name: {
            "ready": bool(one.get("ready")),
            "state": one.get("state", "starting"),
            "why": one.get("why") or one.get("blocked") or one.get("last_failure"),
        }
        for name, one in said.items()
    }
    return all(one["ready"] for one in streams.values()), {"streams": streams}
