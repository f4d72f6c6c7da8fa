"""An event loop whose time passes only while nothing can go on.

A wait costs nothing, and no order depends on the machine. For what happens within one thread: where sockets or other
threads take part, time would pass before they answer.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

Result = TypeVar("Result")
BEGINS = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def run(scene: Coroutine[Any, Any, Result]) -> Result:
    """What ``asyncio.run`` does, in virtual time."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(scene)


class LoopClock:
    """The time of the running loop, from `BEGINS` on."""

    def now(self) -> datetime:
        return BEGINS + timedelta(seconds=self.monotonic_s())

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()


class _Selector(selectors.DefaultSelector):
    passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select()
        ready = super().select(0)
        if not ready:
            self.passed_s += timeout
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._passing = _Selector()
        super().__init__(self._passing)

    def time(self) -> float:
        return self._passing.passed_s
