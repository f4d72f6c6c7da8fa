"""A downstream that the handler calls and the test takes down, behind breakers that open at the third failure."""

from __future__ import annotations

from core.decision import ErrorKind
from core.work import Outcome, WorkItem, calling
from processor.settings import DownstreamSettings
from tests.unit.processor.fakes import booked
from tests.unit.processor.limited import LimitedEngine

SETTINGS = DownstreamSettings(failures_to_open=3, reset_s=10.0)


class Unreachable(Exception):
    kind = ErrorKind.SNBE


class ServedDownstream:
    """A downstream as the handler sees it; ``calls`` are the events that called it."""

    def __init__(self, engine: LimitedEngine, name: str = "merchants") -> None:
        self.engine = engine
        self.name = name
        self.down = False
        self.retry_after_s: float | None = None
        self.calls: list[str] = []

    def serve(self, event_key: str) -> str:
        self.engine.handler.script[event_key] = self.handle
        return event_key

    def handle(self, item: WorkItem) -> Outcome:
        with calling(self.name):
            self.calls.append(item.event_key)
            if self.down:
                error = Unreachable("connection refused")
                error.retry_after_s = self.retry_after_s  # type: ignore[attr-defined]
                raise error
        return booked()


def post(engine: LimitedEngine, service: ServedDownstream, count: int, first: int = 1) -> list[str]:
    return [service.serve(engine.post(f"evt_{n}", f"e{n}")) for n in range(first, first + count)]


def state(engine: LimitedEngine, name: str = "merchants") -> str:
    return str(engine.downstreams.status()[name]["state"])
