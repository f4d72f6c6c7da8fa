"""Opens a work stream's dead letters from the settings: its index, its selections, and the amounts in bodies."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property, partial

from console.access.users import Users
from console.dead_letters import StreamDeadLetters
from core.clock import Clock
from core.errors import PayhookError
from core.layout import StreamLayout
from core.money import Money
from core.routing import base_of, mode_of, topics_of
from core.settings import KafkaSettings
from dead_letters.dead_letter_index import DeadLetterIndex
from dead_letters.payload import Payloads, kafka_origin
from ledger.redactions import read_body_statuses
from operations.audit_log import AuditLog
from operations.commands import CommandProducer
from operations.orders import OrderSender
from operations.recorder import Recorder
from operations.selection.dry_run import DryRuns
from operations.selection.facts import FactFinder
from operations.selection.journal import RunLog
from operations.selection.rehearsal import Rehearsal
from operations.selection.runs import RunOrders
from operations.selection.selections import IgnoredEventFinder, Selections
from providers.port import Adapter
from providers.reconciled import choose_reader
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from stack.addresses import open_statuses
from stack.settings import Settings, streams_of

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
    from stack.rehearsal import StreamRehearsal

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
