"""``python -m stack.services.processor``: the work streams until SIGTERM.

Any doubt about a commit ends its writer (`processor.application.StreamLoop`).

All streams that are configured run in this one Spark application. ``--mode test`` is for test traffic: the same streams
on topics and journals of their own. ``--shard 1`` runs the second of `processor.shards`: the streams of what receivers
publish, for a part of the entities; streams of other sources run with the first.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel

from core.clock import SystemClock
from core.errors import PayhookError
from core.event import Mode
from core.kafka import check_kafka_files
from core.layout import LEDGER
from core.log import configure_logging
from core.record_keys import RecordKeys
from core.routing import MODES, base_of
from core.spark import is_local
from core.tracing import open_tracing
from journal.anchors import AnchorKeys
from processor.application import Application
from processor.backlog.sizing import open_executors
from processor.claims import ReceiverClaims, open_generation_writer
from processor.opening import OpenableStream
from processor.reporting.exposition import PartFigures, join_registries, serve
from processor.reporting.metrics import ProcessorMetrics
from processor.reporting.status import DecisionSpans, StatusFile, StreamStatus
from processor.spark import add_slots, calm_collector, open_session, spark_runs
from processor.streams import StreamConfig, list_enabled
from processor.topics import SharedResources
from processor.wiring import Wired, wire_stream
from providers.registry import build_adapters
from stack.addresses import metrics_port
from stack.data_folder import secure_data_folder
from stack.endpoints import check_restored
from stack.jars import spark_jars
from stack.package import make_package
from stack.settings import Settings, load_settings, streams_of

log = logging.getLogger("processor")


def main() -> int:
    """Returns 0 after SIGTERM; 1 when it ended by itself, for its supervisor to start it again."""
    configure_logging()
    mode, number = _read_arguments()
    try:
        settings = load_settings()
        secure_data_folder(settings)
        check_restored(settings.layout)
        configs = _select_streams(settings, mode, number)
        wired = _wire_streams(settings, configs, mode, number)
        record_keys = RecordKeys(Path(settings.kafka.record_keys_file))
        # What decides the events that receivers publish holds the generation of their claims.
        ledgers = [stream.name for stream in wired if base_of(stream.name) == LEDGER]
        generations = {
            name: open_generation_writer(settings.redis, mode, lambda: record_keys.ids, number) for name in ledgers
        }
        anchor_keys = AnchorKeys.read(Path(settings.processor.anchor_key_file))
        check_kafka_files(settings.kafka)
    except PayhookError as problem:
        log.error("%s", problem)
        return 1
    clock = SystemClock()
    metrics = {stream.name: ProcessorMetrics(clock, stream.delay) for stream in wired}
    files = {stream.name: StatusFile(stream.places.status, clock) for stream in wired}
    for file in files.values():
        file.remove()
    port, parts = metrics_port(settings, mode, number), PartFigures()
    if port is not None:
        registry = join_registries({name: metric.registry for name, metric in metrics.items()})
        registry.register(parts)
        serve(port, settings.metrics_host, registry, lambda: {name: file.last_written for name, file in files.items()})
    claims = ReceiverClaims(settings.redis, mode, settings.processor.shards)
    try:
        shared = replace(_open_shared(settings, configs, clock, anchor_keys, record_keys), claims=claims)
    except PayhookError as problem:
        log.error("%s", problem)
        return 1
    parts.start(shared.session)
    tracing = open_tracing("processor", clock)
    statuses = {
        stream.name: StreamStatus(
            stream.name,
            files[stream.name],
            metrics[stream.name],
            generations.get(stream.name),
            None if tracing is None else DecisionSpans(stream.name, tracing),
        )
        for stream in wired
    }
    streams = [(OpenableStream(stream, shared, statuses[stream.name]), statuses[stream.name]) for stream in wired]
    for writer in generations.values():
        writer.start()
    calm_collector()
    application = Application(streams, clock, lambda: spark_runs(shared.session))
    signal.signal(signal.SIGTERM, lambda *_: application.stop())
    signal.signal(signal.SIGINT, lambda *_: application.stop())
    try:
        return 0 if application.run() else 1
    finally:
        for writer in generations.values():
            writer.close()
        if tracing is not None:
            tracing.close()


def _select_streams(settings: Settings, mode: Mode, number: int) -> list[StreamConfig]:
    if number >= settings.processor.shards:
        raise NoSuchShard(number, settings.processor.shards)
    return [config for config in list_enabled(streams_of(settings), mode) if number < len(config.all_shards)]


def _wire_streams(settings: Settings, configs: Sequence[StreamConfig], mode: Mode, number: int) -> list[Wired]:
    layout, sections, streams = settings.layout, _collect_sections(settings), streams_of(settings)
    wired = []
    for config in configs:
        sources = streams[config.source_stream].names(mode) if config.source_stream is not None else []
        wired.append(wire_stream(config, mode, layout.stream, sections, number, sources))
    return wired


def _open_shared(
    settings: Settings,
    configs: Sequence[StreamConfig],
    clock: SystemClock,
    anchor_keys: AnchorKeys,
    record_keys: RecordKeys,
) -> SharedResources:
    processor, bounded = settings.processor, sum(config.tasks_max for config in configs)
    unbounded = any(config.tasks_max == 0 for config in configs)
    master = add_slots(processor.master, bounded if unbounded else 0)
    jars = spark_jars(settings.layout.lake)
    archive = None if is_local(master) else make_package(settings.layout.package)
    session = open_session("payhook", master, processor.driver_memory, jars, settings.data_dir, archive=archive)
    cores = session.sparkContext.defaultParallelism - (bounded if master != processor.master else 0)
    adapters = build_adapters(settings.providers)
    executors = open_executors(processor, session, int(cores))
    return SharedResources(
        session, settings.kafka, settings.topics, adapters, clock, executors, anchor_keys, record_keys
    )


def _collect_sections(settings: Settings) -> Mapping[type, BaseModel]:
    sections = [getattr(settings, name) for name in Settings.model_fields]
    return {type(section): section for section in sections if isinstance(section, BaseModel)}


class NoSuchShard(PayhookError):
    def __init__(self, number: int, count: int) -> None:
        self.number = number
        self.count = count
        super().__init__(f"there is no shard {number}: processor.shards is {count}, and the first one is 0")


def _read_arguments() -> tuple[Mode, int]:
    parser = argparse.ArgumentParser(description="The processor: the work streams of one kind of traffic.")
    parser.add_argument("--mode", choices=MODES, default="live", help="whose traffic they decide")
    parser.add_argument("--shard", type=int, default=0, help="which of processor.shards, from 0")
    given = parser.parse_args()
    mode: Mode = given.mode
    return mode, max(0, given.shard)


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)
