"""How long an hour's outage is felt: its events wait, new ones keep coming, and the processor starts."""

from __future__ import annotations

import threading
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from core.clock import from_rfc3339
from core.kafka import open_producer
from core.record_keys import RecordKeys
from core.routing import topics_of
from core.settings import KafkaSettings
from ingest.publisher import producer_settings
from load.bench.drain import FLUSH_S_MAX, PUBLISH_MS_MAX, data_folder, kafka_with_backlog, processor_server, records
from load.bench.figures import Run
from load.client import NotInTime, RunningStack
from stack.servers.server import run_server

RATE_PER_S = 120
OUTAGE_S, OUTAGE_S_SHORT = 3_600, 300
RECOVER_S_MAX = 900.0
LOOK_S = 0.25
AT_REST_S = 1.0
"""Of arrivals: what a batch that runs may leave for the next one."""


def measure_recovery(run: Run) -> dict[str, float]:
    """From the start of the processor, Spark's included, until nothing waits; and the first forecast beside the truth.

    A size is the number of events that wait.
    """
    backlog = run.count(OUTAGE_S * RATE_PER_S, OUTAGE_S_SHORT * RATE_PER_S)
    with kafka_with_backlog(run, backlog) as kafka:
        took_s, forecast_ratio = recover(run.folder / "payhook", kafka, backlog, run.folder / "records")
    run.console.print(f"{backlog:,} events that waited were decided {took_s:.0f} s after the processor's start")
    figures = {"e2e.recover_s_after_1h_outage": took_s}
    return figures | ({} if forecast_ratio is None else {"e2e.recover_forecast_ratio": forecast_ratio})


def recover(data_dir: Path, kafka: KafkaSettings, backlog: int, record_keys: Path) -> tuple[float, float | None]:
    """Seconds until nothing waited, and the forecast's part of what was left then; None where nothing was forecast.

    :raises NotInTime: it isn't through in time
    """
    layout, stack = data_folder(data_dir, record_keys), RunningStack(data_dir)
    forecast: dict[str, Any] | None = None
    began = time.monotonic()
    with Arrivals(kafka, RecordKeys(record_keys)) as arrivals, run_server(processor_server(layout, kafka)):
        while True:
            said = stack.processor_status()
            forecast = forecast or said.get("catch_up", {}).get("forecast")
            if said.get("seq", 0) >= backlog + arrivals.count - AT_REST_S * RATE_PER_S:
                break
            if time.monotonic() - began > RECOVER_S_MAX:
                raise NotInTime(f"{backlog} events decided", RECOVER_S_MAX)
            time.sleep(LOOK_S)
        took_s, ended_at = time.monotonic() - began, datetime.now(UTC)
    if forecast is None or not forecast.get("seconds"):
        return took_s, None
    left_s = (ended_at - from_rfc3339(forecast["at"])).total_seconds()
    return took_s, float(forecast["seconds"]) / left_s


class Arrivals(threading.Thread):
    """Publishes `RATE_PER_S` new events as the receiver does, until its block ends. ``count``: so many so far."""

    def __init__(self, kafka: KafkaSettings, keys: RecordKeys) -> None:
        super().__init__(daemon=True)
        self._producer = open_producer(kafka, producer_settings(PUBLISH_MS_MAX), keys)
        self._over = threading.Event()
        self.count = 0

    def run(self) -> None:
        began = time.monotonic()
        for key, value, headers in records(RATE_PER_S * int(RECOVER_S_MAX), uuid.uuid4().hex[:6]):
            if self._over.wait(max(0.0, began + self.count / RATE_PER_S - time.monotonic())):
                return
            self._producer.produce(topics_of("live").events, value, key=key, headers=headers)
            self._producer.poll(0)
            self.count += 1

    def __enter__(self) -> Arrivals:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        self._producer.flush(FLUSH_S_MAX)
