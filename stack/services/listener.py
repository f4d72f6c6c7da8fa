"""``python -m stack.services.listener``: the management listener until SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from confluent_kafka import Producer
from fastapi import APIRouter

from alerts.standing import read_standing
from console.access.accounts import UserService
from console.access.sessions import Sessions
from console.access.sign_in import Access, SignInThrottle
from console.access.users import Users
from console.api import OrderServices, mount_api
from console.attention import Attention
from console.bookings import Bookings, BookingService
from console.catch_ups import read_catch_ups
from console.dead_letters import Streams
from console.forms import Cookies
from console.guard import guard_app, origins_of
from console.health import KafkaLag, create_app
from console.pages import DlqPlace, PagePlace, PageStream, make_routers
from console.pages.place import QuestionRunner
from console.pulse import Pulse
from console.received import AskReceived
from console.subscribers import SubscriberSettings
from console.uploads import ReconcileFailed, ReportAsked, ReportUploads
from core.clock import Clock, SystemClock
from core.errors import PayhookError, SettingError
from core.event import Mode
from core.kafka import check_kafka_files, open_producer
from core.location import Location
from core.log import configure_logging
from core.record_keys import RecordKeys
from core.redis import async_redis, check_redis
from core.routing import topics_of
from ingest.claims import RedisGate
from ingest.idempotency.store import RedisAnswers
from journal.anchors import Anchoring, AnchorKeys
from ledger.queries.journals import LedgerJournals
from notify.handler import DisabledSubscribers, disabled_folder
from notify.settings import NotifySettings
from notify.subscribers import Subscriber, missed_items, shown_fields, subscribers_file
from operations.audit_log import STREAM, AuditAnchors, AuditLog
from operations.orders import DeltaView, OrderSender, OrderService
from operations.recorder import Recorder
from providers.settlement import REPORTS
from stack.addresses import metrics_urls, open_statuses
from stack.data_folder import secure_data_folder
from stack.services.dead_letters import open_dead_letters
from stack.settings import Settings, load_settings, stream_names
from stack.watching import build_watched, open_receipt_tail

COMPARE_S_MAX = 1_800.0
PROBLEM_CHARS_MAX = 1_000


def compare_by_command(settings: Settings, asked: ReportAsked, report: Path) -> str:
    """Compares a report in a process of its own, and returns the run's id.

    :raises ReconcileFailed: with what the command said
    """
    end_with_parent = [sys.executable, "-S", "-m", "stack.die_with_parent", str(os.getpid())]
    words = ["ledger", "reconcile", "--json", "--data", str(settings.data_dir), "--provider", asked.provider]
    words += ["--report", str(report), *_build_options(asked)]
    command = [*end_with_parent, sys.executable, "-m", "cli.main", *words]
    # The answer names every difference: of a long report more than a process of pages should hold.
    with tempfile.TemporaryFile() as answer:
        try:
            result = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=answer,
                stderr=subprocess.PIPE,
                timeout=COMPARE_S_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            problem = f"there is no result after {COMPARE_S_MAX:,.0f} s: use `payhook ledger reconcile`"
            raise ReconcileFailed(problem) from None
        answer.seek(0)
        first_line = answer.readline().decode("utf-8", "replace")
    try:
        run_id: str = json.loads(f"{first_line.rstrip().rstrip(',')}}}")["run"]["run_id"]
    except (ValueError, KeyError, TypeError):
        message = " ".join(result.stderr.decode("utf-8", "replace").split())[-PROBLEM_CHARS_MAX:]
        raise ReconcileFailed(message or f"the command ended with {result.returncode}") from None
    return run_id


def _build_options(asked: ReportAsked) -> list[str]:
    options = {
        "--account": asked.account or None,
        "--tenant": asked.tenant,
        "--from": None if asked.since is None else asked.since.isoformat(),
        "--to": None if asked.until is None else asked.until.isoformat(),
    }
    given = [f"{name}={value}" for name, value in options.items() if value is not None]
    return [*given, *(["--test"] if asked.mode == "test" else [])]


def read_subscribers(settings: NotifySettings) -> list[SubscriberSettings]:
    """Reads them in the file's order; none where there is no file. Secrets aren't read: another service may hold them.

    :raises SubscribersUnreadable: the file is wrong
    """
    file = subscribers_file(settings)
    if not file.path.exists():
        return []
    disabled = DisabledSubscribers(disabled_folder(settings))
    return [_describe_subscriber(subscriber, disabled) for subscriber in file.read_all().values()]


def find_missed(settings: NotifySettings, name: str, journal: Location, since: datetime) -> list[int]:
    return missed_items(journal, subscribers_file(settings).find_named(name), since)


def _describe_subscriber(subscriber: Subscriber, disabled: DisabledSubscribers) -> SubscriberSettings:
    fields = shown_fields(subscriber)
    if not subscriber.enabled:
        return SubscriberSettings(**fields, state="off", why="enabled = false in the subscribers file")
    disabling = disabled.find(subscriber.name)
    if disabling is not None:
        return SubscriberSettings(**fields, state="disabled", why=disabling.reason, since=disabling.at)
    return SubscriberSettings(**fields, state="active")


SESSION_IDLE, SESSION_WHOLE = timedelta(minutes=30), timedelta(hours=12)
"""A session ends after so much rest, and in any case after so long."""

log = logging.getLogger(__name__)

REDIS_TIMEOUT_S = 1.0
"""Far more than the receiver allows: an operator's order waits rather than being refused."""
REDIS_FAILURES_MAX = 5
REDIS_RESET_S = 2.0
KEY_LEASE_S = 15.0
"""How long a key stays claimed when its listener died, or its claim came late out of a Redis that hung. A living
listener renews it."""
COMMAND_TIMEOUT_MS = 8_000
"""Below `operations.commands.SEND_S_MAX`: a command that was answered 503 isn't sent minutes later by Kafka."""
_COMMANDS = {"acks": "all", "enable.idempotence": True, "message.timeout.ms": COMMAND_TIMEOUT_MS, "log_level": 0}
"""The producer's settings."""


def main() -> int:
    configure_logging()
    # It is asked about thousands of events when somebody looks what a replay would do.
    for name in ("ledger.handler", "ledger.directory"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        settings = load_settings()
        secure_data_folder(settings)
        check_redis(settings.redis)
        check_kafka_files(settings.kafka)
    except PayhookError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    # uvicorn raises the signal again once it has stopped: leases and anchors are to be seen to after that.
    signal.signal(signal.SIGTERM, lambda *_: None)
    asyncio.run(_serve(settings))
    return 0


async def _serve(settings: Settings) -> None:
    clock, console, layout = SystemClock(), settings.console, settings.layout
    lag, tail = KafkaLag(settings.kafka), open_receipt_tail(settings, clock)
    producer = open_producer(settings.kafka, _COMMANDS, RecordKeys(Path(settings.kafka.record_keys_file)))
    gate = RedisGate(REDIS_TIMEOUT_S, REDIS_FAILURES_MAX, REDIS_RESET_S)
    audit_log = AuditLog(layout.audit_log)
    users, sessions = Users(layout.users), Sessions(layout.sessions_file, clock, SESSION_IDLE, SESSION_WHOLE)
    access = Access(users, sessions, SignInThrottle(clock), audit_log, clock)
    service = UserService(users, sessions, audit_log, clock, "page")
    cookies = Cookies(console.public_url.startswith("https://"))
    origins = origins_of(console.host, console.port, console.public_url)
    async with (
        httpx2.AsyncClient(trust_env=False) as client,
        async_redis(settings.redis, REDIS_TIMEOUT_S, REDIS_TIMEOUT_S) as redis,
    ):
        app = create_app(build_watched(settings, lag.read, tail.get_last_hour), client, clock)
        answers = RedisAnswers(redis, gate, KEY_LEASE_S)
        streams = {
            name: open_dead_letters(settings, name, clock, "api", lambda: producer) for name in stream_names(settings)
        }
        by_api, by_page = (
            _open_orders(settings, producer, Recorder(audit_log, clock, channel), users) for channel in ("api", "page")
        )
        bookings = _open_bookings(settings, by_api, clock)
        selections = {name: stream.selections for name, stream in streams.items()}
        standing = partial(read_standing, layout.alerts, settings.alerts, clock)
        attention = Attention(standing, selections, bookings, clock)
        services = _order_services(settings, by_api, clock)
        catch_ups = partial(read_catch_ups, layout, settings.ingest.taken_modes)
        mount_api(app, services, bookings, answers, Streams(streams), tail.get_last_hour, attention, catch_ups)
        pulse = Pulse(metrics_urls(settings), client, clock, settings.alerts)
        bookings_by_page = _open_bookings(settings, by_page, clock)
        pages = _build_pages(
            settings, audit_log, service, bookings_by_page, clock, producer, pulse, tail.get_last_hour, attention
        )
        listener = guard_app(app, access, cookies, origins, pages, attention.badges_for)
        # Tries to sign in are counted by address: no header may say another one.
        config = uvicorn.Config(
            listener, host=console.host, port=console.port, access_log=False, log_config=None, proxy_headers=False
        )
        following = asyncio.gather(pulse.follow(), attention.follow())
        reading = asyncio.create_task(tail.follow(), name="what came in")
        with _anchor_audit_log(settings, audit_log, producer, clock):
            await uvicorn.Server(config).serve()
        following.cancel()
        reading.cancel()
    access.close()
    lag.close()
    await asyncio.to_thread(tail.close)


def _build_pages(
    settings: Settings,
    audit_log: AuditLog,
    users: UserService,
    bookings: Bookings,
    clock: Clock,
    producer: Producer,
    pulse: Pulse,
    received: AskReceived,
    attention: Attention,
) -> list[APIRouter]:
    layout = settings.layout
    streams = {
        name: PageStream(open_dead_letters(settings, name, clock, "page", lambda: producer), layout.stream(name))
        for name in stream_names(settings)
    }
    uploads = ReportUploads(sorted(REPORTS), partial(compare_by_command, settings), clock)
    traces = settings.tracing.address_of
    finance = PagePlace(
        layout, settings.ingest.taken_modes, QuestionRunner(), clock, settings.console.order_field, uploads, traces
    )
    subscribers = partial(read_subscribers, settings.notify)
    missed = partial(find_missed, settings.notify)
    operators = DlqPlace(
        streams,
        open_statuses(settings),
        QuestionRunner(),
        clock,
        pulse,
        attention,
        subscribers=subscribers,
        missed=missed,
        traces=traces,
    )
    return make_routers(finance, operators, audit_log, users, bookings, received)


@contextlib.contextmanager
def _anchor_audit_log(settings: Settings, audit_log: AuditLog, producer: Any, clock: Clock) -> Iterator[None]:
    processor = settings.processor
    try:
        keys = AnchorKeys.read(Path(processor.anchor_key_file))
    except SettingError as missing:
        log.warning("the audit log isn't anchored: %s", missing)
        yield
        return
    topic = topics_of("live").anchors
    anchors = AuditAnchors(audit_log, Anchoring(STREAM, topic, keys, producer, clock))
    anchors.start()
    try:
        yield
    finally:
        anchors.close()


def _open_orders(settings: Settings, producer: Any, recorder: Recorder, users: Users) -> Mapping[Mode, OrderSender]:
    return {
        mode: OrderSender(lambda: producer, topics_of(mode).control, recorder, users.check_signed_in)
        for mode in settings.ingest.taken_modes
    }


def _order_services(settings: Settings, orders: Mapping[Mode, OrderSender], clock: Clock) -> OrderServices:
    return {
        ledger.stream: OrderService(ledger.stream, DeltaView(ledger.journal, topics_of(mode).control), sender, clock)
        for mode, sender in orders.items()
        for ledger in settings.layout.all_ledgers(mode)
    }


def _open_bookings(settings: Settings, orders: Mapping[Mode, OrderSender], clock: Clock) -> Bookings:
    return {
        mode: BookingService(LedgerJournals(settings.layout.all_ledgers(mode)), topics_of(mode).control, sender, clock)
        for mode, sender in orders.items()
    }


if __name__ == "__main__":
    sys.exit(main())
