"""``python -m processor``: the ledger stream until SIGTERM. Any doubt about a commit ends the process.

``--mode test`` is the one of test traffic: the same stream on topics and a journal of its own.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import signal
import sys

from prometheus_client import start_http_server

from core.clock import SystemClock
from core.event import Mode
from core.log import configure_logging
from core.routing import MODES, stream_of
from processor.metrics import ProcessorMetrics
from processor.sources import KafkaSource
from processor.spark import open_session
from processor.status import StatusFile
from processor.stream import Stream
from processor.wiring import STREAM, open_ledger_stream
from stack.jars import spark_jars
from stack.layout import Layout
from stack.settings import load_settings

log = logging.getLogger("processor")

WARM_BATCHES = 2
"""Ready is said after so many: the first ones load what every later one finds loaded."""


def main() -> int:
    """Exit 0 after SIGTERM; 1 when the stream ended by itself, for whoever supervises to start it again."""
    configure_logging()
    mode = _mode()
    settings = load_settings()
    clock = SystemClock()
    layout = Layout(settings.data_dir)
    places = layout.stream(stream_of(STREAM, mode))
    status = StatusFile(places.status, clock)
    status.remove()
    metrics = ProcessorMetrics(clock)
    port = settings.processor.metrics_port if mode == "live" else settings.processor.test_metrics_port
    if port:
        start_http_server(port, "127.0.0.1", metrics.registry)
    session = open_session(
        "payhook", settings.processor.master, settings.processor.driver_memory, spark_jars(), layout.root
    )
    batches = open_ledger_stream(
        session,
        mode,
        places,
        settings.kafka.bootstrap_servers,
        settings.processor,
        settings.providers,
        settings.ledger,
        settings.dlq,
        metrics,
        clock,
    )

    ticks = itertools.count(1)

    def on_batch() -> None:
        warm = next(ticks) >= WARM_BATCHES
        metrics.blocked.set(batches.blocked)
        if warm and status.due():
            told = batches.status()
            metrics.dead_open.set(told["dead"])
            metrics.parked.set(told["open"])
            status.write({"ready": True, "stream": places.stream, **told})

    topics = KafkaSource(
        session, settings.kafka.bootstrap_servers, settings.processor.offsets_per_batch_max, settings.processor.tick_s
    )
    stream = Stream(batches, clock, places.checkpoint, on_batch, topics)
    signal.signal(signal.SIGTERM, lambda *_: stream.stop())
    signal.signal(signal.SIGINT, lambda *_: stream.stop())
    try:
        stream.run()
    except Exception:
        log.exception("the stream ended")
        return 1
    batches.close()
    return 0


def _mode() -> Mode:
    parser = argparse.ArgumentParser(description="The processor of the ledger stream.")
    parser.add_argument("--mode", choices=MODES, default="live", help="whose traffic it decides")
    mode: Mode = parser.parse_args().mode
    return mode


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)
