"""Says how long a handler call may take, and how long a batch waits for one that doesn't come back.

A batch leaves calls behind that it doesn't wait for: they keep running, their events wait, and a later batch takes what
came of them, until the call's own time is over.

An event meets at most two batches: the one under way when it comes, and its own. What both together wait for calls
that hang is what hanging calls cost an event that has nothing to do with them: ``batch_deadline_s`` at most. So a batch
is patient only if the one before it didn't wait.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Container
from dataclasses import dataclass, field, replace

from core.work import Handler, Held, Outcome, WorkItem
from processor.errors.classify import Failure

PATIENT_SHARE = 0.8
HASTY_SHARE = 0.1
"""Of the batch's deadline. The last tenth is what it costs to leave a call behind and park its event."""

WORK_DEADLINES = 10
"""A batch whose calls come back may take so many deadlines: how large batches are is the pace's affair, and work that
gets done isn't thrown away for it."""

FROZEN_S = 10.0
"""A chunk that isn't back so long after it must be is frozen: native code that never lets other threads run."""

LOOK_AGAIN_S_MIN = 0.05
FORGET_AFTER_CALLS = 10

KEPT_S = 10.0
"""A call that came back after its batch keeps its result so long for its event, which is due before."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """``call_s``: a handler call that takes longer is its event's timeout. ``batch_s``: see above. ``hasty``: the batch
    before this one waited for calls that hang.
    """

    call_s: float
    batch_s: float
    hasty: bool = False

    @property
    def patience_s(self) -> float:
        return min(self.call_s, (HASTY_SHARE if self.hasty else PATIENT_SHARE) * self.batch_s)

    @property
    def work_s(self) -> float:
        return WORK_DEADLINES * self.batch_s

    @property
    def frozen_s(self) -> float:
        return self.work_s + self.batch_s + FROZEN_S


class Patience:
    """Decides whether the next batch is a hasty one. Two in a row never are: a call cut short gets its time in the
    next.
    """

    def __init__(self, batch_s: float) -> None:
        self._waited_s_max = HASTY_SHARE * batch_s
        self.hasty = False

    def note_waited(self, seconds: float) -> None:
        self.hasty = not self.hasty and seconds > self._waited_s_max


class OutSince:
    def __init__(self, call_s: float) -> None:
        self._call_s = call_s
        self._began: dict[str, float] = {}

    def measure_call(self, event_key: str, seconds: float, now: float) -> float:
        began = self._began[event_key] = min(now - seconds, self._began.get(event_key, now))
        return now - began

    def forget_calls(self, answered: Container[str], now: float) -> None:
        for event_key, began in list(self._began.items()):
            if event_key in answered or now - began > FORGET_AFTER_CALLS * self._call_s:
                del self._began[event_key]

    def look_again_s(self, seconds: float) -> float:
        return min(max(seconds, LOOK_AGAIN_S_MIN), max(self._call_s - seconds, LOOK_AGAIN_S_MIN))


class GivenUp(SystemExit):
    """Raised within a call that has timed out, so that Python code ends its thread. Let it through."""


@dataclass(slots=True, eq=False)
class AbandonedCall:
    """A call that its batch abandoned. Times are by `time.monotonic`.

    ``timed_out``: its time (``call_s``) was over before it was back; its result isn't taken.
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
    def is_out(self) -> bool:
        return not self.back.is_set() and self.thread.is_alive()

    @property
    def is_good(self) -> bool:
        if self.result is None or self.ended is None or isinstance(self.result, Held):
            return False
        return not self.timed_out and self.ended - self.began < self.call_s

    def is_for(self, item: WorkItem) -> bool:
        return self.item == replace(item, item_seq=self.item.item_seq)

    def take_result(self) -> Outcome | Failure | None:
        taken, self.result = self.result, None
        return taken

    def end(self, result: Outcome | Failure | None) -> None:
        """Ends the call; its own thread calls this when it is back."""
        self.result, self.ended = result, time.monotonic()
        self.back.set()

    def time_out(self) -> None:
        """Asks the call to end: its time is over.

        Code that blocks in the operating system or in native code doesn't hear it until it returns.
        """
        self.timed_out = True
        if self.is_out and self.thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.thread.ident), ctypes.py_object(GivenUp))


class AbandonedCalls:
    """The calls of earlier chunks in this process. They are kept by event key: an event's number changes with its row.

    Only the thread that runs chunks adds and drops.

    ``usual_s``: the average time of the last chunk's calls that came back; 0 before the first.
    """

    def __init__(self) -> None:
        self.usual_s = 0.0
        self._calls: dict[str, list[AbandonedCall]] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, call: AbandonedCall) -> None:
        self._calls.setdefault(call.item.event_key, []).append(call)

    def find(self, handler: Handler, item: WorkItem) -> AbandonedCall | None:
        finished = None
        for call in self._calls.get(item.event_key, ()):
            if call.handler is not handler:
                continue
            if call.is_out:
                return call
            if call.is_good and call.is_for(item):
                finished = call
        return finished

    def count(self) -> int:
        return sum(call.is_out for calls in self._calls.values() for call in calls)

    def drop_useless(self) -> None:
        now = time.monotonic()
        for call in [call for calls in self._calls.values() for call in calls]:
            if call.is_out and not call.timed_out and now - call.began >= call.call_s:
                call.time_out()
        forget_before = now - KEPT_S
        for event_key, calls in list(self._calls.items()):
            kept = [call for call in calls if _is_useful(call, forget_before)]
            if kept:
                self._calls[event_key] = kept
            else:
                del self._calls[event_key]


def _is_useful(call: AbandonedCall, forget_before: float) -> bool:
    if call.is_out:
        return True
    return call.is_good and call.ended is not None and call.ended > forget_before
