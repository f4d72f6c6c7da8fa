"""Asks handlers about the events that may run, and remembers over a crash what is being tried."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from core.clock import Clock, to_micros
from core.crash import crash_point
from core.tracing import sampled_in, span_id_of, with_span
from core.work import WorkItem
from journal.errors import StorageDown
from processor.calls.downstreams import Downstreams
from processor.decide.item import BatchItem
from processor.decide.line import Line
from processor.decide.ports import PutBackRecord, Republish
from processor.source.records import make_work_item
from processor.workers.execute import Results

NOTHING_TRIED = -1
"""In place of a seq: no event is being tried."""


class GroupExecutor(Protocol):
    """Runs groups of events, each in order (`processor.workers.execute.Executor`)."""

    def run(self, groups: Sequence[list[WorkItem]], *, suspect: bool = False) -> Results: ...


class Handlers:
    """A stream's handlers.

    ``trying`` is a file that says after which seq events were handed to them: an event that ends the whole process is
    found like one that ends its worker. It is disposable: without it a try is repeated. ``republish``,
    ``put_back``: see `processor.decide.replayed_poison`.
    """

    def __init__(
        self,
        executor: GroupExecutor,
        trying: Path,
        clock: Clock,
        republish: Republish | None = None,
        downstreams: Downstreams | None = None,
        put_back: PutBackRecord | None = None,
    ) -> None:
        self._executor = executor
        self._trying = trying
        self._clock = clock
        self._suspect = False
        self._tried = NOTHING_TRIED
        self.republish = republish
        self.put_back = put_back
        self.downstreams = downstreams or Downstreams()

    def begin(self, seq: int) -> None:
        """Finds out whether the process before this one ended while it tried what follows ``seq``, the journal's end.

        Then the next run looks for the event that ended it.
        """
        try:
            self._suspect = bool(json.loads(self._trying.read_text("utf-8"))["seq"] == seq)
        except (OSError, ValueError, KeyError, TypeError):
            self._suspect = False

    def on_commit(self, seq: int) -> None:
        self._suspect = False
        if self._tried == seq:
            self._note_tried(NOTHING_TRIED)

    def run(self, lines: Iterable[Line], seq: int) -> Results:
        """Asks about every event that may run and that the map stage hasn't answered.

        :raises StorageDown: the note of what is tried can't be written
        """
        work: list[list[WorkItem]] = []
        early: list[BatchItem] = []
        for line in lines:
            tasks = []
            for item in line.select_runnable():
                if item.answer is None:
                    tasks.append(_make_work_item(item, line.rules.policy.text))
                else:
                    early.append(item)
            if tasks:
                work.append(tasks)
        self._note_tried(seq)
        results = self._executor.run(work, suspect=self._suspect)
        for item in early:
            assert item.early is not None and item.answer is not None
            results.by_item[item.seq] = item.answer
            results.handler_version = item.early.handler_version
        crash_point("processor.after_handlers")
        return results

    def _note_tried(self, seq: int) -> None:
        self._tried = seq
        try:
            self._trying.write_text(json.dumps({"seq": seq, "at_us": to_micros(self._clock.now())}), "utf-8")
        except OSError as failed:
            raise StorageDown("the note of what is tried", str(self._trying), str(failed)) from failed


def keep_only_first(line: Line | None) -> list[Line]:
    first = None if line is None else next(line.select_runnable(), None)
    return [] if line is None or first is None else [Line(line.rules, items=[first])]


def _make_work_item(item: BatchItem, route: str) -> WorkItem:
    """Makes what a handler sees of an item. ``route``: the stream's policy, for an event that didn't fail yet."""
    return make_work_item(
        item.row,
        item.body,
        item_seq=item.seq,
        attempt=item.row.attempt,
        previous=item.previous,
        last_try=item.last_try,
        died_before=item.died_before,
        replays=item.replays,
        route=item.row.retry_policy or route,
        traceparent=_make_traceparent(item),
    )


def _make_traceparent(item: BatchItem) -> str | None:
    taken = sampled_in(item.headers)
    return None if taken is None else with_span(taken, span_id_of(item.row.event_key or "", item.row.attempt))
