"""A work stream outlasts its storage: where that fails the stream pauses, and begins anew once it can be written."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from core.backoff import doubled_s
from core.decision import ErrorKind
from journal.errors import Refused
from journal.writer import Tenure
from processor.decide.batch import Batches

log = logging.getLogger(__name__)

WAIT_S_FIRST = 1.0
WAIT_S_MAX = 15.0
"""A try costs an epoch's commit of 1 KB and what opening the derived tables takes; four a minute do no harm."""

REFUSED_S = 5.0
"""From one look at what is refused to the next: it reads a few records, and commits nothing."""

TELL_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Outage:
    """Why a stream doesn't run just now. ``tries`` were made since it last decided anything."""

    reason: str
    tries: int
    next_try_s: float


class Runs(Protocol):
    """One run of the stream (`processor.source.stream.Stream`)."""

    def run(self) -> None: ...
    def stop(self) -> None: ...


class LastingStream:
    """Runs one work stream until `stop`, from epoch to epoch.

    What fails as a whole because something can't be written (an error whose ``kind`` is SBE) ends the writer, the
    query and everything derived; after a wait all of it is opened again, as a new process would. Nothing is taken from
    Kafka meanwhile. The epoch's commit is the probe, and what the last writer left unknown is read at that version.
    What is `Refused` waits for a person, and is checked again from the records now and then: no epoch is committed.
    Any other error ends the process.
    """

    def __init__(
        self,
        open_batches: Callable[[Tenure], Batches],
        run_on: Callable[[Batches], Runs],
        on_outage: Callable[[Outage], None],
        on_refused: Callable[[str], None] = lambda why: None,
        *,
        wait_s_first: float = WAIT_S_FIRST,
        wait_s_max: float = WAIT_S_MAX,
        refused_s: float = REFUSED_S,
        tenure: Tenure | None = None,
    ) -> None:
        self._open = open_batches
        self._run_on = run_on
        self._on_outage = on_outage
        self._on_refused = on_refused
        self._wait_s_first = wait_s_first
        self._wait_s_max = wait_s_max
        self._tenure = tenure or Tenure(uuid.uuid4().hex)
        self._stop = threading.Event()
        self._running: Runs | None = None
        self._tries = 0
        self._refused_s = refused_s
        self._refused = ""

    def stop(self) -> None:
        """Asks for a stop after the batch under way."""
        self._stop.set()
        if self._running is not None:
            self._running.stop()

    def run(self) -> None:
        """Runs until `stop`; raises what ended the stream, if that doesn't pass by itself."""
        while not self._stop.is_set():
            try:
                batches = self._open(self._tenure)
                self._run_once(batches)
                return
            except Refused as refused:
                self._wait_for_a_decision(refused)
            except Exception as failed:
                if getattr(failed, "kind", None) is not ErrorKind.SBE:
                    raise
                self._wait(failed)

    def _run_once(self, batches: Batches) -> None:
        try:
            self._running = self._run_on(batches)
            if self._stop.is_set():
                self._running.stop()
            self._running.run()
        except BaseException:
            if batches.progress.batches:
                self._tries = 0
            batches.release()
            raise
        batches.close()

    def _wait_for_a_decision(self, refused: Refused) -> None:
        """Looks again whether a person has decided, or has put back what was there before."""
        if str(refused) != self._refused:
            log.error("%s", refused)
        self._refused = str(refused)
        until = time.monotonic() + self._refused_s
        while (left_s := until - time.monotonic()) > 0:
            self._on_refused(f"{type(refused).__name__}: {refused}")
            if self._stop.wait(min(left_s, TELL_EVERY_S)):
                return

    def _wait(self, failed: Exception) -> None:
        wait_s = doubled_s(self._wait_s_first, self._tries, self._wait_s_max)
        self._tries += 1
        log.error("the stream pauses and begins anew in %.0f s: %s", wait_s, failed, exc_info=failed)
        until = time.monotonic() + wait_s
        while (left_s := until - time.monotonic()) > 0:
            self._on_outage(Outage(f"{type(failed).__name__}: {failed}", self._tries, left_s))
            if self._stop.wait(min(left_s, TELL_EVERY_S)):
                return
