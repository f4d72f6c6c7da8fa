"""How long a processor takes from its start to its first decision, with a long journal behind it."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from core.clock import SystemClock
from core.event import Dedupe, to_headers
from core.kafka import open_admin, open_producer
from core.layout import Layout, StreamLayout
from core.record_keys import RecordKeys
from core.routing import topics_of
from core.settings import KafkaSettings
from journal.index import Index
from journal.reader import JournalReader
from journal.snapshots import save_snapshot
from load.bench.drain import processor_server
from load.bench.figures import Run
from load.bench.history import made_history
from load.client import NotInTime
from load.samples.stripe import stripe_event
from providers.port import Request
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from stack.data_folder import make_key, make_merchants
from stack.servers.kafka import kafka_server
from stack.servers.kafka_users import embedded_kafka, make_services
from stack.servers.ports import LOOPBACK, free_ports
from stack.servers.server import RunningServer, run_server
from stack.settings import Settings
from stack.topics import make_topics, plan_topics

DECIDED_S_MAX = 400.0
POLL_S = 0.1
STARTS = 3


def measure_start(run: Run) -> dict[str, float]:
    """Process start to first decision: without an index, with the one that was made (median of 3), and on an empty disk
    with a snapshot of it in the lake.
    """
    layout, _ = made_history(run)
    places = layout.ledger()
    with _kafka(run.folder) as kafka:
        place = _Place(layout, kafka)
        place.prepare()
        for folder in (places.index, Path(places.snapshots_folder)):
            shutil.rmtree(folder, ignore_errors=True)
        run.console.print("a start without the index")
        rebuild_s = place.first_decision_s("rebuild")
        run.console.print(f"{rebuild_s:.1f} s; {STARTS} starts with it")
        ready_s = sorted(place.first_decision_s(f"start-{number}") for number in range(STARTS))
        run.console.print(f"{ready_s[STARTS // 2]:.1f} s; a start with a snapshot, made in {_snapshot_s(places):.1f} s")
        snapshot_s = place.first_decision_s("snapshot")
    return {
        "start.ready_s_at_10m": ready_s[STARTS // 2],
        "start.rebuild_s_at_10m": rebuild_s,
        "start.snapshot_s_at_10m": snapshot_s,
    }


def _snapshot_s(places: StreamLayout) -> float:
    """Makes the first snapshot of the index, in seconds, and removes the index."""
    shutil.rmtree(places.snapshots_folder, ignore_errors=True)
    epoch = max(int(folder.name.partition("-")[2]) for folder in places.index.glob("epoch-*"))
    index = Index.open(places.index, epoch + 1)
    began = time.monotonic()
    save_snapshot(index, str(places.snapshots_folder), SystemClock())
    seconds = time.monotonic() - began
    index.close()
    shutil.rmtree(places.index)
    return seconds


@contextlib.contextmanager
def _kafka(folder: Path) -> Iterator[KafkaSettings]:
    port, controller_port = free_ports(2)
    kafka = embedded_kafka(folder / "kafka", f"{LOOPBACK}:{port}")
    with run_server(kafka_server(folder / "kafka", port, controller_port, folder / "kafka.log")):
        make_services(open_admin(kafka), folder / "kafka")
        yield kafka


@dataclass(frozen=True, slots=True)
class _Place:
    """A data folder and a broker, on which processors are started one after the other."""

    layout: Layout
    kafka: KafkaSettings

    def prepare(self) -> None:
        make_topics(self.kafka, plan_topics(Settings()), 1)
        make_key(self.layout.anchor_keys)
        make_key(self.layout.record_keys)
        make_merchants(self.layout.merchants_file, build_adapters(ProvidersSettings()))

    def first_decision_s(self, event_id: str) -> float:
        """Starts a processor on an event that waits; returns the seconds until that is decided, and stops it.

        :raises NotInTime: it isn't decided within `DECIDED_S_MAX`
        :raises RuntimeError: the processor ended
        """
        journal = self.layout.ledger().journal
        before = JournalReader(str(journal)).last_seq
        self._post(event_id)
        log = self.layout.root / "processor.log"
        server = replace(processor_server(self.layout, self.kafka), log=log)
        began = time.monotonic()
        process = RunningServer(server)
        try:
            while JournalReader(str(journal)).last_seq == before:
                if process.exit_code is not None:
                    raise RuntimeError(f"the processor ended with code {process.exit_code}: see {log}")
                if time.monotonic() - began > DECIDED_S_MAX:
                    raise NotInTime("the first decision", DECIDED_S_MAX)
                time.sleep(POLL_S)
            return time.monotonic() - began
        finally:
            process.stop()

    def _post(self, event_id: str) -> None:
        body = stripe_event(
            f"evt_{event_id}{time.time_ns()}",
            "charge.succeeded",
            payment=f"pi_{event_id}",
            account="acct_main",
            amount_minor=1_500,
            currency="eur",
            created=SystemClock().now(),
            livemode=True,
        )
        [event] = build_adapters(ProvidersSettings())["stripe"].events(Request(body, []), "live")
        producer = open_producer(self.kafka, {}, RecordKeys(self.layout.record_keys))
        headers = dict[str, str | bytes | None](to_headers(event, SystemClock().now(), Dedupe.CLAIMED))
        producer.produce(topics_of("live").events, event.body, key=event.entity_key, headers=headers)
        producer.flush(10)
