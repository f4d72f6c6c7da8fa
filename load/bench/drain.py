"""How fast a backlog drains: payhook against the plainest Spark job from Kafka to a Delta append, on one topic."""

from __future__ import annotations

import json
import shutil
import statistics
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message

from core.clock import from_rfc3339
from core.event import Dedupe, to_headers
from core.kafka import open_admin, open_producer
from core.layout import Layout
from core.record_keys import RecordKeys
from core.routing import topics_of
from core.settings import KafkaSettings
from ingest.publisher import producer_settings
from journal.reader import JournalReader
from load.bench.figures import Done, Run, nothing_shown
from load.bench.plain import drain_plainly
from load.client import NotInTime, RunningStack
from load.samples.stripe import stripe_event
from providers.port import Request
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from stack.children import choose_ports, list_servers
from stack.data_folder import make_key, make_merchants
from stack.servers.kafka import kafka_server
from stack.servers.kafka_users import embedded_kafka, make_services, security_environment
from stack.servers.ports import LOOPBACK, free_ports
from stack.servers.server import Server, run_server
from stack.settings import Settings
from stack.topics import Topic, make_topics, plan_topics

BACKLOG, BACKLOG_SHORT = 300_000, 60_000
WARM_EVENTS = 20_000
WARM_TOPIC = "warm"
PAIRS, PAIRS_SHORT = 3, 1
DRAIN_S_MAX = 600.0
POLL_S = 0.25
DAY_MS = 86_400_000
FLUSH_EVERY = 10_000
FLUSH_S_MAX = 60.0
PUBLISH_MS_MAX = 60_000


class NotPublished(RuntimeError):
    """Kafka didn't acknowledge every record of a backlog."""


@dataclass(frozen=True, slots=True)
class Drained:
    """One drain. ``forecast``: what payhook said beforehand, as in its status file; ``ended_at``: its last commit."""

    per_s: float
    ended_at: datetime
    forecast: dict[str, Any] | None

    @property
    def off_forecast(self) -> float | None:
        """Returns by what share the time to recover differed from what had been said; None if nothing was said."""
        if self.forecast is None or not self.forecast.get("seconds"):
            return None
        took = (self.ended_at - from_rfc3339(self.forecast["at"])).total_seconds()
        return abs(took / float(self.forecast["seconds"]) - 1)


def measure_processor(run: Run) -> dict[str, float]:
    """Pairs in turn; each of payhook's drains begins with an empty journal, and both are warm before they begin."""
    backlog = run.count(BACKLOG, BACKLOG_SHORT)
    with kafka_with_backlog(run, backlog) as kafka:
        drains, plains = [], []
        for number in range(run.length(PAIRS, PAIRS_SHORT)):
            drains.append(drain_once(run.folder / f"payhook-{number}", kafka, backlog, run.folder / "records"))
            seconds = drain_plainly(kafka, WARM_TOPIC, topics_of("live").events, run.folder / f"plain-{number}")
            plains.append(backlog / seconds)
            run.console.print(f"events/s: payhook {drains[-1].per_s:,.0f}, plain {plains[-1]:,.0f}")
    figures = {
        "processor.drain_per_s": statistics.median(one.per_s for one in drains),
        "processor.drain_ratio_to_plain": statistics.median(
            one.per_s / plain for one, plain in zip(drains, plains, strict=True)
        ),
    }
    off = [one.off_forecast for one in drains if one.off_forecast is not None]
    return figures | ({"processor.recovery_off_forecast": statistics.median(off)} if off else {})


@contextmanager
def kafka_with_backlog(run: Run, backlog: int) -> Iterator[KafkaSettings]:
    """A broker whose ``payments.events`` holds so many events, as its administrator."""
    port, controller = free_ports(2)
    kafka = embedded_kafka(run.folder / "kafka", f"{LOOPBACK}:{port}")
    with run_server(kafka_server(run.folder / "kafka", port, controller, run.folder / "kafka.log")):
        make_services(open_admin(kafka), run.folder / "kafka")
        make_topics(
            kafka,
            [*plan_topics(Settings()), Topic(WARM_TOPIC, 4, DAY_MS)],
            1,
        )
        with run.progress(f"publishing {backlog:,} events", backlog) as done:
            make_key(run.folder / "records")
            keys = RecordKeys(run.folder / "records")
            fill(kafka, WARM_TOPIC, WARM_EVENTS, uuid.uuid4().hex[:6], keys)
            fill(kafka, topics_of("live").events, backlog, uuid.uuid4().hex[:6], keys, done)
        yield kafka


def fill(
    kafka: KafkaSettings, topic: str, count: int, prefix: str, keys: RecordKeys, done: Done = nothing_shown
) -> None:
    """Publishes ``count`` new Stripe charges of 1.1 KB as the receiver does, each a payment of its own.

    :raises NotPublished: Kafka didn't take one
    """
    settings = producer_settings(PUBLISH_MS_MAX) | {"linger.ms": 20, "queue.buffering.max.messages": 100_000}
    producer = open_producer(kafka, settings, keys)
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    for number, (key, value, headers) in enumerate(records(count, prefix), 1):
        producer.produce(topic, value, key=key, headers=headers, on_delivery=delivered)
        if number % FLUSH_EVERY == 0:
            producer.flush(FLUSH_S_MAX)
            done(number)
    if producer.flush(FLUSH_S_MAX) or failed:
        raise NotPublished(f"{topic}: {len(failed)} of {count} records were refused: {failed[:1]}")
    done(count)


def records(count: int, prefix: str) -> Iterator[tuple[str, bytes, list[tuple[str, str | bytes | None]]]]:
    """Key, value and headers of so many new charges; ``prefix`` keeps them apart from others."""
    adapter = build_adapters(ProvidersSettings())["stripe"]
    now = datetime.now(UTC)
    for number in range(count):
        body = stripe_event(
            f"evt_{prefix}{number:08}",
            "charge.succeeded",
            payment=f"pi_{prefix}{number:08}",
            account="acct_load",
            amount_minor=1_000 + number % 500,
            currency="EUR",
            created=now,
        )
        for event in adapter.events(Request(body, []), "live"):
            yield event.entity_key, event.body, [*to_headers(event, now, Dedupe.CLAIMED)]


def drain_once(data_dir: Path, kafka: KafkaSettings, backlog: int, record_keys: Path) -> Drained:
    """Starts a processor with an empty journal and waits until it has decided everything.

    The rate is from the first commit to the last one, without the rows of the first: starting Spark isn't draining.

    :raises NotInTime: it wasn't through in time
    """
    layout = data_folder(data_dir, record_keys)
    forecast: dict[str, Any] | None = None
    with run_server(processor_server(layout, kafka)):
        until = time.monotonic() + DRAIN_S_MAX
        seq = 0
        while seq < backlog:
            if time.monotonic() > until:
                raise NotInTime(f"{backlog} events decided", DRAIN_S_MAX)
            time.sleep(POLL_S)
            said = RunningStack(data_dir).processor_status()
            forecast = forecast or said.get("catch_up", {}).get("forecast")
            seq = said.get("seq", 0)
    commits = commit_times(Path(layout.ledger().journal))
    if JournalReader(str(layout.ledger().journal)).last_seq != backlog:
        raise RuntimeError(f"the journal doesn't hold one row for each of {backlog} events")
    (first_seq, first_at), (last_seq, last_at) = commits[0], commits[-1]
    return Drained((last_seq - first_seq) / (last_at - first_at).total_seconds(), last_at, forecast)


def data_folder(data_dir: Path, record_keys: Path) -> Layout:
    """Makes a data folder whose processor believes what was signed with these keys."""
    layout = Layout(data_dir)
    make_key(layout.anchor_keys)
    make_merchants(layout.merchants_file, build_adapters(ProvidersSettings()))
    shutil.copy(record_keys, layout.record_keys)
    return layout


def processor_server(layout: Layout, kafka: KafkaSettings) -> Server:
    """The ledger's processor as `payhook up` runs it, on an embedded broker that may be another folder's."""
    settings, folder = Settings(data_dir=layout.root), Path(kafka.security.credentials_file).parent
    ports = replace(choose_ports(settings), kafka=int(kafka.bootstrap_servers.rpartition(":")[2]))
    server = next(server for server in list_servers(settings, ports, None) if server.name == "processor")
    return replace(server, env={**server.env, **security_environment(folder, "processor")})


def commit_times(journal: Path) -> list[tuple[int, datetime]]:
    """Each batch's last seq, and when its log entry was on disk; in order."""
    times = []
    for entry in sorted((journal / "_delta_log").glob("*.json")):
        for line in entry.read_text("utf-8").splitlines():
            said = json.loads(line).get("commitInfo", {})
            if "payhook.batch_seq" in said:
                times.append((int(said["payhook.seq"]), datetime.fromtimestamp(entry.stat().st_mtime, UTC)))
    return times
