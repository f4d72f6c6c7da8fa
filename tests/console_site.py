"""The management listener over a ledger that the engine decides: on a port of loopback, without Kafka or a JVM."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import httpx2
import uvicorn

from console.access.accounts import add_user
from console.access.roles import Role
from console.access.sessions import Sessions
from console.access.sign_in import Access, SignInThrottle
from console.access.users import Users
from console.api import mount_api
from console.bookings import Bookings
from console.dead_letters import Streams
from console.forms import Cookies
from console.guard import guard_app, origins_of
from console.health import WatchedServices, create_app
from console.pulse import Pulse
from console.received import AskReceived, not_read
from console.subscribers import FindMissed, SubscriberSettings
from core.clock import Clock
from core.layout import Layout
from core.status_file import StreamStatuses
from operations.audit_log import AuditLog
from operations.limits import AloneLimits
from tests.dead_letters import DeadLetters
from tests.unit.console.places import SentTo, attention_at, bookings_at, dead_letters, pages
from tests.unit.ingest.idempotency.guarded_app import BreakableAnswers
from tests.unit.processor.harness import CONTROL

PASSWORD = "correct horse battery"
PEOPLE: Mapping[str, Role] = {
    "ada": Role.ADMIN,
    "amy": Role.ADMIN,
    "bob": Role.REPLAYER,
    "eve": Role.VIEWER,
    "fay": Role.FINANCE,
}
HOST = "127.0.0.1"


class Later(SentTo):
    """Kafka's control topic: what users of the site order there is read when the engine decides."""

    def __init__(self) -> None:
        super().__init__()
        self.given: SimpleQueue[bytes] = SimpleQueue()

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Callable[[Any, Any], None]) -> None:
        self.given.put(value)
        super().produce(topic, value, key, on_delivery)


class ConsoleSite:
    """A listener's parts over one stream. `decide` lets its engine and its journal go on by one step."""

    def __init__(
        self,
        letters: DeadLetters,
        data: Path,
        clock: Clock,
        port: int,
        *,
        alone: AloneLimits | None = None,
        pulse: Pulse | None = None,
        received: AskReceived = not_read,
        subscribers: Callable[[], Sequence[SubscriberSettings]] = tuple,
        missed: FindMissed = lambda *_: (),
    ) -> None:
        self.letters = letters
        layout = Layout(data)
        self.audit_log = AuditLog(layout.audit_log)
        kafka = self._kafka = Later()
        self.dead = dead_letters(
            data, clock, self.audit_log, alone, kafka, lambda _: time.sleep(0.02), stream=letters.layout.stream
        )
        sessions = Sessions(layout.sessions_file, clock, timedelta(hours=1), timedelta(hours=12))
        access = Access(Users(layout.users), sessions, SignInThrottle(clock), self.audit_log, clock)
        watched = WatchedServices("http://127.0.0.1:9/readyz", StreamStatuses({}), {}, lambda _: None)
        self.app = app = create_app(watched, httpx2.AsyncClient(trust_env=False), clock)
        bookings: Bookings = {"live": bookings_at(data, self.audit_log, clock, "api", kafka)}
        attention = attention_at(data, self.audit_log, clock, [self.dead])
        mount_api(app, {}, bookings, BreakableAnswers(letters.clock), Streams({}), received, attention)
        told = (subscribers, None, missed)
        routers = pages(data, clock, self.audit_log, [self.dead], sessions, kafka, pulse, received, attention, *told)
        self.asgi = guard_app(app, access, Cookies(False), origins_of(HOST, port), routers, attention.badges_for)

    def decide(self) -> None:
        while not self._kafka.given.empty():
            self.letters.send(CONTROL, self._kafka.given.get(), [])
        self.letters.batch()
        self.letters.clock.advance(1.0)


def add_people(data: Path) -> None:
    """Everybody of `PEOPLE`, with `PASSWORD`."""
    users = Users(Layout(data).users)
    for name, role in PEOPLE.items():
        add_user(users, name, frozenset({role}), PASSWORD, lambda *_: None)


@contextlib.contextmanager
def serving(site: ConsoleSite, port: int) -> Iterator[str]:
    """The site's address, while it answers."""
    config = uvicorn.Config(site.asgi, host=HOST, port=port, access_log=False, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield f"http://{HOST}:{port}"
    finally:
        server.should_exit = True
        thread.join(10)
