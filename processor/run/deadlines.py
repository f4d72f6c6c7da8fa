"""How long a handler call may take, and how long a batch waits for one that doesn't come back.

A batch leaves calls behind that it doesn't wait for: they go on, their events wait, and a later batch takes what came
of them, until the call's own time is over.

An event meets at most two batches: the one under way when it comes, and its own. What both together wait for calls
that hang is what hanging calls cost an event that has nothing to do with them: ``batch_deadline_s`` at most. So a batch
is patient only if the one before it didn't wait.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Deadlines:
    """``call_s``: a handler call that takes longer is its event's timeout. ``batch_s``: see above. ``hasty``: the batch
    before this one waited for calls that hang."""

    call_s: float
    batch_s: float
    hasty: bool = False

    @property
    def patience_s(self) -> float:
        """When nothing else is left to do, the batch waits until each call that is out had so long."""
        return min(self.call_s, (HASTY_SHARE if self.hasty else PATIENT_SHARE) * self.batch_s)

    @property
    def work_s(self) -> float:
        """No call begins later than so long after the first one."""
        return WORK_DEADLINES * self.batch_s

    @property
    def frozen_s(self) -> float:
        """A chunk that takes so long has a call that keeps all other threads of its Python worker from running."""
        return self.work_s + self.batch_s + FROZEN_S


class Patience:
    """Whether the next batch is a hasty one. Never two in a row, so that a call cut short gets its time in the next."""

    def __init__(self, batch_s: float) -> None:
        self._waited_s_max = HASTY_SHARE * batch_s
        self.hasty = False

    def waited(self, seconds: float) -> None:
        """How long the last batch waited for nothing but calls that were out."""
        self.hasty = not self.hasty and seconds > self._waited_s_max


class OutSince:
    """Since when each event's call is out, whichever Python worker the event was given to. Times as ``now`` is."""

    def __init__(self, call_s: float) -> None:
        self._call_s = call_s
        self._began: dict[str, float] = {}

    def seen(self, event_key: str, seconds: float, now: float) -> float:
        """How long the event's call is out in all; ``seconds`` is what one worker knows of it."""
        began = self._began[event_key] = min(now - seconds, self._began.get(event_key, now))
        return now - began

    def forget(self, answered: Container[str], now: float) -> None:
        """Of events that have a result the next call is another one; so it is after so long a time."""
        for event_key, began in list(self._began.items()):
            if event_key in answered or now - began > FORGET_AFTER_CALLS * self._call_s:
                del self._began[event_key]

    def look_again_s(self, seconds: float) -> float:
        """When to ask again for a call that is out so long: the longer the later, and when its time is over."""
        return min(max(seconds, LOOK_AGAIN_S_MIN), max(self._call_s - seconds, LOOK_AGAIN_S_MIN))
