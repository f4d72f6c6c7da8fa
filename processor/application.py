"""The work streams of one process, a thread each, and the loop in which each of them begins, runs and begins again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from core.clock import Clock, doubled_s
from core.decision import ErrorKind
from core.log import log_context
from journal.errors import Fenced, StreamRefused
from journal.lease import Holder, Lease

log = logging.getLogger(__name__)

RESTART_S_FIRST = 1.0
RESTART_S_MAX = 60.0
STEADY_S = 60.0
"""After a run of this length the waits between restarts begin with the shortest one again."""

OUTAGE_S_FIRST = 1.0
OUTAGE_S_MAX = 15.0
"""A try costs an epoch's commit of 1 KB and what opening the derived tables takes; four a minute do no harm."""

REFUSED_S = 5.0
"""From one check of what is refused to the next: it reads a few records, and commits nothing."""

REPORT_EVERY_S = 0.5

LOOK_S = 2.0
"""How often an idle stream looks again."""

STANDBY_LOOK_S = 1.0
"""How often a stream that stands by looks at the lease: after a clean stop it takes over so soon."""

STEP_S = 0.2


class StreamRun(Protocol):
    @property
    def has_decided(self) -> bool: ...

    def run(self) -> None: ...

    def stop(self) -> None: ...


class WorkStream(Protocol):
    @property
    def name(self) -> str: ...
    def idle_because(self) -> str | None: ...

    @property
    def lease(self) -> Lease: ...
    def begin(self) -> StreamRun: ...

    def follow(self) -> None: ...

    def prepare(self) -> None:
        """Makes ready what a run needs and no other process notices. A second call costs nothing."""

    def release_executors(self) -> None: ...

    def stand_by(self) -> None:
        """Follows the stream while another process decides it, so that it can take over quickly. It doesn't raise."""


class StateReports(Protocol):
    def report_off(self, why: str) -> None: ...
    def report_outage(self, reason: str, tries: int) -> None: ...
    def report_refused(self, why: str) -> None: ...
    def report_standby(self, holder: Holder) -> None: ...
    def report_failed(self, failure: BaseException) -> None: ...
    def count_restart(self) -> None: ...


class Backoff:
    """Seconds to wait after each failure: doubled from one to the next, the shortest again after a steady run."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_at = clock.monotonic_s()
        self._failures = 0

    def begin(self) -> None:
        self._began_at = self._clock.monotonic_s()

    def after_failure_s(self) -> float:
        steady = self._clock.monotonic_s() - self._began_at >= STEADY_S
        self._failures = 1 if steady else self._failures + 1
        return doubled_s(RESTART_S_FIRST, self._failures - 1, RESTART_S_MAX)


class StreamLoop:
    """Runs a stream until `stop`: it waits for the lease, begins, runs, sorts what failed, waits, and begins again.

    - Of several processes with the stream, one has its lease; the others stand by. It keeps the lease through outages
      and restarts, and gives it up when it ends. Where another process has taken it, the run is stopped.
    - What is `StreamRefused` waits for a person, and is checked again from the records now and then, without an epoch.
    - An outage of its storage (an error whose ``kind`` is SBE) is waited for. Each try opens everything again, as a new
      process would: the epoch's commit is the probe, and nothing is taken from the source meanwhile.
    - `Fenced`: another process has taken the journal over. The stream stands by; to restart at once would take the
      journal back, and two processes would do so for ever.
    - After any other failure it restarts with growing waits, as long as another stream of the process runs. The only
      running stream's failure ends the process: a fresh one is the surest restart, and disturbs no other stream.

    ``runs``: it is neither idle, nor standing by, nor between two starts, nor ended. ``failure``: what ended it; a new
    process may run without it.
    """

    def __init__(
        self, stream: WorkStream, status: StateReports, clock: Clock, others_run: Callable[[str], bool]
    ) -> None:
        self._stream = stream
        self._status = status
        self._clock = clock
        self._others_run = others_run
        self._backoff = Backoff(clock)
        self._stop = threading.Event()
        self._running: StreamRun | None = None
        self._tries = 0
        self._refused = ""
        self._was_lost = False
        self._thread = threading.Thread(target=self._run_thread, name=f"stream-{stream.name}", daemon=True)
        self.runs = True
        self.failure: BaseException | None = None

    @property
    def name(self) -> str:
        return self._stream.name

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        running = self._running
        if running is not None:
            running.stop()

    def join(self, timeout_s: float | None = None) -> None:
        self._thread.join(timeout_s)

    def _run_thread(self) -> None:
        with log_context(stream=self.name):
            self._run_until_ended()

    def _run_until_ended(self) -> None:
        try:
            while not self._stop.is_set():
                self._backoff.begin()
                try:
                    self._wait_for_work()
                    self._run()
                    return
                except Exception as failure:
                    self._wait_to_restart(failure)
        except BaseException as failure:
            self.failure = failure
            log.error("%s: the stream ended", self.name, exc_info=failure)
        finally:
            self.runs = False
            self._stream.lease.release()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if self._wait_for_lease():
                    self._run_once()
                    if self._stream.lease.is_held:
                        return
                    self._status.count_restart()
            except StreamRefused as refused:
                self._wait_for_a_person(refused)
                # What a person decides begins an epoch of its own, which the next run follows.
                self._stream.lease.drop()
            except Exception as failure:
                if getattr(failure, "kind", None) is not ErrorKind.SBE:
                    raise
                self._wait_for_storage(failure)

    def _wait_for_lease(self) -> bool:
        """Waits until the lease is this process's; False where a stop ends the wait.

        The journal's last epoch is read first, and then the lease is checked again. So an epoch that another process
        begins later isn't followed, however long this process was paused (`journal.writer.Tenure`).
        """
        lease = self._stream.lease
        if lease.is_held:
            return True
        self._stream.prepare()
        while not self._stop.is_set():
            if lease.take_lease():
                if self._confirm_lease(lease):
                    return True
            elif lease.holder is not None:
                self.runs = False
                self._status.report_standby(lease.holder)
                self._stream.release_executors()
                self._stream.stand_by()
            self._stop.wait(STANDBY_LOOK_S)
        return False

    def _confirm_lease(self, lease: Lease) -> bool:
        try:
            self._stream.follow()
            if lease.renew():
                self._was_lost = False
                lease.keep_renewing(self._note_lost_lease)
                return True
        except BaseException:
            lease.drop()
            raise
        lease.drop()
        return False

    def _note_lost_lease(self) -> None:
        self._was_lost = True
        log.warning("%s: another process has taken the lease; the stream stands by", self.name)
        running = self._running
        if running is not None:
            running.stop()

    def _run_once(self) -> None:
        self.runs = True
        running = self._stream.begin()
        self._running = running
        try:
            if self._stop.is_set() or not self._stream.lease.is_held:
                running.stop()
            running.run()
        except BaseException:
            if running.has_decided:
                self._tries = 0
            raise
        finally:
            self._running = None

    def _wait_for_work(self) -> None:
        while not self._stop.is_set() and (why := self._stream.idle_because()) is not None:
            self.runs = False
            self._status.report_off(why)
            self._stream.release_executors()
            self._stop.wait(LOOK_S)

    def _wait_for_a_person(self, refused: StreamRefused) -> None:
        if str(refused) != self._refused:
            log.error("%s", refused)
        self._refused = str(refused)
        self._stream.release_executors()
        self._wait(REFUSED_S, lambda: self._status.report_refused(f"{type(refused).__name__}: {refused}"))

    def _wait_for_storage(self, failure: Exception) -> None:
        wait_s = doubled_s(OUTAGE_S_FIRST, self._tries, OUTAGE_S_MAX)
        self._tries += 1
        log.error("%s: the stream pauses and tries again in %.0f s: %s", self.name, wait_s, failure, exc_info=failure)
        self._wait(wait_s, lambda: self._status.report_outage(f"{type(failure).__name__}: {failure}", self._tries))

    def _wait(self, seconds: float, report: Callable[[], None]) -> None:
        until = time.monotonic() + seconds
        report()
        while (left_s := until - time.monotonic()) > 0 and not self._stop.wait(min(left_s, REPORT_EVERY_S)):
            report()

    def _wait_to_restart(self, failure: Exception) -> None:
        self._status.report_failed(failure)
        if self._stop.is_set():
            raise failure
        if isinstance(failure, Fenced) or self._was_lost:
            log.error("%s: %s", self.name, failure)
            self.runs = False
            self._stream.lease.drop()
        elif not self._others_run(self.name):
            raise failure
        else:
            log.error("%s: the stream failed and restarts; the others keep running", self.name, exc_info=failure)
            self.runs = False
        self._stop.wait(self._backoff.after_failure_s())
        self._status.count_restart()


class Application:
    def __init__(
        self,
        streams: Sequence[tuple[WorkStream, StateReports]],
        clock: Clock,
        spark_runs: Callable[[], bool] = lambda: True,
    ) -> None:
        self._spark_runs = spark_runs
        self._loops = [StreamLoop(stream, status, clock, self._others_run) for stream, status in streams]
        self._stop = threading.Event()

    def stop(self) -> None:
        self._stop.set()

    def run(self) -> bool:
        """Runs all streams until `stop`; returns whether that is why it returns.

        It returns by itself when a stream's failure needs a new process, or when none runs any more.
        """
        for loop in self._loops:
            loop.start()
        while not self._stop.wait(STEP_S) and not self._is_over():
            pass
        for loop in self._loops:
            loop.stop()
        for loop in self._loops:
            loop.join()
        return self._stop.is_set() and all(loop.failure is None for loop in self._loops)

    def _is_over(self) -> bool:
        if any(loop.failure is not None for loop in self._loops):
            return True
        if not self._spark_runs():
            log.error("Spark has ended, or its cluster has given this application up: this process ends")
            return True
        ended = [loop for loop in self._loops if not loop.is_alive]
        return bool(ended) and not any(loop.runs for loop in self._loops)

    def _others_run(self, name: str) -> bool:
        return any(loop.runs for loop in self._loops if loop.name != name)
