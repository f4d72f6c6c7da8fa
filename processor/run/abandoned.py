"""Handler calls that a batch didn't wait for: they can't be ended from outside, so they are counted and remembered."""

from __future__ import annotations

import ctypes
import threading
import time
from dataclasses import dataclass, field, replace

from core.work import Handler, Held, Outcome, WorkItem
from processor.judge.classify import Failure

KEPT_S = 10.0
"""A call that came back after its batch keeps its result so long for its event, which is due before."""


class GivenUp(SystemExit):
    """Raised within a call that has timed out, so that one which runs Python code ends its thread. Let it through."""


@dataclass(slots=True, eq=False)
class AbandonedCall:
    """A call that its batch abandoned. ``began`` and ``ended`` are by `time.monotonic`; its time is ``call_s``.

    ``timed_out``: its time was over before it was back; whatever comes of it then is nobody's.
    """

    handler: Handler
    item: WorkItem
    began: float
    call_s: float
    thread: threading.Thread
    timed_out: bool = False
    result: Outcome | Failure | None = None
    ended: float | None = None
    back: threading.Event = field(default_factory=threading.Event)

    @property
    def out(self) -> bool:
        """Whether it is still under way."""
        return not self.back.is_set() and self.thread.is_alive()

    @property
    def is_good(self) -> bool:
        """Whether it came back in time, with a result."""
        if self.result is None or self.ended is None or isinstance(self.result, Held):
            return False
        return not self.timed_out and self.ended - self.began < self.call_s

    def is_for(self, item: WorkItem) -> bool:
        """Whether it was this event's call, for the same attempt; a new event's number changes with its row."""
        return self.item == replace(item, item_seq=self.item.item_seq)

    def end(self, result: Outcome | Failure | None) -> None:
        """Called by its own thread when it is back."""
        self.result, self.ended = result, time.monotonic()
        self.back.set()

    def time_out(self) -> None:
        """Its time is over: it is asked to end.

        What blocks in the operating system or in native code doesn't hear it until it returns.
        """
        self.timed_out = True
        if self.out and self.thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.thread.ident), ctypes.py_object(GivenUp))


class AbandonedCalls:
    """The calls of earlier chunks in this process, by event key: an event's number is another one once it has its row.

    Only the thread that runs chunks adds and drops.

    ``usual_s``: how long the last chunk's calls that came back took, on average; 0 before the first.
    """

    def __init__(self) -> None:
        self.usual_s = 0.0
        self._calls: dict[str, list[AbandonedCall]] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, call: AbandonedCall) -> None:
        self._calls.setdefault(call.item.event_key, []).append(call)

    def find(self, handler: Handler, item: WorkItem) -> AbandonedCall | None:
        """The event's call that is still out, or came back with a result that is still good; else None."""
        found = None
        for call in self._calls.get(item.event_key, ()):
            if call.handler is not handler:
                continue
            if call.out:
                return call
            if call.is_good and call.is_for(item):
                found = call
        return found

    def count(self) -> int:
        """Calls that are still out: each is a thread."""
        return sum(call.out for calls in self._calls.values() for call in calls)

    def tidy(self) -> None:
        """Forgets what is of no further use, and asks those whose time is over to end."""
        now = time.monotonic()
        for call in [call for calls in self._calls.values() for call in calls]:
            if call.out and not call.timed_out and now - call.began >= call.call_s:
                call.time_out()
        forget_before = now - KEPT_S
        for event_key, calls in list(self._calls.items()):
            kept = [call for call in calls if _matters(call, forget_before)]
            if kept:
                self._calls[event_key] = kept
            else:
                del self._calls[event_key]


def _matters(call: AbandonedCall, forget_before: float) -> bool:
    if call.out:
        return True
    return call.is_good and call.ended is not None and call.ended > forget_before
