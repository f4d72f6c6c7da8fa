"""Who was called, as the limits of a batch see it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from core.work import DownstreamHeld


class SubscriberCalls:
    """Who was called, and with which failures."""

    def __init__(self, *, open_: bool = False) -> None:
        self.called: list[str] = []
        self.failures: list[BaseException] = []
        self.open = open_

    @contextmanager
    def take_call(self, downstream: str) -> Iterator[None]:
        if self.open:
            raise DownstreamHeld(downstream, 5.0)
        self.called.append(downstream)
        try:
            yield
        except BaseException as failure:
            self.failures.append(failure)
            raise
