"""A listener over a ledger that the engine decided, with what strangers put into everything that is shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from console.api import mount_api
from console.bookings import Bookings
from console.dead_letters import Streams
from console.health import WatchedServices, create_app
from core.clock import Clock
from core.status_file import StreamStatuses
from operations.audit_log import AuditLog
from tests.dead_letters import DeadLetters, ToTheEngine
from tests.filled_ledger import fill
from tests.unit.console.listening import Browser, Listener
from tests.unit.console.places import bookings_at, unused_client
from tests.unit.ingest.idempotency.guarded_app import BreakableAnswers


class Pages:
    """The pages over ``letters``: `browser` of somebody who signed in."""

    def __init__(self, data: Path, letters: DeadLetters, clock: Clock, *, with_api: bool = False) -> None:
        self.data, self.letters = data, letters
        watched = WatchedServices("http://127.0.0.1:9/readyz", StreamStatuses({}), {}, lambda _: None)
        app = create_app(watched, unused_client(), clock)
        acts = AuditLog(data / "lake" / "acts")
        if with_api:
            bookings: Bookings = {"live": bookings_at(data, acts, clock, "api", ToTheEngine(letters))}
            mount_api(app, {}, bookings, BreakableAnswers(letters.clock), Streams({}))
        self.listener = Listener(app, data, clock, producer=ToTheEngine(letters), sleep=lambda _: letters.batch())

        self._signed_in: dict[str, Browser] = {}

    def browser(self, name: str = "ada") -> Browser:
        """Signed in once: passwords take their time, and so does who signs in too often."""
        if name not in self._signed_in:
            self._signed_in[name] = Browser(self.listener)
            assert self._signed_in[name].sign_in(name).status_code == 303
        return self._signed_in[name]


@pytest.fixture(scope="package")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """A ledger as `fill` leaves it. Read it; who changes it takes `own_pages`."""
    yield made(tmp_path_factory.mktemp("pages") / "data")


@pytest.fixture
def own_pages(tmp_path: Path) -> Pages:
    return made(tmp_path / "data")


def made(data: Path, *, with_api: bool = False) -> Pages:
    """``with_api``: the API's routes, which take longer to make than the ledger, are beside the pages."""
    letters = DeadLetters(data)
    fill(letters)
    return Pages(data, letters, letters.clock, with_api=with_api)
