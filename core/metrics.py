"""The catalogue of metrics: each metric is made by its entry here, which has its name, type, unit, labels and meaning.

docs/metrics.md is written from it (``python -m core.metrics``, `make docs`); a test compares it with what a running
stack exposes, and Prometheus' rules and the dashboard with it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, GCCollector, Histogram, ProcessCollector

from core.memory import memory_used

ATTEMPT_MAX = 20
"""Retry numbers that are counted apart: more than shipped policies have tries; a policy may also retry for ever."""

REQUEST_BUCKETS_S = (0.001, 0.0025, 0.005, 0.010, 0.025, 0.050, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Edges stand exactly at 10 ms and 5 s, the bounds of the alerts."""

LATENCY_BUCKETS_S = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 30.0, 60.0)
"""An edge stands exactly at 5 s, the SLO's bound."""

BATCH_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
STEP_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

STREAM_LABEL = "stream"
"""Each metric of a work stream has it (`processor.reporting.exposition`)."""

PROCESS_LABEL = "process"
"""On the management listener's page each metric of a process has it (`console.health`)."""


class MetricType(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Service(StrEnum):
    RECEIVER = "receiver"
    STREAM = "processor, for each work stream"
    PROCESSOR = "processor"
    ALERTS = "alerts"
    CONSOLE = "management listener"
    EVERY = "every process"


COMMON_LABELS: Mapping[Service, str] = {
    Service.STREAM: STREAM_LABEL,
    Service.PROCESSOR: PROCESS_LABEL,
    Service.EVERY: PROCESS_LABEL,
}
"""The label that tells the services apart where several pages are put together."""


@dataclass(frozen=True, slots=True)
class MetricEntry:
    """``name`` is without the ``_total`` that Prometheus' client appends to counters."""

    name: str
    kind: MetricType
    unit: str
    service: Service
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def exposed_name(self) -> str:
        return f"{self.name}_total" if self.kind is MetricType.COUNTER else self.name

    @property
    def all_labels(self) -> tuple[str, ...]:
        common = COMMON_LABELS.get(self.service)
        return self.labels if common is None else (*self.labels, common)


def _list_entries(service: Service, kind: MetricType, *rows: tuple[str, ...]) -> Iterator[MetricEntry]:
    return (MetricEntry(name, kind, unit, service, meaning, tuple(labels)) for name, unit, meaning, *labels in rows)


def _list_histograms(service: Service, buckets: tuple[float, ...], *rows: tuple[str, ...]) -> Iterator[MetricEntry]:
    return (
        MetricEntry(name, MetricType.HISTOGRAM, "seconds", service, meaning, tuple(labels), buckets)
        for name, meaning, *labels in rows
    )


_RECEIVER = (
    *_list_entries(
        Service.RECEIVER,
        MetricType.COUNTER,
        ("payhook_ingest_answers", "requests", "Requests by provider and status", "provider", "status"),
        ("payhook_ingest_events", "events", "Events by provider and what the claim said", "provider", "outcome"),
        ("payhook_ingest_refusals", "requests", "Refused requests by provider and reason", "provider", "reason"),
        (
            "payhook_ingest_not_there",
            "requests",
            "Requests about objects that the provider's own API doesn't know, refused or not",
            "provider",
        ),
        ("payhook_ingest_verified", "requests", "Verified requests by endpoint, such as stripe/eu", "endpoint"),
        (
            "payhook_ingest_secret_matched",
            "requests",
            "Verified requests by the secret that matched, 0 is the newest",
            "provider",
            "index",
        ),
    ),
    *_list_entries(
        Service.RECEIVER,
        MetricType.GAUGE,
        ("payhook_ingest_receipts_dropped", "receipts", "Receipts that Kafka didn't acknowledge"),
        ("payhook_ingest_in_flight", "requests", "Requests under way"),
        ("payhook_ingest_in_flight_bytes", "bytes", "Bytes of their bodies"),
        ("payhook_ingest_fetches_failed", "fetches", "Fetches from providers that failed"),
        ("payhook_redis_pipelines", "pipelines", "Pipelines to Redis; concurrent requests share them"),
        ("payhook_redis_failures", "pipelines", "Pipelines to Redis that failed"),
        ("payhook_redis_unsettled", "keys", "Confirmations and releases that wait to be sent to Redis again"),
        (
            "payhook_redis_modes_deferred",
            "modes",
            "Modes whose events aren't claimed: no processor announces a generation, or it refuses",
        ),
        ("payhook_redis_breaker_open", "0 or 1", "1 while Redis isn't even asked"),
    ),
    *_list_histograms(
        Service.RECEIVER,
        REQUEST_BUCKETS_S,
        ("payhook_redis_claim_seconds", "One claim round trip"),
        ("payhook_ingest_request_seconds", "Head of a request to its answer"),
        ("payhook_kafka_publish_seconds", "One request's events to Kafka's acknowledgement"),
    ),
)

_STREAM = (
    *_list_entries(
        Service.STREAM,
        MetricType.GAUGE,
        ("payhook_dlq_depth", "events", "Dead events that wait for a person"),
        ("payhook_dlq_unpublished", "records", "Dead letters that Kafka hasn't acknowledged yet"),
        ("payhook_dlq_unpublished_seconds", "seconds", "How long the oldest of those has waited"),
        (
            "payhook_index_memory_bytes",
            "bytes",
            "What the key index holds in memory: its cache, which fills up, its writes",
        ),
        ("payhook_open_events", "events", "Events that are open: waiting or dead"),
        ("payhook_heads", "events", "Failing events that hold back later ones of their entity"),
        ("payhook_events_behind_heads", "events", "Events held back by those"),
        ("payhook_longest_line", "events", "Most events held back by a single one"),
        ("payhook_oldest_head_seconds", "seconds", "Longest time for which an event has failed and held back others"),
        ("payhook_stuck_share", "share", "Share of stuck events among those stuck and those done in the last minute"),
        ("payhook_head_of_line", "0 or 1", "1 while a few failing events hold back most others"),
        (
            "payhook_hung_calls",
            "calls",
            "Abandoned handler calls that still run, in the Python workers of the last batch",
        ),
        ("payhook_stream_blocked", "0 or 1", "1 while the whole stream is blocked"),
        ("payhook_stream_blocked_by", "0 or 1", "1 for the error class that blocks the stream", "error"),
        ("payhook_stream_refused", "0 or 1", "1 while the stream waits for a person's decision"),
        ("payhook_lag_events", "events", "Events that the source holds and that aren't decided yet"),
        ("payhook_behind", "0 or 1", "1 while there is a backlog"),
        ("payhook_arrival_per_second", "events/s", "Events that arrive a second"),
        ("payhook_drain_per_second", "events/s", "Events that are decided a second in a backlog"),
        ("payhook_recover_seconds", "seconds", "Seconds until the backlog is gone; NaN: not known"),
        ("payhook_batch_limit_events", "events", "Most events that the next batch takes"),
        ("payhook_recommended_executors", "executors", "Executors that the load asks for"),
        (
            "payhook_recommended_partitions",
            "partitions",
            "Partitions that the load asks for; growing needs a drained topic",
        ),
        (
            "payhook_downstream_state",
            "state",
            "0 working, 1 half-open, 2 its breaker is open, 3 it asked for no calls (Retry-After)",
            "downstream",
        ),
        ("payhook_downstream_concurrency_limit", "calls", "Calls at a time that a downstream gets", "downstream"),
        (
            "payhook_downstream_down_seconds",
            "seconds",
            "How long events have waited for a downstream that gets no calls, or test calls alone",
            "downstream",
        ),
        (
            "payhook_downstream_failing_seconds",
            "seconds",
            "Time since an event that called the downstream last succeeded",
            "downstream",
        ),
    ),
    *_list_entries(
        Service.STREAM,
        MetricType.COUNTER,
        (
            "payhook_decisions",
            "rows",
            f"Journal rows by decision and retry number; {ATTEMPT_MAX} stands for that and more",
            "decision",
            "attempt",
        ),
        (
            "payhook_sli_events",
            "events",
            "Events by how their first answer kept the 5 s: in_time, late, failed, unknown; apart: set_aside, waited",
            "outcome",
        ),
        ("payhook_head_of_line_dead", "events", "Events dead-lettered because they held back others past the limits"),
        (
            "payhook_records_passed_over",
            "records",
            "Records of another program's topic that are no events by what its identity function says",
        ),
        ("payhook_handler_timeouts", "tries", "Tries that ended because their call took too long"),
        (
            "payhook_hook_failures",
            "calls",
            "Calls of a stream's recovery hooks that went wrong: before or after; error, timeout or skipped",
            "stage",
            "problem",
        ),
        (
            "payhook_downstream_calls",
            "calls",
            "Calls of handlers to a downstream, by outcome: good, failed",
            "downstream",
            "outcome",
        ),
        ("payhook_downstream_retries", "calls", "Calls for events whose earlier tries failed", "downstream"),
        (
            "payhook_downstream_held",
            "calls",
            "Calls that weren't made; their events are parked without an attempt",
            "downstream",
        ),
        ("payhook_dlq_written", "records", "Dead letters that Kafka acknowledged"),
        ("payhook_dlq_produce_requests", "records", "Dead letters handed to Kafka's client, repeats included"),
        ("payhook_dlq_produce_failures", "records", "Of those, the ones that weren't acknowledged and are tried again"),
    ),
    *_list_histograms(
        Service.STREAM,
        LATENCY_BUCKETS_S,
        ("payhook_processing_seconds", "Receipt of an event to the commit of its first decision, parked ones left out"),
    ),
    *_list_histograms(Service.STREAM, BATCH_BUCKETS_S, ("payhook_batch_seconds", "One batch, all its steps")),
    *_list_histograms(
        Service.STREAM,
        STEP_BUCKETS_S,
        (
            "payhook_batch_step_seconds",
            "One step of a batch: fetch (from the source), read, lookup, handle, commit, derive",
            "step",
        ),
    ),
)

_PROCESSOR = (
    *_list_entries(
        Service.PROCESSOR,
        MetricType.GAUGE,
        (
            "payhook_part_memory_bytes",
            "bytes",
            "Resident memory of the driver's JVM (jvm) and of the Python workers beside it (workers)",
            "part",
        ),
        ("payhook_jvm_heap_used_bytes", "bytes", "Heap that the driver's JVM uses"),
        ("payhook_jvm_heap_max_bytes", "bytes", "Heap that it may use"),
    ),
    *_list_entries(
        Service.PROCESSOR,
        MetricType.COUNTER,
        ("payhook_part_cpu_seconds", "seconds", "Processor time that these used", "part"),
        ("payhook_jvm_gc_seconds", "seconds", "Time that the JVM's garbage collector took, by collector", "gc"),
        ("payhook_jvm_gc_collections", "collections", "How often it collected", "gc"),
    ),
)

_ALERTS = _list_entries(
    Service.ALERTS,
    MetricType.GAUGE,
    ("payhook_dlq_open", "events", "Dead events that wait for a person, by the journal", "stream"),
    (
        "payhook_dlq_oldest_seconds",
        "seconds",
        "How long the dead event that died first has been open; 0 if none is",
        "stream",
    ),
    (
        "payhook_unknown_events",
        "events",
        "Unknown undos, and the last day's events that no table knows, by provider, type and reason",
        "what",
    ),
    (
        "payhook_catch_up_failing_seconds",
        "seconds",
        "How long a provider's list of events hasn't been read to its end; 0 if it was",
        "source",
    ),
    ("payhook_endpoint_switched_off", "0 or 1", "1 while a provider says that our webhooks are off", "source"),
    ("payhook_caught_up_events", "events", "Events of the last day that no webhook brought", "source"),
    ("payhook_endpoint_quiet", "0 or 1", "1 while an endpoint is quieter than ever at this hour", "endpoint"),
    ("payhook_alert_firing", "0 or 1", "1 while payhook itself sends this alert", "rule", "subject"),
    ("payhook_alert_notices_unsent", "notices", "Notices that a receiver hasn't accepted yet", "receiver"),
    (
        "payhook_backup_age_ratio",
        "times",
        "Age of the newest good backup in times of backup.every_h; NaN where none are made by schedule",
    ),
    ("payhook_disk_used_ratio", "share", "Used part of the disk that holds a place", "place"),
    (
        "payhook_verify_broken",
        "invariants",
        "Invariants that didn't hold when payhook verify last looked at them",
        "stream",
    ),
    (
        "payhook_verification_age_ratio",
        "times",
        "Age of the last verification by schedule that could be made, in times of ledger.verify.every_h; NaN if none "
        "is set",
    ),
    (
        "payhook_maintenance_age_ratio",
        "times",
        "Age of the last round of maintenance that was done, in times of ledger.maintain.every_s; NaN if none is set",
    ),
    (
        "payhook_kafka_partitions_out_of_sync",
        "partitions",
        "Partitions of payhook's topics of which a replica isn't in sync, as Kafka last said; NaN until it does",
    ),
    (
        "payhook_kafka_partitions_under_min_isr",
        "partitions",
        "Of these, the ones with fewer in sync than min.insync.replicas: Kafka accepts nothing for them",
    ),
    ("payhook_alerts_looked_timestamp_seconds", "seconds", "When the alerts were last evaluated, in Unix time"),
)

_CONSOLE = _list_entries(
    Service.CONSOLE,
    MetricType.GAUGE,
    ("payhook_process_up", "0 or 1", "1 if the process answers with its metrics", "process"),
)

_EVERY = (
    *_list_entries(
        Service.EVERY,
        MetricType.GAUGE,
        (
            "payhook_memory_used_ratio",
            "share",
            "Used part of the memory of the process's container, where that has a limit, or of the machine",
        ),
        ("process_resident_memory_bytes", "bytes", "Resident memory of the (Python) process"),
        ("process_virtual_memory_bytes", "bytes", "Its virtual memory"),
        ("process_start_time_seconds", "seconds", "When it started, in Unix time"),
        ("process_open_fds", "files", "Files that it has open"),
        ("process_max_fds", "files", "Files that it may have open"),
    ),
    *_list_entries(
        Service.EVERY,
        MetricType.COUNTER,
        ("process_cpu_seconds", "seconds", "Processor time that it used"),
        ("python_gc_objects_collected", "objects", "Objects that Python's garbage collector freed", "generation"),
        ("python_gc_objects_uncollectable", "objects", "Objects that it couldn't free", "generation"),
        ("python_gc_collections", "collections", "How often a generation was looked at", "generation"),
    ),
)
"""What `add_process` makes; Prometheus' client names all but the first."""

CATALOGUE: Final[Mapping[str, MetricEntry]] = {
    entry.name: entry for entry in (*_RECEIVER, *_STREAM, *_PROCESSOR, *_ALERTS, *_CONSOLE, *_EVERY)
}


def list_entries(service: Service, kind: MetricType) -> list[MetricEntry]:
    return [entry for entry in CATALOGUE.values() if entry.service is service and entry.kind is kind]


def make_gauge(name: str, registry: CollectorRegistry) -> Gauge:
    entry = _find_entry(name, MetricType.GAUGE)
    return Gauge(name, entry.meaning, entry.labels, registry=registry)


def make_counter(name: str, registry: CollectorRegistry) -> Counter:
    entry = _find_entry(name, MetricType.COUNTER)
    return Counter(name, entry.meaning, entry.labels, registry=registry)


def make_histogram(name: str, registry: CollectorRegistry) -> Histogram:
    entry = _find_entry(name, MetricType.HISTOGRAM)
    return Histogram(name, entry.meaning, entry.labels, buckets=entry.buckets, registry=registry)


def add_process(registry: CollectorRegistry) -> None:
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    make_gauge("payhook_memory_used_ratio", registry).set_function(memory_used)


def _find_entry(name: str, kind: MetricType) -> MetricEntry:
    entry = CATALOGUE[name]
    if entry.kind is not kind:
        raise KeyError(name)
    return entry


HEAD = """\
# Metrics

Written by `make docs` from the catalogue in `core/metrics.py`, from which the metrics are made.

The management listener's `/metrics` has all of them, each process's own page (`metrics_port`) its own. Names are as
Prometheus has them. A histogram has `NAME_bucket`, `NAME_sum` and `NAME_count`.
"""

TABLE_HEAD = "| name | type | unit | labels | meaning |\n|---|---|---|---|---|"


def write_page(every: Iterable[MetricEntry]) -> str:
    lines = [HEAD]
    for service, of_it in groupby(every, key=lambda entry: entry.service):
        lines += [f"## {service.value.capitalize()}", "", TABLE_HEAD]
        for entry in of_it:
            labels = ", ".join(f"`{label}`" for label in entry.all_labels)
            lines.append(f"| `{entry.exposed_name}` | {entry.kind} | {entry.unit} | {labels} | {entry.meaning} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(write_page(CATALOGUE.values()))
