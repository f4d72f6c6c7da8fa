"""Some batches of nothing before the first real one: a fresh JVM plans its first batches three times as slowly."""

from __future__ import annotations

import logging
import shutil
import threading
from pathlib import Path
from typing import Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from processor.source.stream import ASYNC_PROGRESS

log = logging.getLogger(__name__)

BATCHES = 12
SECONDS_MAX = 5.0


class Idle(Protocol):
    """A source that can pretend (`processor.source.sources.KafkaSource`)."""

    def idle_frame(self) -> DataFrame: ...


class Collects(Protocol):
    """What takes a batch's records (`processor.source.map_stage.MapStage`)."""

    def collect(self, frame: DataFrame, records: int) -> object: ...


def warm_up(source: Idle, map_stage: Collects, checkpoint: Path) -> None:
    """Runs a query like the stream's own on what comes to Kafka from now on, and lets go of what it reads.

    That it fails says nothing: the stream itself will say it better.
    """
    enough, at_work = threading.Event(), threading.Lock()

    def batch(frame: DataFrame, number: int) -> None:
        with at_work:
            if not enough.is_set():
                map_stage.collect(frame, 0)
        if number + 1 >= BATCHES:
            enough.set()

    shutil.rmtree(checkpoint, ignore_errors=True)
    try:
        writer = source.idle_frame().writeStream.foreachBatch(batch).options(**ASYNC_PROGRESS)
        query = writer.option("checkpointLocation", str(checkpoint)).start()
        enough.wait(SECONDS_MAX)
        enough.set()
        with at_work:
            query.stop()
    except (PySparkException, Py4JError, OSError) as failed:
        log.info("no batch was tried beforehand: %s", str(failed).partition("\n")[0][:300])
