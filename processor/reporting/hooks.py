"""A stream's own code around the recovery of failed events: called before one is retried or dead-lettered, and after.

A stream names ``module:function``; in the driver that builds an object with the two methods of `RecoveryHooks`.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from core.decision import Decision, ErrorKind
from journal.schema import JournalRow
from processor.errors.classify import Failure

log = logging.getLogger(__name__)

CALL_S_MAX = 1.0
"""Dead letters wait for their calls of ``before``, in order; while a call takes longer than this, none does."""

CALLS_WAITING_MAX = 10_000
"""About 20 MB of rows; what comes beyond is skipped, and counted."""


class RecoveryHooks(Protocol):
    """Two calls that a stream makes for each scheduled retry and each dead letter.

    ``event`` is its journal row, ``error`` what it failed of, ``route`` its retry policy; None: it is dead. Both come
    on one thread of the driver, in order, after the decision is in the journal: nothing that they do changes it. After
    a crash both may come again for a dead letter with the same ``event.seq``. Those of a retry that was just scheduled
    may be missing.
    """

    def before(self, event: JournalRow, error: Failure, route: str | None) -> None:
        """The event is about to wait for its next try (``event.due_at``), or to go to its dead-letter topic."""

    def after(self, event: JournalRow, error: Failure, route: str | None, failure: Exception | None) -> None:
        """It waits, or is on its topic; or a try to put it there failed with ``failure``, and another one follows."""


@dataclass(frozen=True, slots=True)
class _Call:
    stage: str
    row: JournalRow
    make: Callable[[], None]


class HookRunner:
    """Calls a stream's hooks and catches whatever they raise (`dlq.publisher.Watcher`).

    ``count`` gets each call that went wrong: ``before`` or ``after``, and ``error``, ``timeout`` or ``skipped``.
    """

    def __init__(self, hooks: RecoveryHooks, count: Callable[[str, str], None], call_s_max: float = CALL_S_MAX) -> None:
        self._hooks = hooks
        self._count = count
        self._call_s_max = call_s_max
        self._calls: queue.Queue[_Call | None] = queue.Queue(CALLS_WAITING_MAX)
        self._befores: dict[int, threading.Event] = {}
        self._under_way: tuple[_Call, float] | None = None
        self._late: _Call | None = None
        self._thread = threading.Thread(target=self._run, name="recovery-hooks", daemon=True)
        self._thread.start()

    def on_taken(self, row: JournalRow) -> None:
        done = self._befores[row.seq] = threading.Event()

        def make(copy: JournalRow) -> None:
            try:
                self._hooks.before(copy, read_failure(copy), None)
            finally:
                del self._befores[row.seq]
                done.set()

        if not self._put_call("before", row, make):
            del self._befores[row.seq]

    def is_held(self, row: JournalRow) -> bool:
        return row.seq in self._befores and not self._is_hanging()

    def _is_hanging(self) -> bool:
        call, began = self._under_way or (None, 0.0)
        if call is None or time.monotonic() - began < self._call_s_max:
            return False
        if self._late is not call:
            self._late = call
            reported = f"isn't back after {self._call_s_max:g} s; dead letters no longer wait for it"
            self._report_failure(call, "timeout", reported)
        return True

    def settle(self, timeout_s: float) -> None:
        for done in list(self._befores.values())[-1:]:
            done.wait(timeout_s)

    def on_published(self, row: JournalRow, topic: str, partition: int, offset: int) -> None:  # noqa: ARG002
        self._put_call("after", row, lambda copy: self._hooks.after(copy, read_failure(copy), None, None))

    def on_refused(self, row: JournalRow, error: Exception) -> None:
        self._put_call("after", row, lambda copy: self._hooks.after(copy, read_failure(copy), None, error))

    def on_scheduled(self, rows: Iterable[JournalRow]) -> None:
        for row in rows:
            if row.decision is Decision.RETRY:
                self._put_call(
                    "before", row, lambda copy: self._hooks.before(copy, read_failure(copy), copy.retry_policy)
                )
                self._put_call(
                    "after", row, lambda copy: self._hooks.after(copy, read_failure(copy), copy.retry_policy, None)
                )

    def close(self, timeout_s: float) -> None:
        try:
            self._calls.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(timeout_s)

    def _put_call(self, stage: str, row: JournalRow, make: Callable[[JournalRow], None]) -> bool:
        # A copy: what a hook changes of a row stays its own.
        copy = replace(row)
        call = _Call(stage, row, partial(make, copy))
        try:
            self._calls.put_nowait(call)
        except queue.Full:
            self._report_failure(call, "skipped", f"is skipped: {CALLS_WAITING_MAX} calls wait already")
            return False
        return True

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            self._under_way = call, time.monotonic()
            try:
                call.make()
            except BaseException:  # sys.exit() in a hook too: it must not end the thread
                self._report_failure(call, "error", "failed")
                log.exception("the hook %s of row %d", call.stage, call.row.seq)
            finally:
                self._under_way = None

    def _report_failure(self, call: _Call, problem: str, reported: str) -> None:
        self._count(call.stage, problem)
        log.error("the recovery hook %s of row %d %s; the event's decision stands", call.stage, call.row.seq, reported)


def read_failure(row: JournalRow) -> Failure:
    return Failure(
        kind=row.error_kind or ErrorKind.NRE,
        error_class=row.error_class or "",
        error_code=row.error_code,
        message=row.error_message or "",
        stack=row.error_stack or "",
        log_lines=row.log_lines,
    )
