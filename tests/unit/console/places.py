"""What pages rest on, over a data folder: the ledger's tables, and one work stream's dead letters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

import httpx2
from fastapi import APIRouter

from alerts.settings import AlertsSettings
from alerts.standing import read_standing
from console.access.accounts import UserService
from console.access.sessions import Sessions
from console.access.users import Users
from console.attention import Attention
from console.bookings import Bookings, BookingService
from console.dead_letters import StreamDeadLetters
from console.pages import DlqPlace, PagePlace, PageStream, make_routers
from console.pages.place import QuestionRunner
from console.pulse import Pulse
from console.received import AskReceived, not_read
from console.settings import TracingSettings
from console.subscribers import FindMissed, SubscriberSettings
from console.uploads import Compare, ReconcileFailed, ReportAsked, ReportUploads
from core.clock import Clock
from core.layout import Layout
from core.status_file import StreamStatuses
from dead_letters.dead_letter_index import Amounts, DeadLetterIndex
from dead_letters.payload import Payloads
from ledger.queries.journals import LedgerJournals
from operations.audit_log import AuditLog
from operations.commands import CommandProducer
from operations.limits import AloneLimits
from operations.orders import OrderSender
from operations.recorder import Recorder
from operations.selection.dry_run import DryRuns
from operations.selection.facts import FactFinder
from operations.selection.journal import RunLog
from operations.selection.runs import RunOrders
from operations.selection.selections import IgnoredEventFinder, Selections
from tests.dead_letters import Taking
from tests.unit.processor.harness import CONTROL

TWO_PEOPLE_ITEMS = 10


def dead_letters(
    data: Path,
    clock: Clock,
    acts: AuditLog,
    alone: AloneLimits | None = None,
    producer: CommandProducer | None = None,
    sleep: Callable[[float], object] = lambda _: None,
    shard: int = 0,
    amounts: Amounts | None = None,
    stream: str = "",
) -> StreamDeadLetters:
    """The live ledger's, or those of another ``stream``, as `stack.services.dead_letters` opens them. Whoever ordered
    something sleeps until it is decided.
    """
    layout = Layout(data).stream(stream) if stream else Layout(data).ledger(number=shard)
    index = DeadLetterIndex(layout.dead_letter_index, layout.journal, Payloads(layout.bodies_table), clock)
    users, recorder, log = Users(Layout(data).users), Recorder(acts, clock, "page"), RunLog(layout.journal, CONTROL)
    selections = Selections(
        layout,
        log,
        index,
        clock,
        recorder,
        IgnoredEventFinder(layout.journal, Payloads(layout.bodies_table).fetch_kept, amounts),
        StreamStatuses({layout.stream: layout.status}),
    )
    limits = alone or AloneLimits(TWO_PEOPLE_ITEMS)
    orders = OrderSender(lambda: producer or SentTo(), CONTROL, recorder, users.check_signed_in)
    runs = RunOrders(selections, orders, limits, clock, sleep)  # type: ignore[arg-type]
    finder = FactFinder(layout.dead_letter_index, layout.journal, layout.bodies_table)
    dry_runs = DryRuns(selections.files, index, finder, clock)
    return StreamDeadLetters(layout.stream, index, selections, runs, dry_runs, "wait", recorder)


def pages(
    data: Path,
    clock: Clock,
    acts: AuditLog,
    dead: Sequence[StreamDeadLetters] = (),
    sessions: Sessions | None = None,
    producer: CommandProducer | None = None,
    pulse: Pulse | None = None,
    received: AskReceived = not_read,
    attention: Attention | None = None,
    subscribers: Callable[[], Sequence[SubscriberSettings]] = tuple,
    compare: Compare | None = None,
    missed: FindMissed = lambda *_: (),
    status_urls: Sequence[str] = (),
) -> list[APIRouter]:
    """Every page over the data folder. ``status_urls``: where processors answer that run on other machines."""
    attention = attention or attention_at(data, acts, clock, dead)
    pulse = pulse or Pulse({}, unused_client(), clock, AlertsSettings())
    shards = dead or [dead_letters(data, clock, acts)]
    layout = Layout(data, shards=len(shards))
    sessions = sessions or Sessions(layout.sessions_file, clock, timedelta(hours=1), timedelta(hours=12))
    users = UserService(Users(layout.users), sessions, acts, clock, "page")
    streams = {one.stream: PageStream(one, layout.stream(one.stream)) for one in shards}
    uploads = ReportUploads(["adyen", "stripe"], compare or no_spark, clock)
    finance = PagePlace(layout, ("live",), QuestionRunner(), clock, uploads=uploads)
    bookings: Bookings = {"live": bookings_at(data, acts, clock, "page", producer or SentTo(), shards=len(shards))}
    traces = TracingSettings(link="https://traces.example/trace/{trace_id}").address_of
    statuses = StreamStatuses({name: stream.files.status for name, stream in streams.items()}, status_urls)
    asking = QuestionRunner()
    operators = DlqPlace(
        streams, statuses, asking, clock, pulse, attention, subscribers=subscribers, missed=missed, traces=traces
    )
    return make_routers(finance, operators, acts, users, bookings, received)


@cache
def unused_client() -> httpx2.AsyncClient:
    """A client that nobody is asked with: each one reads the machine's certificates when it is made."""
    return httpx2.AsyncClient(trust_env=False)


def attention_at(data: Path, acts: AuditLog, clock: Clock, dead: Sequence[StreamDeadLetters] = ()) -> Attention:
    """What waits for people over the data folder."""
    bookings: Bookings = {"live": bookings_at(data, acts, clock, "page", SentTo(), shards=max(1, len(dead)))}
    standing = partial(read_standing, Layout(data).alerts, AlertsSettings(), clock)
    return Attention(standing, {one.stream: one.selections for one in dead}, bookings, clock)


def no_spark(asked: ReportAsked, report: Path) -> str:
    """For tests that compare nothing."""
    raise ReconcileFailed(f"{report.name}: nothing is compared here")


class SentTo(Taking):
    """A producer that keeps what it is given."""

    def __init__(self) -> None:
        self.values: list[bytes] = []

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Callable[[Any, Any], None]) -> None:
        self.values.append(value)
        on_delivery(None, self)


def bookings_at(
    data: Path,
    acts: AuditLog,
    clock: Clock,
    channel: str,
    producer: CommandProducer,
    control: str = CONTROL,
    shards: int = 1,
) -> BookingService:
    """The live ledger's bookings by two people."""
    layout = Layout(data, shards=shards)
    users = Users(layout.users)
    orders = OrderSender(lambda: producer, control, Recorder(acts, clock, channel), users.check_signed_in)
    return BookingService(LedgerJournals(layout.all_ledgers()), control, orders, clock)
