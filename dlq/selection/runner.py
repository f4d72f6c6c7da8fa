"""Carries runs out: sends their commands no faster than was asked for and than live traffic bears.

One process runs a run at a time (a lease in the file). Everything it knows is in the file: after a crash, of this
process or of the machine, whoever comes next goes on where it stood, and sends what may have been sent already once
more; the processor knows it by its id.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from dataclasses import dataclass, field

from core.backoff import doubled_s
from core.clock import Clock
from core.crash import crash_point
from dlq.commands import CommandNotSent, Producer, send
from dlq.selection import runs, store
from dlq.selection.errors import SelectionBroken
from dlq.selection.file import SelectionFile
from dlq.selection.live import LiveLoad, Load
from dlq.selection.model import RunKept, RunState
from dlq.selection.orders import command_of
from dlq.selection.outcomes import Outcomes
from dlq.selection.pace import Meter, Window
from dlq.selection.runs import Chunk, Part
from dlq.settings import SelectionSettings

log = logging.getLogger(__name__)

IDLE_S = 1.0
"""Between two looks while nothing is to be sent: so long a person waits for what they ordered to begin."""
FOLLOW_S = 0.5
FOLLOW_IDLE_S = 5.0
"""Of a run that waits for a person."""
RETRY_S_FIRST = 1.0
RETRY_S_MAX = 30.0
AGAIN_S = 0.05


@dataclass(slots=True)
class _Own:
    """What this process remembers of a run; nothing that couldn't be forgotten."""

    meter: Meter = field(default_factory=Meter)
    checked: bool = False
    leased_until: float = 0.0
    followed_at: float | None = None
    failed: int = 0
    retry_at: float = 0.0


class Runner:
    """Runs one stream's selections. `step` does what is to be done now; `run` does so until it is told to stop.

    ``owner``: this process, as other processes and people see it.
    """

    def __init__(
        self,
        stream: str,
        file: SelectionFile,
        outcomes: Outcomes,
        producer: Producer,
        control_topic: str,
        load: LiveLoad,
        settings: SelectionSettings,
        clock: Clock,
        owner: str,
    ) -> None:
        self._stream = stream
        self._file = file
        self._outcomes = outcomes
        self._producer = producer
        self._control_topic = control_topic
        self._load = load
        self._settings = settings
        self._clock = clock
        self._owner = owner
        self._window = Window(settings)
        self._own: dict[int, _Own] = {}

    def run(self, stop: threading.Event) -> None:
        """Until ``stop``. What fails is logged and tried again: a run never ends by a fault of its surroundings."""
        wait_s = 0.0
        while not stop.wait(wait_s):
            try:
                wait_s = self.step()
            except Exception:
                log.exception("runs of %s can't go on just now; again in %g s", self._stream, RETRY_S_MAX)
                wait_s = RETRY_S_MAX
        self.release()

    def release(self) -> None:
        """Others needn't wait until this process's leases are over."""
        if self._file.there:
            with self._file.writing() as db:
                runs.release(db, self._owner)

    def step(self) -> float:
        """One command of each run, where it may be sent now; returns the seconds until the next step."""
        if not self._file.there:
            return IDLE_S
        with self._file.reading() as db:
            unfinished = runs.unfinished(db)
        if not unfinished:
            self._own.clear()
            return IDLE_S
        load = self._load.read(self._clock.now())
        self._window.look(load)
        owned = [(run, self._own.setdefault(run.number, _Own())) for run in unfinished]
        return min([self._go_on(run, own, load) for run, own in owned if self._is_mine(run, own)], default=IDLE_S)

    def _is_mine(self, run: RunKept, own: _Own) -> bool:
        """Whether this process holds the run, which it sees to well before its lease is over."""
        now_s, lease_s = self._clock.now().timestamp(), self._settings.lease_s
        if own.leased_until - now_s > lease_s / 2:
            return True
        with self._file.writing() as db:
            held = runs.lease(db, run.number, self._owner, now_s, now_s + lease_s)
        own.leased_until = now_s + lease_s if held else 0.0
        return held

    def _go_on(self, run: RunKept, own: _Own, load: Load) -> float:
        now_s = self._clock.monotonic()
        follow_s = FOLLOW_S if run.state in (RunState.RUNNING, RunState.SENT, RunState.CANCELLED) else FOLLOW_IDLE_S
        if own.followed_at is None or now_s - own.followed_at >= follow_s:
            self._outcomes.follow(run.number, self._clock.now())
            own.followed_at = now_s
        if now_s < own.retry_at:
            return own.retry_at - now_s
        try:
            return self._send_next(run, own, load)
        except CommandNotSent as unsent:
            return self._later(run, own, str(unsent))
        except SelectionBroken as broken:
            log.error("%s", broken)
            with self._file.writing() as db:
                runs.set_state(db, run.number, RunState.CANCELLED)
                runs.say(db, run.number, str(broken))
            return IDLE_S

    def _send_next(self, run: RunKept, own: _Own, load: Load) -> float:
        with self._file.reading() as db:
            begun = runs.unacknowledged(db, run.number)
        if begun is not None and run.state is not RunState.PAUSED:
            # Its fate must be known, of a cancelled run too: it may be in Kafka already.
            self._send(run, own, begun)
            return AGAIN_S
        part = self._part(run)
        if part is None or begun is not None:
            return FOLLOW_S
        if (why := self._held_back(run, part, own, load)) is not None:
            self._say(run, why[0])
            return why[1]
        return self._send_new(run, own, part)

    def _part(self, run: RunKept) -> Part | None:
        """What is to be sent of the run now."""
        if not run.two_people:
            return Part.ACT if run.state is RunState.RUNNING else None
        with self._file.reading() as db:
            whole = runs.next_chunk(db, run.number, Part.PROPOSE)[1] >= store.read(db, run.number).count
            decided = not any(chunk.part is Part.PROPOSE for chunk in runs.undecided(db, run.number))
        if not whole and run.state in (RunState.PROPOSED, RunState.RUNNING):
            return Part.PROPOSE
        return Part.ACT if run.state is RunState.RUNNING and decided else None

    def _held_back(self, run: RunKept, part: Part, own: _Own, load: Load) -> tuple[str | None, float] | None:
        """Why nothing is sent now, where somebody should know, and for how many seconds; None: it is sent."""
        if load.stopped is not None:
            return f"waits: {load.stopped}", IDLE_S
        wait_s = own.meter.wait_s(self._clock.monotonic())
        if wait_s > 0:
            return None, min(wait_s, FOLLOW_S)
        if part is Part.PROPOSE:
            return None
        with self._file.reading() as db:
            on_their_way = runs.before_a_try(db)
        if on_their_way and on_their_way + self._items(run) > self._window.size:
            behind = load.behind_s > self._settings.lag_s_max
            return (f"slowed: live traffic waits {load.behind_s:.1f} s" if behind else None), FOLLOW_S
        return None

    def _items(self, run: RunKept) -> int:
        """Of its next command. What two people gave must be the same whoever sends it, so its commands don't shrink."""
        return run.command_items if run.two_people else min(run.command_items, int(self._window.size))

    def _send_new(self, run: RunKept, own: _Own, part: Part) -> float:
        with self._file.writing() as db:
            kept = runs.read(db, run.number)
            selection = store.read(db, run.number)
            if kept.state not in (RunState.RUNNING, RunState.PROPOSED):
                return AGAIN_S
            if not own.checked:
                store.check(db, self._stream, selection)
                own.checked = True
            number, turn = runs.next_chunk(db, run.number, part)
            left = selection.count - turn
            if left <= 0:
                _all_sent(db, kept)
                return AGAIN_S
            chunk = Chunk(
                number=run.number,
                part=part,
                chunk=number,
                command_id=runs.command_id(self._stream, selection, run.run, part, number),
                first_turn=turn,
                count=runs.whole_lines(db, run.number, turn, min(left, self._items(run))),
                at=self._clock.now(),
            )
            runs.write_down(db, chunk)
        crash_point("selection.after_writing_down")
        own.meter.sent(chunk.count, run.run.per_s if part is Part.ACT else None, self._clock.monotonic())
        self._send(kept, own, chunk)
        return AGAIN_S if own.meter.wait_s(self._clock.monotonic()) == 0 else FOLLOW_S

    def _send(self, run: RunKept, own: _Own, chunk: Chunk) -> None:
        """
        :raises CommandNotSent: Kafka didn't take it; the same command is sent again later
        """
        with self._file.reading() as db:
            targets = runs.targets(db, chunk, as_proposed=run.two_people)
            selection = store.read(db, run.number)
        if not targets:
            with self._file.writing() as db:
                runs.needless(db, chunk.command_id)
            return
        command = command_of(self._stream, selection, run, chunk, targets)
        sent = send(self._producer, command, self._control_topic)
        crash_point("selection.after_sending")
        with self._file.writing() as db:
            runs.acknowledged(db, chunk.command_id, sent.offset)
            runs.say(db, run.number, None)
        own.failed = 0

    def _later(self, run: RunKept, own: _Own, problem: str) -> float:
        wait_s = doubled_s(RETRY_S_FIRST, own.failed, RETRY_S_MAX)
        own.failed += 1
        own.retry_at = self._clock.monotonic() + wait_s
        log.warning("selection s%d: %s; again in %g s", run.number, problem, wait_s)
        self._say(run, f"waits: {problem}")
        return wait_s

    def _say(self, run: RunKept, problem: str | None) -> None:
        if problem != run.problem:
            with self._file.writing() as db:
                runs.say(db, run.number, problem)


def _all_sent(db: sqlite3.Connection, run: RunKept) -> None:
    if run.state is RunState.RUNNING:
        runs.set_state(db, run.number, RunState.SENT)
