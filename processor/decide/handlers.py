"""Asks handlers about the events that may run, and settles their answers across entities.

What is being tried is remembered over a crash. Of events with one fact one is booked; an undo of what isn't booked is
unknown. A failure that says that the whole stream is blocked is its event's own where others went well meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

from core.clock import Clock, to_micros
from core.crash import crash_point
from core.decision import Decision
from core.tracing import sampled_in, span_id_of, with_span
from core.work import Applied, Outcome, WorkItem
from journal.errors import StorageDown
from journal.schema import JournalRow, pair_of
from processor.calls.downstreams import Downstreams
from processor.decide.item import BatchItem, reject_duplicate_fact
from processor.decide.line import Answers, Line, decide_line, list_last_try
from processor.errors.classify import Failure
from processor.rules import StreamRules
from processor.source.records import make_work_item
from processor.workers.execute import Results

NOTHING_TRIED = -1
"""In place of a seq: no event is being tried."""

EARLY_UNDO = "undo"
"""The code of an undo that is unknown (`core.work.Unknown`): nothing is booked that it could take back."""


class GroupExecutor(Protocol):
    def run(self, groups: Sequence[list[WorkItem]], *, suspect: bool = False) -> Results: ...


class Handlers:
    """A stream's handlers.

    ``trying`` is a file with the seq after which events were handed to them. So an event that ends the whole process is
    found like one that ends its worker. Without the file a try is only repeated.
    """

    def __init__(
        self,
        executor: GroupExecutor,
        trying: Path,
        clock: Clock,
        downstreams: Downstreams | None = None,
    ) -> None:
        self._executor = executor
        self._trying = trying
        self._clock = clock
        self._suspect = False
        self._tried = NOTHING_TRIED
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
        """
        :raises StorageDown: the note of what is tried can't be written
        """
        work: list[list[WorkItem]] = []
        early: list[tuple[BatchItem, Outcome]] = []
        for line in lines:
            tasks = []
            for item in line.select_runnable():
                answer = item.answer
                if answer is None:
                    tasks.append(_make_work_item(item, line.rules))
                else:
                    early.append((item, answer))
            if tasks:
                work.append(tasks)
        self._note_tried(seq)
        results = self._executor.run(work, suspect=self._suspect)
        for item, outcome in early:
            assert item.early is not None
            results.by_item[item.seq] = outcome
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


def _make_work_item(item: BatchItem, rules: StreamRules) -> WorkItem:
    return make_work_item(
        item.row,
        item.body,
        item_seq=item.seq,
        attempt=item.row.attempt,
        previous=item.previous,
        last_try=list_last_try(item, rules),
        died_before=item.has_died,
        replays=0 if item.waiting is None else item.waiting.replays,
        route=item.row.retry_policy or rules.config.retry.default,
        traceparent=_make_traceparent(item),
    )


def _make_traceparent(item: BatchItem) -> str | None:
    taken = sampled_in(item.headers)
    return None if taken is None else with_span(taken, span_id_of(item.row.event_key or "", item.row.attempt))


def collect_answers(
    lines: Iterable[Line],
    results: Mapping[int, Outcome | Failure],
    handler_version: str,
    now: datetime,
    blocked: str | None,
) -> Answers:
    answered = dict(results)
    if blocked is None:
        for item in (item for line in lines for item in line.items if item.is_suspect):
            # Since it failed so, others went well: now it is its own failure.
            result = answered.get(item.seq)
            if isinstance(result, Failure) and result.is_blocking:
                answered[item.seq] = replace(result, own=True)
    first = next(iter(find_blocking_failures(answered.values())), None)
    why = blocked if first is None else f"{first.error_class}: {first.message}"
    return Answers(answered, handler_version, now, why)


def find_blocking_failures(results: Iterable[Outcome | Failure]) -> list[Failure]:
    return [result for result in results if isinstance(result, Failure) and result.is_blocking]


def list_named_pairs(answers: Answers) -> set[str]:
    applied = [answer for answer in answers.by_item.values() if isinstance(answer, Applied)]
    return {answer.pair for answer in applied if answer.pair is not None}


def settle_lines(lines: Iterable[Line], answers: Answers, booked: Mapping[str, int]) -> list[BatchItem]:
    """
    :param booked: of `list_named_pairs`, as `journal.index.Index.booked_of` says before this batch
    """
    left = dict(booked)
    decided = [item for line in lines for item in decide_line(line, answers)]
    taken: dict[str, str] = {}
    for item in sorted(decided, key=lambda item: item.row.item_seq):
        row, fact = item.row, item.row.fact_key
        if fact is None or row.decision is not Decision.APPLIED:
            continue
        if fact in taken:
            row.postings = row.handler_version = None
            reject_duplicate_fact(item, bytes.fromhex(taken[fact])[:8])
            continue
        answer = answers.by_item.get(item.seq)
        if isinstance(answer, Applied):
            _settle_pair(row, answer, left)
        taken[fact] = row.fact_sha256 or ""
    return decided


def _settle_pair(row: JournalRow, answer: Applied, left: dict[str, int]) -> None:
    """Makes an undo of what isn't booked unknown; books nothing for a movement whose undo came first.

    :param left: by pair, movements less undos; takes in this one
    """
    pair = answer.pair
    if pair is None:
        return
    before = left.get(pair, 0)
    left[pair] = before - 1 if answer.undoes else before + 1
    row.pair = pair_of(pair, undoes=answer.undoes)
    if answer.undoes and before <= 0:
        row.decision, row.error_code, row.postings = Decision.UNKNOWN, EARLY_UNDO, None
        row.reason = f"this journal has no movement of {pair} left to undo: it isn't known whether money moved before"
    elif not answer.undoes and before < 0:
        row.postings, row.reason = None, f"books nothing: the undo of {pair} came first"
