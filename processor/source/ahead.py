"""While a stream is behind, the next batch is read while the last one is decided."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

MakeThread = Callable[[Callable[[], None]], threading.Thread]


class Ahead(Generic[T]):
    """Decides one thing at a time, in order, on a thread of its own.

    ``decide`` is never called again after it raised; what it raised is in ``failure``. At most one thing waits: the one
    that `hand_over` is called with.
    """

    def __init__(self, decide: Callable[[T], None]) -> None:
        self._decide = decide
        self._changed = threading.Condition()
        self._given: list[T] = []
        self._busy = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self.failure: BaseException | None = None

    def start(self, make_thread: MakeThread) -> None:
        self._thread = make_thread(self._run)
        self._thread.start()

    def hand_over(self, one: T) -> bool:
        """Waits until what was handed over before is decided, then gives ``one`` to the thread.

        False when nothing is decided any more.
        """
        with self._changed:
            self._changed.wait_for(self._idle_or_ended)
            if self._ended():
                return False
            self._given.append(one)
            self._busy = True
            self._changed.notify_all()
            return True

    def wait(self) -> None:
        """Returns when all that was handed over is decided, or nothing is any more."""
        with self._changed:
            self._changed.wait_for(self._idle_or_ended)

    def close(self, timeout_s: float) -> bool:
        """Takes nothing more and lets what is under way finish; returns whether it did in time."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _idle_or_ended(self) -> bool:
        return not self._busy or self._ended()

    def _ended(self) -> bool:
        return self._closed or self.failure is not None

    def _run(self) -> None:
        while (one := self._next()) is not None:
            try:
                self._decide(one[0])
            except BaseException as failure:
                self.failure = failure
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _next(self) -> tuple[T] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._given or self._ended())
            return None if self._ended() else (self._given.pop(),)
