"""How fast a backlog drains: payhook against the plainest Spark job from Kafka to a Delta append, on one topic."""

from __future__ import annotations

import json
import statistics
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from core.clock import from_rfc3339
from core.layout import Layout
from core.routing import topics_of
from core.settings import TopicsSettings
from journal.reader import JournalReader
from load.bench.backlog import fill
from load.bench.figures import is_short
from load.bench.plain import drain_plainly
from load.client import NotInTime
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from stack.children import children, choose_ports
from stack.first_files import make_anchor_key, make_merchants
from stack.kafka import kafka_server
from stack.ports import LOOPBACK, free_ports
from stack.server import Server, running
from stack.settings import Settings
from stack.topics import Topic, make_topics, topics

BACKLOG = 300_000
BACKLOG_SHORT = 60_000
WARM_EVENTS = 20_000
WARM_TOPIC = "warm"
PAIRS = 3
DRAIN_SECONDS = 480.0
DRAIN_SECONDS_SHORT = 150.0
DRAIN_S_MAX = 600.0
POLL_S = 0.25
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Drained:
    """One drain. ``forecast``: what payhook said beforehand, as in its status file; ``ended_at``: its last commit."""

    per_s: float
    ended_at: datetime
    forecast: dict[str, Any] | None

    @property
    def off_forecast(self) -> float | None:
        """By what share the time to recover differed from what had been said; None if nothing was said."""
        if self.forecast is None or not self.forecast.get("seconds"):
            return None
        took = (self.ended_at - from_rfc3339(self.forecast["at"])).total_seconds()
        return abs(took / float(self.forecast["seconds"]) - 1)


def measure_processor(folder: Path, console: Console) -> dict[str, float]:
    """Pairs in turn; each of payhook's drains begins with an empty journal, and both are warm before they begin."""
    backlog, pairs = (BACKLOG_SHORT, 1) if is_short() else (BACKLOG, PAIRS)
    with kafka_with_backlog(folder, backlog, console) as (port, bootstrap):
        drains, plains = [], []
        for number in range(pairs):
            drains.append(drain_once(folder / f"payhook-{number}", port, backlog))
            seconds = drain_plainly(bootstrap, WARM_TOPIC, topics_of("live").events, folder / f"plain-{number}")
            plains.append(backlog / seconds)
            console.print(f"events/s: payhook {drains[-1].per_s:,.0f}, plain {plains[-1]:,.0f}")
    figures = {
        "processor.drain_per_s": statistics.median(one.per_s for one in drains),
        "processor.drain_ratio_to_plain": statistics.median(
            one.per_s / plain for one, plain in zip(drains, plains, strict=True)
        ),
    }
    off = [one.off_forecast for one in drains if one.off_forecast is not None]
    return figures | ({"processor.recovery_off_forecast": statistics.median(off)} if off else {})


@contextmanager
def kafka_with_backlog(folder: Path, backlog: int, console: Console) -> Iterator[tuple[int, str]]:
    """A broker whose ``payments.events`` holds so many events: its port and bootstrap address."""
    port, controller = free_ports(2)
    bootstrap = f"{LOOPBACK}:{port}"
    with running(kafka_server(folder / "kafka", port, controller, folder / "kafka.log")):
        make_topics(bootstrap, [*topics(TopicsSettings()), Topic(WARM_TOPIC, 4, DAY_MS)], 1)
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task(f"publishing {backlog:,} events", total=backlog)
            fill(bootstrap, WARM_TOPIC, WARM_EVENTS, uuid.uuid4().hex[:6])
            fill(
                bootstrap,
                topics_of("live").events,
                backlog,
                uuid.uuid4().hex[:6],
                lambda made: progress.update(task, completed=made),
            )
        yield port, bootstrap


def drain_once(data_dir: Path, kafka_port: int, backlog: int) -> Drained:
    """Starts a processor with an empty journal and waits until it has decided everything.

    The rate is from the first commit to the last one, without the rows of the first: starting Spark isn't draining.

    :raises NotInTime: it wasn't through in time
    """
    layout = Layout(data_dir)
    make_anchor_key(layout.anchor_keys)
    make_merchants(layout.merchants, build_adapters(ProvidersSettings()))
    forecast: dict[str, Any] | None = None
    with running(processor_server(layout, kafka_port)):
        until = time.monotonic() + DRAIN_S_MAX
        seq = 0
        while seq < backlog:
            if time.monotonic() > until:
                raise NotInTime(f"{backlog} events decided", DRAIN_S_MAX)
            time.sleep(POLL_S)
            said = _status(layout)
            forecast = forecast or said.get("catch_up", {}).get("forecast")
            seq = said.get("seq", 0)
    commits = commit_times(Path(layout.ledger().journal))
    if JournalReader(str(layout.ledger().journal)).last_seq != backlog:
        raise RuntimeError(f"the journal doesn't hold one row for each of {backlog} events")
    (first_seq, first_at), (last_seq, last_at) = commits[0], commits[-1]
    return Drained((last_seq - first_seq) / (last_at - first_at).total_seconds(), last_at, forecast)


def processor_server(layout: Layout, kafka_port: int) -> Server:
    """The ledger's processor as `payhook up` runs it."""
    ports = replace(choose_ports(Settings()), kafka=kafka_port)
    return next(server for server in children(layout, ports, None) if server.name == "processor")


def commit_times(journal: Path) -> list[tuple[int, datetime]]:
    """Each batch's last seq, and when its log entry was on disk; in order."""
    times = []
    for entry in sorted((journal / "_delta_log").glob("*.json")):
        for line in entry.read_text("utf-8").splitlines():
            said = json.loads(line).get("commitInfo", {})
            if "payhook.batch_seq" in said:
                times.append((int(said["payhook.seq"]), datetime.fromtimestamp(entry.stat().st_mtime, UTC)))
    return times


def _status(layout: Layout) -> dict[str, Any]:
    try:
        read: dict[str, Any] = json.loads(layout.ledger().status.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return read
