"""A server process: started, waited for, stopped, with nothing left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from stack.errors import ServerLeft, ServerNotUp
from stack.machine import CHECKOUT

POLL_S = 0.05
KILL_WAIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Server:
    """How one server is run, and how to find out whether it answers.

    ``prepare`` makes its folder and files and may be called again; ``clean`` takes away what is not to be left once it
    is stopped; ``answers`` asks it once, without waiting long. ``stop_s`` is how long it may take to end after SIGTERM
    before it is killed. ``last_words``: whether it said why it ended; then it is started again, however often it ends
    before it has answered. ``beside``: it starts once the others answer, or after some seconds.
    """

    name: str
    command: tuple[str, ...]
    log: Path
    answers: Callable[[], bool]
    prepare: Callable[[], None] = lambda: None
    clean: Callable[[], None] = lambda: None
    env: Mapping[str, str] = field(default_factory=dict)
    start_s: float = 60.0
    stop_s: float = 20.0
    beside: bool = False
    last_words: Callable[[], bool] = lambda: False


class RunningServer:
    """A started server. It leads a session of its own, so that its own children can be ended with it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        server.prepare()
        server.log.parent.mkdir(parents=True, exist_ok=True)
        die_with_parent = (sys.executable, "-S", "-m", "stack.die_with_parent", str(os.getpid()))
        with server.log.open("ab") as log:
            self.log_from = log.tell()
            self._process = subprocess.Popen(
                (*die_with_parent, *server.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **server.env, "PYTHONPATH": path_with_checkout()},
                start_new_session=True,
            )

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def wait_until_it_answers(self) -> None:
        """Returns once it answers.

        :raises ServerNotUp: it ended, or its time is over; it is killed then
        """
        until = time.monotonic() + self.server.start_s
        while not self.server.answers():
            if self.exit_code is not None:
                problem = f"ended with code {self.exit_code} at its start"
                raise ServerNotUp(self.server.name, problem, self.server.log, self.log_from)
            if time.monotonic() > until:
                self.kill_session()
                problem = f"didn't answer within {self.server.start_s:g} s"
                raise ServerNotUp(self.server.name, problem, self.server.log, self.log_from)
            time.sleep(POLL_S)

    def ask_to_end(self) -> None:
        if self.exit_code is None:
            self._process.terminate()

    def stop(self) -> None:
        self.ask_to_end()
        # A paused process can't hear SIGTERM.
        self._signal_all(signal.SIGCONT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(self.server.stop_s)
        self.kill_session()
        self.server.clean()

    def kill_session(self) -> None:
        """Ends it and whatever it started, now.

        :raises ServerLeft: it doesn't end
        """
        self._signal_all(signal.SIGKILL)
        try:
            self._process.wait(KILL_WAIT_S)
        except subprocess.TimeoutExpired:
            raise ServerLeft(self.server.name, self.process_id) from None

    def _signal_all(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process_id, number)


@contextlib.contextmanager
def run_server(server: Server) -> Iterator[RunningServer]:
    """Runs a server for the length of a ``with``: it answers when the block begins and is gone after it."""
    started = RunningServer(server)
    try:
        started.wait_until_it_answers()
        yield started
    finally:
        started.stop()


@contextlib.contextmanager
def stopped_by_signal() -> Iterator[threading.Event]:
    """Gives an event that SIGTERM and SIGINT set, instead of ending this process wherever it is."""
    stop = threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def path_with_checkout() -> str:
    return os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH")]))
