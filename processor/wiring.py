"""Puts the ledger stream together: the only place in this folder that knows a handler by name."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from core.clock import Clock
from core.decision import ErrorKind
from core.errors import SettingError
from core.event import Mode
from core.routing import dlq_topic, stream_of, topics_of
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

STREAM = "ledger"


class Places(Protocol):
    """Where one stream keeps what it writes (`stack.layout.StreamLayout`). ``trying`` is disposable."""

    @property
    def journal(self) -> Path: ...
    @property
    def bodies(self) -> Path: ...
    @property
    def postings(self) -> Path: ...
    @property
    def index(self) -> Path: ...
    @property
    def trying(self) -> Path: ...


def open_ledger_stream(
    session: SparkSession,
    mode: Mode,
    places: Places,
    bootstrap: str,
    settings: ProcessorSettings,
    providers: ProvidersSettings,
    ledger: LedgerSettings,
    dlq: DlqSettings,
    metrics: ProcessorMetrics,
    clock: Clock,
) -> Batches:
    """One mode's ledger stream, ready to run: the epoch is committed first, then everything catches up by seq."""
    stream, topics = stream_of(STREAM, mode), topics_of(mode)
    task = _task(stream, settings.ledger, partial(ledger_handler.build, ledger, providers))
    executor = Executor(session, task, _cores(session))
    executor.warm()
    held = offsets.watermarks(bootstrap, [topics.events, topics.control])
    places.trying.parent.mkdir(parents=True, exist_ok=True)
    writer = JournalWriter.create_or_open(str(places.journal), stream)
    state = writer.begin_epoch(offsets.starts(held))
    log.info("%s: epoch %d begins after seq %d", stream, state.epoch, state.next_seq - 1)
    offsets.check_marks(state.marks, held)
    reader = JournalReader(str(places.journal), state.version)
    bodies = BodyStore(str(places.bodies))
    index = Index.open(places.index, state.epoch)
    index.catch_up(reader, bodies)
    postings = PostingsWriter.open(str(places.postings))
    postings.catch_up(reader)
    dead_letters = DlqPublisher(
        _producer(bootstrap),
        dlq_topic(stream),
        state.published_upto,
        group=f"payhook-{stream}",
        settings=dlq,
        clock=clock,
    )
    dead_letters.catch_up(reader, bodies, lambda: JournalReader(str(places.journal)))
    return Batches(
        rules=_rules(mode, settings, settings.ledger),
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


def _rules(mode: Mode, settings: ProcessorSettings, stream: StreamSettings) -> StreamRules:
    topics = topics_of(mode)
    return StreamRules(
        name=stream_of(STREAM, mode),
        events_topic=topics.events,
        control_topic=topics.control,
        policy=parse_policy(stream.retry),
        dead_head=stream.dead_head,
        due_per_batch_max=settings.due_per_batch_max,
        drain_per_entity_max=settings.drain_per_entity_max,
        probe_s_max=stream.probe_s_max,
        mode=mode,
    )


def _task(stream: str, settings: StreamSettings, build_handler: Callable[[], Handler]) -> Task:
    return Task(
        stream=stream,
        build_handler=build_handler,
        classifier=Classifier(_kinds(settings.error_kinds)),
        deadline_s=settings.handler_deadline_s,
        concurrency=settings.concurrency,
        in_place_tries=settings.in_place_tries,
        stop_on_dead=settings.dead_head is not DeadHead.CONTINUE,
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
