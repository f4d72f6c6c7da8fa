"""The work streams of one process, a thread each: one that fails is begun again without the others noticing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from core.backoff import doubled_s
from core.clock import Clock
from journal.errors import Fenced
from processor.lasting import Runs

log = logging.getLogger(__name__)

RESTART_S_FIRST = 1.0
RESTART_S_MAX = 60.0
STEADY_S = 60.0
"""A stream that ran this long begins its backoff anew."""

LOOK_S = 2.0
"""How often a stream with nobody to serve looks again."""

TAKE_OVER_AFTER_S = 120.0
"""A stream that another process has taken over begins again once that one has committed nothing for so long: twice the
longest wait between the probes of a blocked stream. One that lives and has had nothing to decide is taken over too. It
learns of that by its next commit, and waits in its turn."""

STEP_S = 0.2


class Startable(Protocol):
    """One stream as it is started, over and over (`processor.opening.Starter`)."""

    @property
    def name(self) -> str: ...
    def idle_because(self) -> str | None:
        """Why there is nothing to do just now; None where there is."""

    def begin(self) -> Runs:
        """One run of the stream, not running yet."""

    def journal_head(self) -> tuple[int, int]:
        """Epoch and last seq of its journal, whoever writes it now."""

    def follow(self, epoch: int) -> None:
        """The next run may take the journal over from the process that began this epoch."""


class Tells(Protocol):
    """Where a stream's state is said (`processor.tell.telling.Telling`)."""

    def off(self, why: str) -> None: ...
    def failed(self, failure: BaseException) -> None: ...
    def begun_again(self) -> None: ...


class Backoff:
    """Seconds to wait after each failure: doubled from one to the next, anew after a run of `STEADY_S`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_at = clock.monotonic()
        self._failures = 0

    def begin(self) -> None:
        self._began_at = self._clock.monotonic()

    def after_failure_s(self) -> float:
        steady = self._clock.monotonic() - self._began_at >= STEADY_S
        self._failures = 1 if steady else self._failures + 1
        return doubled_s(RESTART_S_FIRST, self._failures - 1, RESTART_S_MAX)


class StreamThread:
    """One stream until `stop`, begun again after a failure as long as another stream of the process runs.

    The only running stream's failure ends the process: a fresh one is the surest beginning, and nobody else is
    disturbed. A stream that another process took over waits until that one is silent (`TAKE_OVER_AFTER_S`): a fresh
    process would take the journal back at once, and two that live would do so for ever.

    ``runs``: it is neither off, nor between two starts, nor waiting, nor ended.
    """

    def __init__(self, stream: Startable, tells: Tells, clock: Clock, others_run: Callable[[str], bool]) -> None:
        self._stream = stream
        self._tells = tells
        self._clock = clock
        self._backoff = Backoff(clock)
        self._others_run = others_run
        self._stop = threading.Event()
        self._running: Runs | None = None
        self._thread = threading.Thread(target=self._live, name=f"stream-{stream.name}", daemon=True)
        self.runs = True
        self.failure: BaseException | None = None

    @property
    def name(self) -> str:
        return self._stream.name

    @property
    def lives(self) -> bool:
        return self._thread.is_alive()

    @property
    def ends_process(self) -> bool:
        """Whether it ended in a way that a fresh process mends."""
        return self.failure is not None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Asks for a stop after the batch under way."""
        self._stop.set()
        running = self._running
        if running is not None:
            running.stop()

    def join(self) -> None:
        self._thread.join()

    def _live(self) -> None:
        try:
            while not self._ran_to_the_end():
                self._stop.wait(self._backoff.after_failure_s())
                self._tells.begun_again()
        except BaseException as failure:
            self.failure = failure
            log.error("%s: the stream ended", self.name, exc_info=failure)
        finally:
            self.runs = False

    def _ran_to_the_end(self) -> bool:
        """Runs the stream until it is told to stop; False when it failed and is to be begun again.

        :raises BaseException: it failed, and isn't begun again in this process
        """
        self._backoff.begin()
        try:
            self._run()
            return True
        except Exception as failure:
            self._tells.failed(failure)
            if self._stop.is_set():
                raise
            if isinstance(failure, Fenced):
                log.error("%s: %s It waits until that one is silent.", self.name, failure)
                self._wait_for_silence()
                return False
            if not self._others_run(self.name):
                raise
            log.error("%s: the stream failed and is begun again; the others go on", self.name, exc_info=failure)
            self.runs = False
            return False

    def _wait_for_silence(self) -> None:
        """Until whoever writes the journal has committed nothing for `TAKE_OVER_AFTER_S`, as far as can be seen."""
        self.runs = False
        seen: tuple[int, int] | None = None
        since = self._clock.monotonic()
        while not self._stop.wait(LOOK_S):
            head, now = self._journal_head(), self._clock.monotonic()
            if head is None or head != seen:
                seen, since = head, now
            elif now - since >= TAKE_OVER_AFTER_S:
                log.warning("%s: nothing was committed for %.0f s; it is begun again", self.name, now - since)
                self._stream.follow(head[0])
                return

    def _journal_head(self) -> tuple[int, int] | None:
        try:
            return self._stream.journal_head()
        except Exception as unreadable:
            log.warning("%s: its journal can't be read: %s", self.name, unreadable)
            return None

    def _run(self) -> None:
        while not self._stop.is_set() and (why := self._stream.idle_because()) is not None:
            self.runs = False
            self._tells.off(why)
            self._stop.wait(LOOK_S)
        if self._stop.is_set():
            return
        self.runs = True
        try:
            self._running = self._stream.begin()
            if self._stop.is_set():
                self._running.stop()
            self._running.run()
        finally:
            self._running = None


class Application:
    """All streams of the process."""

    def __init__(self, streams: Sequence[tuple[Startable, Tells]], clock: Clock) -> None:
        self._threads = [StreamThread(stream, tells, clock, self._others_run) for stream, tells in streams]
        self._stop = threading.Event()

    def stop(self) -> None:
        """Asks all streams for a stop; for signal handlers too."""
        self._stop.set()

    def run(self) -> bool:
        """Runs all streams until `stop`; returns whether that is why it returns.

        It returns by itself when a stream's failure is for a fresh process to mend, or when none runs any more.
        """
        for thread in self._threads:
            thread.start()
        while not self._stop.wait(STEP_S) and not self._at_an_end():
            pass
        for thread in self._threads:
            thread.stop()
        for thread in self._threads:
            thread.join()
        return self._stop.is_set() and all(thread.failure is None for thread in self._threads)

    def _at_an_end(self) -> bool:
        if any(thread.ends_process for thread in self._threads):
            return True
        ended = [thread for thread in self._threads if not thread.lives]
        return bool(ended) and not any(thread.runs for thread in self._threads)

    def _others_run(self, name: str) -> bool:
        return any(thread.runs for thread in self._threads if thread.name != name)
