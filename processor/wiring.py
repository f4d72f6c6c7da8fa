"""Puts the ledger stream together: the only place in this folder that knows a handler by name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from core.clock import Clock
from core.decision import ErrorKind
from core.errors import SettingError
from core.work import Handler
from dlq.publisher import DlqPublisher
from dlq.settings import DlqSettings
from journal.bodies import BodyStore
from journal.index import Index
from journal.reader import JournalReader
from journal.writer import JournalWriter
from ledger import handler as ledger_handler
from ledger.postings import PostingsWriter
from ledger.settings import LedgerSettings
from processor import offsets
from processor.batch import Batches, StreamRules
from processor.classify import Classifier
from processor.execute import Executor
from processor.metrics import ProcessorMetrics
from processor.retry import parse_policy
from processor.settings import DeadHead, ProcessorSettings, StreamSettings
from processor.worker import Task
from providers.registry import build_adapters
from providers.settings import ProvidersSettings

log = logging.getLogger(__name__)

EVENTS_TOPIC = "payments.events"
CONTROL_TOPIC = "payments.control"
STREAM = "ledger"


@dataclass(frozen=True, slots=True)
class Places:
    """Where one stream keeps what it writes. ``checkpoint`` and ``trying`` are disposable."""

    journal: Path
    bodies: Path
    postings: Path
    index: Path
    checkpoint: Path
    status: Path
    trying: Path


def open_ledger_stream(
    session: SparkSession,
    places: Places,
    bootstrap: str,
    settings: ProcessorSettings,
    providers: ProvidersSettings,
    ledger: LedgerSettings,
    dlq: DlqSettings,
    metrics: ProcessorMetrics,
    clock: Clock,
) -> Batches:
    """The ledger stream, ready to run: the epoch is committed first, then everything catches up by seq."""
    task = _task(settings.ledger, partial(ledger_handler.build, ledger, providers))
    executor = Executor(session, task, _cores(session))
    executor.warm()
    held = offsets.watermarks(bootstrap, [EVENTS_TOPIC, CONTROL_TOPIC])
    places.trying.parent.mkdir(parents=True, exist_ok=True)
    writer = JournalWriter.create_or_open(str(places.journal), STREAM)
    state = writer.begin_epoch(offsets.starts(held))
    log.info("epoch %d begins after seq %d", state.epoch, state.next_seq - 1)
    offsets.check_marks(state.marks, held)
    reader = JournalReader(str(places.journal), state.version)
    bodies = BodyStore(str(places.bodies))
    index = Index.open(places.index, state.epoch)
    index.catch_up(reader, bodies)
    postings = PostingsWriter.open(str(places.postings))
    postings.catch_up(reader)
    dead_letters = DlqPublisher(_producer(bootstrap), f"dlq.{STREAM}", state.published_upto, settings=dlq, clock=clock)
    dead_letters.catch_up(reader, bodies, lambda: JournalReader(str(places.journal)))
    return Batches(
        rules=_rules(settings, settings.ledger),
        state=state,
        writer=writer,
        index=index,
        bodies=bodies,
        followers=[postings],
        dead_letters=dead_letters,
        executor=executor,
        adapters=build_adapters(providers),
        clock=clock,
        trying=places.trying,
        on_rows=metrics.committed,
    )


def _rules(settings: ProcessorSettings, stream: StreamSettings) -> StreamRules:
    return StreamRules(
        name=STREAM,
        events_topic=EVENTS_TOPIC,
        control_topic=CONTROL_TOPIC,
        policy=parse_policy(stream.retry),
        dead_head=stream.dead_head,
        due_per_batch_max=settings.due_per_batch_max,
        drain_per_entity_max=settings.drain_per_entity_max,
        probe_s_max=stream.probe_s_max,
    )


def _task(stream: StreamSettings, build_handler: Callable[[], Handler]) -> Task:
    return Task(
        stream=STREAM,
        build_handler=build_handler,
        classifier=Classifier(_kinds(stream.error_kinds)),
        deadline_s=stream.handler_deadline_s,
        concurrency=stream.concurrency,
        in_place_tries=stream.in_place_tries,
        stop_on_dead=stream.dead_head is not DeadHead.CONTINUE,
    )


def _kinds(names: dict[str, str]) -> dict[str, ErrorKind]:
    try:
        return {error_class: ErrorKind(kind) for error_class, kind in names.items()}
    except ValueError as wrong:
        raise SettingError("processor.ledger.error_kinds", f"{wrong}; NRE, SLE, SNBE or SBE is wanted") from wrong


def _cores(session: SparkSession) -> int:
    return int(session.sparkContext.defaultParallelism)


def _producer(bootstrap: str) -> Callable[[], Any]:
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True}
    return partial(Producer, settings)


def topics() -> Sequence[str]:
    """The topics that the stream reads."""
    return (EVENTS_TOPIC, CONTROL_TOPIC)
