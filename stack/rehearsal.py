"""Asks a stream's adapters and its handler about an event before it is replayed. Nothing is called out, or written."""

from __future__ import annotations

from typing import cast

from pydantic import BaseModel

from core.errors import PayhookError
from core.event import POISON_TYPE, Mode
from core.money import MovementUnknown
from core.routing import base_of, mode_of
from core.work import Applied, Handler, Ignored, Unknown
from journal.schema import JournalRow
from operations.selection.rehearsal import Expected, ExpectedAnswer
from processor.decide.rereads import rename_if_readable
from processor.errors.classify import Classifier, Failure, make_event_failure
from processor.source.records import make_work_item
from processor.streams import StreamConfig
from processor.wiring import Wired, wire_stream
from providers.money import explain_nothing_moved
from providers.reconciled import choose_reader
from providers.registry import build_adapters
from providers.reread import reread_events
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
