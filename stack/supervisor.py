"""Keeps the embedded stack running: starts its processes in order, restarts one that dies, stops all in order.

One thread, one loop: `check_children` looks at each child once. Call it from the thread that made the supervisor;
on Linux the children die with that thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from core.clock import doubled_s
from core.event import Mode
from core.files import try_lock
from core.layout import Layout
from core.routing import base_of
from stack.children import SERVERS, Ports, build_endpoints
from stack.endpoints import (
    end_leftovers,
    has_endpoints,
    record_holder,
    record_processes,
    recorded_supervisor,
    remove_endpoints,
    write_endpoints,
)
from stack.errors import AlreadyUp, ServerNotUp
from stack.servers.server import RunningServer, Server

log = logging.getLogger(__name__)

STEP_S = 0.1
BACKOFF_S_MIN = 0.2
BACKOFF_S_MAX = 10.0
STEADY_S = 30.0
"""A process that lived this long starts its backoff again."""

WRITE_AGAIN_S = 5.0
"""Until the record of who runs is written again, after it couldn't be: the disk is full."""

BESIDE_S = 30.0
"""For so long the rounds and the alerts leave the machine to the others; then they start in any case."""

FIRST_STARTS_MAX = 3
"""Starts of a process that never answered, before `up` gives up on it."""

PUBLISHED = ("ingest", "processor", "kafka", "redis")
"""Whose process ids `endpoints.json` names, of each mode and number (``processor-test``, ``processor.1``)."""


class ChildState(StrEnum):
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    BACKING_OFF = "backing off"


@dataclass(slots=True)
class Child:
    """A supervised process and what became of its runs. Times are monotonic seconds."""

    server: Server
    running: RunningServer | None = None
    state: ChildState = ChildState.WAITING
    answered_ever: bool = False
    failures: int = 0
    started_at: float = 0.0
    not_before: float = 0.0
    log_from: int = 0

    @property
    def name(self) -> str:
        return self.server.name

    def start(self, now: float) -> None:
        self.started_at = now
        self.running = RunningServer(self.server)
        self.log_from = self.running.log_from
        self.state = ChildState.STARTING

    def finish_run(self, now: float) -> float:
        if self.running is not None:
            self.running.kill_session()
            self.running = None
        self.failures = 1 if now - self.started_at >= STEADY_S else self.failures + 1
        wait_s = doubled_s(BACKOFF_S_MIN, self.failures - 1, BACKOFF_S_MAX)
        self.not_before = now + wait_s
        self.state = ChildState.BACKING_OFF
        return wait_s


class Supervisor:
    """The processes of one data folder. ``make_topics`` runs once, when the broker answers for the first time."""

    def __init__(
        self,
        layout: Layout,
        ports: Ports,
        servers: Sequence[Server],
        make_topics: Callable[[], None],
        on_change: Callable[[str, ChildState], None] = lambda _name, _state: None,
        modes: Sequence[Mode] = ("live",),
    ) -> None:
        self._layout = layout
        self._ports = ports
        self._children = [Child(server) for server in servers]
        self._make_topics = make_topics
        self._topics_made_at: float | None = None
        self._on_change = on_change
        self._modes = modes
        self._written: object = None
        self._write_not_before = 0.0

    @property
    def answered_once(self) -> bool:
        return all(child.answered_ever for child in self._children)

    def check_children(self) -> None:
        """Looks at each child once. A disk that is full ends nothing: what can't be written is tried again.

        :raises ServerNotUp: one keeps ending before it has ever answered, or doesn't answer in time at first
        """
        for child in self._children:
            self._check_child(child)
        self._write_record()

    def stop(self) -> None:
        """Stops all, the last started first; returns when nothing is left.

        :raises ServerLeft: one doesn't end; the others are stopped all the same
        """
        remove_endpoints(self._layout.root)
        with contextlib.ExitStack() as last_first:
            for child in self._children:
                last_first.callback(self._stop, child)

    def _stop(self, child: Child) -> None:
        if child.running is not None:
            child.running.stop()
            child.running = None
        self._set_state(child, ChildState.WAITING)

    def _check_child(self, child: Child) -> None:
        now = time.monotonic()
        if child.running is not None and (code := child.running.exit_code) is not None:
            child.answered_ever = child.answered_ever or child.server.last_words()
            at_start = "" if child.answered_ever else " at its start"
            self._start_later(child, now, f"ended with code {code}{at_start}")
        if child.running is None and self._may_start(child, now) and now >= child.not_before:
            self._start(child, now)
        elif child.state is ChildState.STARTING:
            self._await_answer(child, now)

    def _start(self, child: Child, now: float) -> None:
        try:
            child.start(now)
        except OSError as failed:
            self._start_later(child, now, f"couldn't be started: {failed}")
        else:
            self._set_state(child, ChildState.STARTING)

    def _start_later(self, child: Child, now: float, problem: str) -> None:
        wait_s = child.finish_run(now)
        if not child.answered_ever and child.failures >= FIRST_STARTS_MAX:
            raise ServerNotUp(child.name, f"{problem}, {child.failures} times", child.server.log, child.log_from)
        log.warning("%s %s; it starts again in %.1f s", child.name, problem, wait_s)
        self._set_state(child, ChildState.BACKING_OFF)

    def _may_start(self, child: Child, now: float) -> bool:
        if child.name in SERVERS:
            return True
        if self._topics_made_at is None:
            return False
        others = (other for other in self._children if not other.server.beside)
        return (
            not child.server.beside
            or now - self._topics_made_at >= BESIDE_S
            or all(other.answered_ever for other in others)
        )

    def _await_answer(self, child: Child, now: float) -> None:
        if child.server.answers():
            child.answered_ever = True
            self._set_state(child, ChildState.RUNNING)
            servers = (other for other in self._children if other.name in SERVERS)
            if self._topics_made_at is None and child.name in SERVERS and all(other.answered_ever for other in servers):
                self._make_topics()
                self._topics_made_at = now
        elif now - child.started_at > child.server.start_s:
            if not child.answered_ever:
                problem = f"didn't answer within {child.server.start_s:g} s"
                raise ServerNotUp(child.name, problem, child.server.log, child.log_from)
            assert child.running is not None
            log.warning("%s doesn't answer; it is stopped", child.name)
            child.running.kill_session()

    def _set_state(self, child: Child, state: ChildState) -> None:
        child.state = state
        self._on_change(child.name, state)

    def _write_record(self) -> None:
        """Writes who runs, for `down` and for the next `up`; and the endpoints once everything has answered. A file
        that somebody removed is written again.
        """
        pids = {child.name: child.running.process_id for child in self._children if child.running is not None}
        states = {child.name: child.state.value for child in self._children}
        current = (pids, states)
        now = time.monotonic()
        if (current == self._written and self._is_on_disk()) or now < self._write_not_before:
            return
        try:
            record_processes(self._layout, self.answered_once, states, [os.getpid(), *pids.values()])
            if self.answered_once:
                published = {name: pid for name, pid in pids.items() if base_of(name) in PUBLISHED}
                write_endpoints(self._layout.root, build_endpoints(self._layout, self._ports, published, self._modes))
        except OSError as failed:
            self._write_not_before = now + WRITE_AGAIN_S
            log.warning("the list of processes can't be written: %s; next try in %.0f s", failed, WRITE_AGAIN_S)
        else:
            self._written = current

    def _is_on_disk(self) -> bool:
        return self._layout.supervisor_file.exists() and (not self.answered_once or has_endpoints(self._layout.root))


@contextlib.contextmanager
def sole_supervisor(layout: Layout) -> Iterator[None]:
    """Holds the data folder for this process, after ending what a killed supervisor left, and ends what is left of it.

    :raises AlreadyUp: another one holds it
    :raises ServerLeft: what is left doesn't end
    """
    with try_lock(layout.supervisor_lock) as is_ours:
        if not is_ours:
            holder = recorded_supervisor(layout)
            raise AlreadyUp(layout.root, None if holder is None else holder.pid)
        record_holder(layout)
        end_leftovers(layout)
        remove_endpoints(layout.root)
        record_processes(layout, False, {}, [os.getpid()])
        try:
            yield
        finally:
            end_leftovers(layout)
