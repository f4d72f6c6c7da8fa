"""The API without servers: a real engine decides what a producer in memory was given."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
from fastapi import FastAPI

from console.api import mount_api
from console.bookings import Bookings
from console.catch_ups import read_catch_ups
from console.dead_letters import StreamDeadLetters, Streams
from console.received import AskReceived, not_read
from core.decision import Decision
from core.keys import join_key
from core.layout import Layout
from journal.schema import JournalRow
from operations.audit_log import AuditLog
from operations.command import ACTIONS, Command
from operations.commands import decode
from operations.orders import DeltaView, OrderSender, OrderService
from operations.recorder import Recorder
from tests.unit.console.listening import BOB, Listener
from tests.unit.console.places import attention_at, bookings_at
from tests.unit.dlq.publishing import Acknowledged
from tests.unit.ingest.idempotency.guarded_app import BreakableAnswers
from tests.unit.processor.harness import CONTROL, Engine


class MemoryKafka:
    """Hands commands to the engine. ``loses``: it takes them and never says so; ``down``: it doesn't take them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.sent: list[Command] = []
        self.loses = self.down = False

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Callable[[Any, Any], None]) -> None:
        assert (topic, key.decode()) == (CONTROL, decode(value).command_id)
        if self.down:
            on_delivery("broker down", None)
            return
        self._engine.send(CONTROL, value, [])
        self.sent.append(decode(value))
        if not self.loses:
            on_delivery(None, Acknowledged(len(self.sent) - 1))

    def flush(self, timeout: float) -> int:
        return 0


class EngineView(DeltaView):
    """The journal as the engine holds it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def lineage(self) -> str:
        return self._engine.lineage

    def last_rows(self, item_seqs: Collection[int]) -> dict[int, JournalRow]:
        return {row.item_seq: row for row in self._engine.journal.rows if row.item_seq in item_seqs}

    def command_row(self, command_id: str) -> JournalRow | None:
        wanted = {join_key("payhook", command_id, action) for action in ACTIONS}
        rows = [row for row in self._engine.journal.rows if row.topic == CONTROL and row.first]
        return next((row for row in rows if row.event_key in wanted), None)


class ApiBench:
    """The API over one engine in which item 1 is dead, and item 2 waits behind it.

    ``app``: with other routes already. ``with_pages``: the listener serves its pages beside the API.
    """

    def __init__(
        self,
        folder: Path,
        app: FastAPI | None = None,
        streams: Mapping[str, StreamDeadLetters] | None = None,
        received: AskReceived = not_read,
        *,
        with_pages: bool = False,
    ) -> None:
        self.engine = Engine(folder)
        self.event, _ = self.engine.post("evt_1"), self.engine.post("evt_2")
        self.engine.handler.fails(self.event, ZeroDivisionError("division by zero"), times=1)
        self.engine.batch()
        assert [row.decision for row in self.engine.journal.rows] == [Decision.DEAD, Decision.PARKED]
        self.kafka = MemoryKafka(self.engine)
        self.answers = BreakableAnswers(self.engine.clock)
        self.app = app or FastAPI(openapi_url=None)
        self.audit_log = AuditLog(folder / "lake" / "acts")
        orders = OrderSender(lambda: self.kafka, CONTROL, Recorder(self.audit_log, self.engine.clock, "api"))
        service = OrderService("ledger", EngineView(self.engine), orders, self.engine.clock)
        known = Streams({} if streams is None else streams)
        bookings: Bookings = {"live": bookings_at(folder, self.audit_log, self.engine.clock, "api", self.kafka)}
        attention = attention_at(folder, self.audit_log, self.engine.clock, list(known.by_name.values()))
        self.data = folder
        catch_ups = partial(read_catch_ups, Layout(folder), ("live",))
        mount_api(self.app, {"ledger": service}, bookings, self.answers, known, received, attention, catch_ups)
        self.listener = Listener(self.app, folder, self.engine.clock, with_pages=with_pages)

    def request(self, method: str, path: str, user: str | None = BOB, **more: Any) -> httpx2.Response:
        """As a user who may give orders, unless another is named."""
        return self.listener.request(method, path, user, **more)

    def replay(self, key: str | None = None, item_seq: int = 1, **more: Any) -> httpx2.Response:
        """Orders a replay as a client would; ``more`` goes over the body's fields."""
        body = {"items": [self.item(item_seq)], "reason": "mended", **more}
        headers = {"idempotency-key": f'"{key or uuid.uuid4()}"'}
        return self.request("POST", "/api/dlq/replay", json=body, headers=headers)

    def item(self, item_seq: int) -> dict[str, object]:
        """An item as the API listed it first: with its first row."""
        return asdict(self.engine.target(item_seq, item_seq))

    def decided(self) -> list[str]:
        """What became of the dead item."""
        self.engine.batch()
        self.engine.advance(0)
        return self.engine.decisions(self.event)


def problem(answer: httpx2.Response) -> str:
    """Its name; fails the test where the answer isn't a problem."""
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == answer.status_code
    return str(answer.json()["type"]).removeprefix("/openapi.json#")
