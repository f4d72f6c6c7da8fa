"""Opens a work stream's dead letters from the settings: its index, its selections, and the amounts in bodies."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property, partial
from typing import cast

from pydantic import BaseModel

from console.access.users import Users
from console.dead_letters import StreamDeadLetters
from core.clock import Clock
from core.errors import PayhookError
from core.event import POISON_TYPE, Mode
from core.layout import StreamLayout
from core.money import Money, MovementUnknown
from core.routing import base_of, mode_of, topics_of
from core.settings import KafkaSettings
from core.work import Applied, Handler, Ignored, Unknown
from dead_letters.dead_letter_index import DeadLetterIndex
from dead_letters.payload import Payloads, kafka_origin
from journal.schema import JournalRow
from ledger.redactions import read_body_statuses
from operations.audit_log import AuditLog
from operations.commands import CommandProducer
from operations.orders import OrderSender
from operations.recorder import Recorder
from operations.selection.dry_run import DryRuns
from operations.selection.facts import FactFinder
from operations.selection.journal import RunLog
from operations.selection.rehearsal import Expected, ExpectedAnswer, Rehearsal
from operations.selection.runs import RunOrders
from operations.selection.selections import IgnoredEventFinder, Selections
from processor.decide.rereads import rename_if_readable
from processor.errors.classify import Classifier, Failure, make_event_failure
from processor.source.records import make_work_item
from processor.streams import StreamConfig
from processor.wiring import Wired, wire_stream
from providers.money import explain_nothing_moved
from providers.port import Adapter
from providers.reconciled import choose_reader
from providers.registry import build_adapters
from providers.reread import reread_events
from providers.settings import ProvidersSettings
from stack.addresses import open_statuses
from stack.settings import Settings, streams_of

CALLS_OUT = "the handler calls other services, so only the adapter was tried"
NO_ADAPTER = "the handler calls other services, and no adapter reads these events: nothing was tried"


class StreamRehearsal:
    """Asks an adapter for what it names, and a handler only if it is pure: it makes no calls and remembers nothing."""

    def __init__(self, settings: Settings, stream: str) -> None:
        config = streams_of(settings)[base_of(stream)]
        self._adapters = build_adapters(settings.providers) if config.source_stream is None else {}
        self._classifier: Classifier | None = None
        self._handler = self._pure_handler(settings, config, mode_of(stream))

    @property
    def left_out(self) -> str:
        if self._handler is not None:
            return ""
        return CALLS_OUT if self._adapters else NO_ADAPTER

    def answer(self, row: JournalRow, body: bytes) -> ExpectedAnswer | None:
        if row.event_type == POISON_TYPE:
            return self._read_again(row, body)
        if self._handler is None:
            return self._ask_money(row, body)
        item = make_work_item(rename_if_readable(self._adapters, row, body), body, row.item_seq)
        try:
            outcome = self._handler(item)
        except BaseException as error:
            assert self._classifier is not None
            return _expect_death(self._classifier.make_failure(error, item=item))
        if isinstance(outcome, Applied):
            return ExpectedAnswer(Expected.APPLIED)
        if isinstance(outcome, Ignored):
            return ExpectedAnswer(Expected.IGNORED, outcome.reason)
        return ExpectedAnswer(Expected.UNKNOWN, outcome.reason) if isinstance(outcome, Unknown) else None

    def _pure_handler(self, settings: Settings, config: StreamConfig, mode: Mode) -> Handler | None:
        if config.source_stream is not None:
            return None
        wired = _wire_stream(settings, config, mode)
        self._classifier = wired.task.classifier
        handler = wired.task.build_handler()
        return handler if getattr(handler, "pure", False) else None

    def _read_again(self, row: JournalRow, body: bytes) -> ExpectedAnswer | None:
        adapter = self._adapters.get(row.provider or "")
        if adapter is None:
            return ExpectedAnswer(Expected.DIES, f"there is no adapter for {row.provider}") if self._adapters else None
        try:
            events = reread_events(adapter, body, cast(Mode, row.mode), row.tenant, row.zone)
        except PayhookError as unreadable:
            return ExpectedAnswer(Expected.DIES, f"its adapter can't read it: {unreadable}")
        return ExpectedAnswer(Expected.APPLIED, f"its adapter reads it: {len(events)} events come in")

    def _ask_money(self, row: JournalRow, body: bytes) -> ExpectedAnswer | None:
        adapter, event_type = self._adapters.get(row.provider or ""), row.event_type or ""
        if adapter is None:
            return None
        try:
            fact = choose_reader(adapter, event_type).money(body, event_type)
        except MovementUnknown as unknown:
            return ExpectedAnswer(Expected.UNKNOWN, str(unknown))
        except BaseException as error:
            return _expect_death(make_event_failure(error))
        return ExpectedAnswer(Expected.IGNORED, explain_nothing_moved(adapter, event_type)) if fact is None else None


def _expect_death(failure: Failure) -> ExpectedAnswer:
    return ExpectedAnswer(Expected.DIES, f"{failure.error_class} ({failure.kind.value}): {failure.message}")


def _wire_stream(settings: Settings, config: StreamConfig, mode: Mode) -> Wired:
    sections = [getattr(settings, name) for name in Settings.model_fields]
    by_type = {type(section): section for section in sections if isinstance(section, BaseModel)}
    return wire_stream(config, mode, settings.layout.stream, by_type)


log = logging.getLogger(__name__)


class BodyAmounts:
    def __init__(self, settings: ProvidersSettings) -> None:
        self._settings = settings

    @cached_property
    def _provider_adapters(self) -> dict[str, Adapter]:
        return build_adapters(self._settings)

    def __call__(self, provider: str, event_type: str, body: bytes) -> Money | None:
        """Returns the amount; None where no money moves, the provider is unknown, or the body can't be read."""
        adapter = self._provider_adapters.get(provider)
        if adapter is None:
            return None
        try:
            fact = choose_reader(adapter, event_type).money(body, event_type)
        except PayhookError:
            return None
        except Exception as bug:
            # An event may be dead because its adapter fails on it just so.
            log.warning("the adapter of %s fails on a %s: %s", provider, event_type, type(bug).__name__)
            return None
        return fact.money if fact is not None else None


def open_dead_letter_index(
    layout: StreamLayout, settings: Settings, clock: Clock, kafka: KafkaSettings | None = None
) -> DeadLetterIndex:
    """Opens the index of one stream. ``kafka``: to ask for bodies that aren't kept; None: not to ask."""
    payloads, amounts = _open_payloads(layout, kafka), BodyAmounts(settings.providers)
    places = layout.dead_letter_index, layout.journal
    return DeadLetterIndex(*places, payloads, clock, amounts=amounts, ages=settings.alerts)


def _open_payloads(layout: StreamLayout, kafka: KafkaSettings | None) -> Payloads:
    known = partial(read_body_statuses, layout.stream, layout.bodies_table, layout.shared_table("redactions"))
    return Payloads(layout.bodies_table, known, None if kafka is None else kafka_origin(kafka))


def _open_rehearsal(settings: Settings, stream: str) -> Rehearsal:
    # What wires a stream imports Spark, which a listener needs for nothing else.
    from stack.services.dead_letters import StreamRehearsal

    return StreamRehearsal(settings, stream)


def open_dead_letters(
    settings: Settings, stream: str, clock: Clock, channel: str, producer: Callable[[], CommandProducer]
) -> StreamDeadLetters:
    """Opens a stream's dead letters.

    ``channel``: through which acts come: ``page``, ``api`` or ``cli``. ``producer``: opened with the first order.
    """
    layout, control = settings.layout, topics_of(mode_of(stream)).control
    places = layout.stream(stream)
    config = streams_of(settings)[base_of(stream)]
    limits = config.dlq.alone_limits.of_each(len(config.all_shards))
    index = open_dead_letter_index(places, settings, clock, settings.kafka)
    recorder, log = Recorder(AuditLog(layout.audit_log), clock, channel), RunLog(places.journal, control)

    ignored = IgnoredEventFinder(
        places.journal, _open_payloads(places, None).fetch_kept, BodyAmounts(settings.providers)
    )
    selections = Selections(places, log, index, clock, recorder, ignored, open_statuses(settings))
    if channel == "cli":  # accounts of the machine act there
        orders = OrderSender(producer, control, recorder)
    else:
        orders = OrderSender(producer, control, recorder, Users(layout.users).check_signed_in)
    finder = FactFinder(places.dead_letter_index, places.journal, places.bodies_table)
    return StreamDeadLetters(
        stream,
        index,
        selections,
        RunOrders(selections, orders, limits, clock),
        DryRuns(selections.files, index, finder, clock, partial(_open_rehearsal, settings, stream)),
        config.dead_head.value,
        recorder,
        config.dlq.replays_max,
    )
