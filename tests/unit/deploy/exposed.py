"""What the management listener's page has: every sample, and its labels, from the code that makes them."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from alerts.observation import DeadSummary, Observation
from alerts.settings import AlertsSettings, ReceiverSettings
from alerts.silence import Silence
from alerts.watch import AlertMetrics, AlertWatch
from console.health import Scrape, merge_scrapes, own_scrape
from core.clock import ManualClock, to_rfc3339
from core.decision import Decision
from core.metrics import CATALOGUE, Service
from ingest.metrics import IngestMetrics
from journal.schema import JournalRow
from processor.calls.breaker import OPEN
from processor.calls.budget import CallReport
from processor.decide.item import BatchItem
from processor.reporting.exposition import PartFigures, join_registries
from processor.reporting.metrics import ProcessorMetrics
from processor.reporting.progress import BatchProgress
from stack.services.receiver import _build_gauges
from tests.unit.journal.rows import bare_row

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)

Samples = Mapping[str, list[Mapping[str, str]]]
"""A sample's name to the labels that it is exposed with, once for each series."""


@functools.cache
def samples() -> Samples:
    """Of all processes, on one page, as Prometheus scrapes it."""
    pages = {"ingest": _ingest(), "processor": _processor(), "alerts": _alerts()}
    page = merge_scrapes([*(Scrape(process, text) for process, text in pages.items()), own_scrape()]).decode()
    found: dict[str, list[Mapping[str, str]]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


def family_of(sample: str) -> str:
    """The metric that a sample is of, as the catalogue names it."""
    return re.sub(r"_(total|created|bucket|sum|count)$", "", sample)


def _nobody(of: Callable[..., Any]) -> list[Any]:
    """Arguments where only names are wanted."""
    return [None] * len(inspect.signature(of).parameters)


def _ingest() -> str:
    metrics = IngestMetrics()
    metrics.set_gauges({name: lambda: 0.0 for name in _build_gauges(*_nobody(_build_gauges))})
    for outcome in ("claimed", "duplicate"):
        metrics.count_event("stripe", outcome)
    metrics.count_answer("stripe", 200, 0.1)
    metrics.count_refusal("stripe", "signature_mismatch")
    metrics.count_verified("stripe", 0)
    metrics.count_not_there("stripe")
    metrics.claim_seconds.observe_seconds(0.001)
    return generate_latest(metrics.registry).decode()


def _processor() -> str:
    metrics = ProcessorMetrics(ManualClock(NOW))
    metrics.count_decisions([BatchItem(_row(decision), b"") for decision in Decision])
    metrics.count_calls("directory", OPEN, 4, CallReport())
    metrics.set_downstream_waits({"subscriber:a": {"since": to_rfc3339(NOW), "failing_since": to_rfc3339(NOW)}})
    metrics.set_blocked("StorageDown: disk full")
    metrics.hook_failed("before", "error")
    metrics.batch_done(BatchProgress(batches=1, step_s=dict.fromkeys(("fetch", "read", "lookup"), 0.1)))
    registry, parts = join_registries({"ledger": metrics.registry}), PartFigures()
    parts.figures = {
        entry.name: {entry.labels: 1.0} for entry in CATALOGUE.values() if entry.service is Service.PROCESSOR
    }
    registry.register(parts)
    return generate_latest(registry).decode()


def _alerts() -> str:
    settings = AlertsSettings(receivers={"oncall": ReceiverSettings(command=("/bin/true",))})
    verified = "payhook_ingest_verified_total", (("endpoint", "stripe"), ("process", "ingest"))
    answers = "payhook_ingest_answers_total", (("process", "ingest"), ("provider", "stripe"), ("status", "200"))
    seen = Observation(
        dead={"ledger": DeadSummary(101, NOW, (), {"stripe: made_up": 1})},
        disks={"data folder": 0.5},
        broken={"ledger": 0},
        samples={verified: 1.0, answers: 1.0},
        caught_up={"stripe": {"problem": None, "fetched_day": 0}},
    )
    with TemporaryDirectory() as folder:
        silence = Silence(Path(folder, "rhythms.json"))
        watch = AlertWatch(
            settings,
            lambda: seen,
            {"oncall": _Deaf()},
            Path("/dev/null/none"),
            ManualClock(NOW),
            silence=silence,
        )
        watch.run_once()
    metrics = AlertMetrics(ManualClock(NOW))
    metrics.update(watch)
    watch.close()
    return generate_latest(metrics.registry).decode()


class _Deaf:
    shown = "nowhere"

    def deliver(self, notice: object) -> None:
        """Takes everything."""


def _row(decision: Decision) -> JournalRow:
    return bare_row(1, decision, decided_at=NOW, received_at=NOW, attempt=int(decision is Decision.RETRY))
