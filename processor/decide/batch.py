"""Decides one micro-batch in steps: read → admit → run → line → settle → commit → derive (docs/decisions/0006)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from core.clock import Clock, to_rfc3339
from core.crash import crash_point
from core.work import Outcome
from journal.errors import StreamRefused
from journal.open_item import OpenItem
from journal.schema import JournalRow
from journal.state import Marks
from processor.calls.budget import CallReport
from processor.decide.admit import Admission, BatchLookups, admit_events
from processor.decide.arrivals import Arrivals, number_records, take_undecided
from processor.decide.blocked import AGAIN_S, LOOKED_AT_MAX, Blocked, Rank, choose_probe
from processor.decide.commit import CLOSE_S_MAX, Derived, Journal, assign_item_seqs, number_rows
from processor.decide.handlers import (
    Handlers,
    collect_answers,
    find_blocking_failures,
    keep_only_first,
    list_named_pairs,
    settle_lines,
)
from processor.decide.head_of_line import HeadFigures, HeadOfLine
from processor.decide.item import BatchItem
from processor.decide.orders import BatchCommands
from processor.decide.rereads import Rereads
from processor.decide.runs import RUNS_NOTE, RunScheduler, RunShare
from processor.errors.classify import Failure
from processor.reporting.progress import BatchProgress, StepTimes
from processor.rules import StreamRules
from processor.source.records import KafkaRecord, read_table
from processor.workers.execute import Results

log = logging.getLogger(__name__)


class Batches:
    """The engine of one work stream. Not thread-safe: Spark runs one batch at a time.

    After any error it is of no further use: `release` it, and open another one from the journal.
    """

    def __init__(
        self,
        rules: StreamRules,
        journal: Journal,
        known: BatchLookups,
        handlers: Handlers,
        derived: Derived,
        rereads: Rereads,
        clock: Clock,
    ) -> None:
        self._rules = rules
        self._journal = journal
        self._known = known
        self._handlers = handlers
        self._derived = derived
        self._rereads = rereads
        self._clock = clock
        self.progress = BatchProgress()
        self._probed: Rank | None = None
        self._set_blocked(Blocked.from_notes(journal.state.notes))
        self._heads = HeadOfLine(derived.index, rules.config, clock)
        left = journal.state.notes.get(RUNS_NOTE, "")
        self._runs = RunScheduler(journal.state.lineage, known, clock, self._estimate_wait_s, left)
        handlers.begin(journal.seq)

    @property
    def committed_marks(self) -> Marks:
        return self._journal.state.marks

    @property
    def seq(self) -> int:
        return self._journal.seq

    @property
    def is_blocked(self) -> bool:
        return self._blocked.reason is not None

    @property
    def probe_s(self) -> float:
        return self._blocked.probe_s

    @property
    def history_refusal(self) -> StreamRefused | None:
        return self._journal.history_refusal

    @property
    def head_figures(self) -> HeadFigures:
        return self._heads.figures

    def status(self) -> dict[str, Any]:
        index, dead_letters = self._derived.index, self._derived.dead_letters
        return {
            "epoch": self._journal.state.epoch,
            "seq": self.seq,
            "marks": self.committed_marks,
            "open": index.open_count(),
            "dead": index.dead_count(),
            "index_memory_bytes": index.memory_bytes(),
            "published_upto": dead_letters.published_upto,
            "unpublished": dead_letters.unacknowledged,
            "unpublished_s": round(dead_letters.waiting_s, 1),
            "anchored": self._derived.anchors.anchored_seq,
            "heads": self.head_figures.status(),
            "downstreams": self._handlers.downstreams.status(),
            "by_range": self._journal.by_range,
            **self.progress.status(self._clock),
        }

    def run(self, table: pa.Table) -> None:
        """Decides a batch: Kafka's records (columns as `read_table` takes them) and the events that are due."""
        self._derived.poll()
        started = self._clock.monotonic_s()
        records, marks = self._take_undecided(read_table(table))
        self.progress.read_s = self._clock.monotonic_s() - started
        due = self._find_due_items(self._rules.due_per_batch_max)
        condemned = self._heads.find_overdue_heads(stream_blocked=self.is_blocked)
        known = {item.row.item_seq for item in due}
        due += [item for item, _ in condemned.values() if item.row.item_seq not in known]
        crash_point("processor.after_read")
        turns = self._runs.plan_shares()
        if records or due or turns:
            self._decide_batch(
                records, marks, due, {seq: failure for seq, (_, failure) in condemned.items()}, turns=turns
            )

    def _estimate_wait_s(self) -> float:
        return self.progress.seconds + self._known.backlog_s()

    def filter_undecided(self, records: Iterable[KafkaRecord]) -> list[KafkaRecord]:
        return self._take_undecided(record for record in records if record.topic != self._rules.control_topic)[0]

    def _take_undecided(self, records: Iterable[KafkaRecord]) -> tuple[list[KafkaRecord], Marks]:
        return take_undecided(records, self.committed_marks, self._rules.transactional)

    def run_commands(self, records: Iterable[KafkaRecord]) -> bool:
        self._derived.poll()
        orders, marks = self._take_undecided(record for record in records if record.topic == self._rules.control_topic)
        if orders:
            self._decide_batch(orders, marks, [])
        return bool(orders)

    def probe(self, records: Sequence[KafkaRecord] = ()) -> float:
        """Tries one waiting event of a blocked stream, or one of ``records``. Returns the seconds to the next probe.

        A failed probe costs `probe_s`. One that says nothing of what blocks the stream costs no wait, or `AGAIN_S`
        where its event had been rescheduled before. A record that is tried takes those before it in its partition with
        it, and these wait. Where there is nothing to try, the stream is no longer blocked: the next batch is the probe.

        :param records: as `filter_undecided` gives them
        """
        self._derived.poll()
        choice = self._choose_probe(records)
        if choice is None:
            self._set_blocked(Blocked())
            return 0.0
        rank, chosen = choice
        self._probed = rank
        if isinstance(chosen, OpenItem):
            results = self._decide_batch([], self.committed_marks, [chosen], probe=chosen.row)
        else:
            taken, marks = self._take_undecided(_select_upto(chosen.row, records))
            results = self._decide_batch(taken, marks, [], probe=chosen.row)
        if any(self._blocked.is_prolonged_by(result) for result in results):
            return self.probe_s
        return AGAIN_S if results and rank.is_put_off else 0.0

    def has_better_probe(self, records: Sequence[KafkaRecord]) -> bool:
        choice = self._choose_probe(records) if self._probed is not None else None
        return choice is not None and self._probed is not None and choice[0] < self._probed

    def _choose_probe(self, records: Sequence[KafkaRecord]) -> tuple[Rank, OpenItem | BatchItem] | None:
        return choose_probe(self._find_due_items(LOOKED_AT_MAX), self._number_records(records[:LOOKED_AT_MAX]).events)

    def _number_records(self, records: Sequence[KafkaRecord]) -> Arrivals:
        state = self._journal.state
        return number_records(records, state.next_seq, self._clock.now(), self._rules, state.histories)

    def _find_due_items(self, limit: int) -> list[OpenItem]:
        return self._derived.index.find_due(self._clock.now(), limit, self._rules.due_bytes_max)

    def close(self) -> None:
        """Closes the engine after the last batch: dead letters and anchors get time to be sent."""
        self._journal.close()
        self._derived.close(CLOSE_S_MAX)

    def release(self) -> None:
        """Frees everything without waiting, after a failure, so that the next writer of this process can begin."""
        self._journal.close()
        self._derived.close(0)

    def _decide_batch(
        self,
        records: Sequence[KafkaRecord],
        marks: Marks,
        due: Sequence[OpenItem],
        condemned: Mapping[int, Failure] | None = None,
        probe: JournalRow | None = None,
        turns: Sequence[RunShare] = (),
    ) -> Collection[Outcome | Failure]:
        self._derived.check(self.seq)
        steps = StepTimes(self._clock)
        arrivals = self._number_records(records)
        admitted = admit_events(self._known, self._rules, self._clock.now(), due, arrivals.events, condemned or {})
        steps.end("lookup")
        results = self._run_handlers(admitted, probe)
        settled = self._settle_events(arrivals, admitted, results)
        steps.end("handle")
        decided = [item for item in settled if not item.goes_on_waiting]
        every = self._order_rows(decided, arrivals, turns)
        if not every:
            self._handlers.on_commit(self.seq)
            self._update_due_times(settled)
            return results.by_item.values()
        rows, bodies = [item.row for item in every], _collect_bodies(every)
        notes = {**self._blocked.make_note(), **self._runs.make_notes()}
        head = self._journal.commit(rows, bodies, marks, self._derived.dead_letters.published_upto, notes)
        self._handlers.on_commit(self.seq)
        steps.end("commit")
        self._derived.follow(every, bodies, head)
        self._update_due_times(settled)
        self._heads.on_commit(rows)
        self._runs.on_commit(rows)
        steps.end("derive")
        self.progress.note_batch(len(rows), len(records), steps)
        return results.by_item.values()

    def _update_due_times(self, settled: Iterable[BatchItem]) -> None:
        waits = [
            (item.waiting, item.row.due_at, item.row.reason)
            for item in settled
            if item.goes_on_waiting and item.waiting is not None and item.row.due_at is not None
        ]
        self._derived.index.put_off(waits)

    def _run_handlers(self, admitted: Admission, probe: JournalRow | None) -> Results:
        if admitted.poison:
            self._rereads.settle(admitted.poison, self._clock.now())
        lines = admitted.lines
        to_run = lines.values() if probe is None else keep_only_first(lines.get(probe.entity_key or ""))
        results = self._handlers.run(to_run, self.seq)
        self.progress.hung_calls, self.progress.waited_s = sum(results.hung.values()), results.waited_s
        return results

    def _settle_events(self, arrivals: Arrivals, admitted: Admission, results: Results) -> list[BatchItem]:
        lines, now = admitted.lines.values(), self._clock.now()
        answers = collect_answers(lines, results.by_item, results.handler_version, now, self._blocked.reason)
        booked = self._known.index.booked_of(sorted(list_named_pairs(answers)))
        self._update_block(answers.by_item.values(), results.reports)
        return [*admitted.settled, *admitted.poison, *settle_lines(lines, answers, booked), *arrivals.passed]

    def _update_block(self, results: Iterable[Outcome | Failure], reports: Mapping[str, CallReport]) -> None:
        results = list(results)
        failures = find_blocking_failures(results)
        if failures:
            self._set_blocked(self._blocked.after_failures(failures, self._rules.config.retry.outage_policy))
            log.warning("the stream is blocked (%s); next probe in %.0f s", failures[0].error_class, self.probe_s)
        elif self.is_blocked:
            blocked = self._blocked
            for result in results:
                blocked = blocked.after_result(result, reports, self._rules.config.retry.outage_policy)
            self._set_blocked(blocked)

    def _order_rows(
        self, decided: Sequence[BatchItem], arrivals: Arrivals, turns: Sequence[RunShare]
    ) -> list[BatchItem]:
        moved_by, state, now = assign_item_seqs(decided), self._journal.state, self._clock.now()
        if not arrivals.commands and not turns:
            return number_rows(decided, [], [], state.next_seq, now)
        history = state.history(self._rules.control_topic).of_row()
        orders = BatchCommands(
            self._known, self._rules, state.lineage, history, now, self._runs, decided, self._rereads
        )
        for record, seq in arrivals.commands:
            orders.decide(record, seq + moved_by)
        orders.run_portions(turns)
        orders.wake_followers()
        return number_rows(decided, orders.commands, orders.rows, state.next_seq, now)

    def _set_blocked(self, blocked: Blocked) -> None:
        if blocked.reason is None:
            self._probed = None
        elif not blocked.since:
            blocked = replace(blocked, since=to_rfc3339(self._clock.now()))
        self._blocked = blocked
        self.progress.blocked_reason, self.progress.blocked_since = blocked.reason, blocked.since or None


def _collect_bodies(every: Iterable[BatchItem]) -> dict[str, bytes]:
    with_one = (item for item in every if item.is_new or item.body)
    return {item.row.body_sha256: item.body for item in with_one if item.row.body_sha256 is not None}


def _select_upto(row: JournalRow, records: Iterable[KafkaRecord]) -> list[KafkaRecord]:
    return [
        record
        for record in records
        if (record.topic, record.partition) == (row.topic, row.partition) and record.offset <= row.offset
    ]
