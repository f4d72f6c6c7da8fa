"""The engine decides one micro-batch: read → admit → run → step → settle → commit → derive, a file each."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from core.clock import Clock, to_rfc3339
from core.crash import crash_point
from core.work import Outcome
from journal.errors import Refused
from journal.open_item import OpenItem
from journal.schema import JournalRow
from journal.state import Marks
from processor.calls.budget import Report
from processor.decide.admit import Admitted, admit
from processor.decide.blocked import AGAIN_S, LOOKED_AT_MAX, Blocked, Rank, choose
from processor.decide.commit import Journal
from processor.decide.derive import CLOSE_S_MAX, Derived
from processor.decide.head_of_line import HeadFigures, HeadOfLine
from processor.decide.item import Item
from processor.decide.orders import Orders
from processor.decide.ports import Known
from processor.decide.records import Arrivals, KafkaRecord, number, read_table, take
from processor.decide.rereads import Rereads
from processor.decide.run import Handlers, only_first
from processor.decide.runs import RUNS_NOTE, Runs, Turn
from processor.decide.settle import answers_of, blocking, in_order, pairs_named, place, settle
from processor.history.check import Position
from processor.judge.classify import Failure
from processor.reporting.progress import Progress, Steps
from processor.rules import StreamRules
from processor.run.execute import Results

log = logging.getLogger(__name__)


class Batches:
    """The engine of one work stream. Not thread-safe: Spark runs one batch at a time.

    After any error it is of no further use: `release` it, and open another one from the journal.
    """

    def __init__(
        self,
        rules: StreamRules,
        journal: Journal,
        known: Known,
        handlers: Handlers,
        derived: Derived,
        clock: Clock,
    ) -> None:
        self._rules = rules
        self._journal = journal
        self._known = known
        self._handlers = handlers
        self._derived = derived
        self._clock = clock
        self.progress = Progress()
        self._probed: Rank | None = None
        self._become(Blocked.noted(journal.state.notes))
        self._heads = HeadOfLine(derived.index, rules.heads, rules.dead_head, clock)
        left = journal.state.notes.get(RUNS_NOTE, "")
        self._runs = Runs(journal.state.lineage, known, clock, self._waits_s, left)
        handlers.begin(journal.seq)

    @property
    def marks(self) -> Marks:
        return self._journal.state.marks

    @property
    def seq(self) -> int:
        return self._journal.seq

    @property
    def position(self) -> Position:
        """How far it has decided; may be asked from any thread."""
        return self._journal.position

    @property
    def blocked(self) -> bool:
        return self._blocked.reason is not None

    @property
    def probe_s(self) -> float:
        """Seconds from a probe of a blocked stream that failed to the next one."""
        return self._blocked.probe_s

    @property
    def refusal(self) -> Refused | None:
        return self._journal.refusal

    @property
    def heads(self) -> HeadFigures:
        return self._heads.figures

    def status(self) -> dict[str, Any]:
        """Figures for the status file; counts are of open events, times in seconds."""
        index, dead_letters = self._derived.index, self._derived.dead_letters
        return {
            "epoch": self._journal.state.epoch,
            "seq": self.seq,
            "marks": self.marks,
            "open": index.open_count(),
            "dead": index.dead_count(),
            "index_memory_bytes": index.memory_bytes(),
            "published_upto": dead_letters.published_upto,
            "unpublished": dead_letters.unacknowledged,
            "unpublished_s": round(dead_letters.waiting_s, 1),
            "anchored": self._derived.anchors.anchored_seq,
            "heads": self.heads.status(),
            "downstreams": self._handlers.downstreams.status(),
            "by_range": self._journal.by_range,
            **self.progress.status(self._clock),
        }

    def run(self, table: pa.Table) -> None:
        """Decides a batch: Kafka's records (columns as `read_table` takes them) and the events that are due."""
        self._derived.poll()
        started = self._clock.monotonic()
        records, marks = self._take(read_table(table))
        self.progress.read_s = self._clock.monotonic() - started
        due = self._due(self._rules.due_per_batch_max)
        condemned = self._heads.look(stream_blocked=self.blocked)
        known = {item.row.item_seq for item in due}
        due += [item for item, _ in condemned.values() if item.row.item_seq not in known]
        crash_point("processor.after_read")
        turns = self._runs.due()
        if records or due or turns:
            self._decide(records, marks, due, {seq: failure for seq, (_, failure) in condemned.items()}, turns=turns)

    def _waits_s(self) -> float:
        return self.progress.seconds + self._known.backlog_s()

    def undecided(self, records: Iterable[KafkaRecord]) -> list[KafkaRecord]:
        return self._take(record for record in records if record.topic != self._rules.control_topic)[0]

    def _take(self, records: Iterable[KafkaRecord]) -> tuple[list[KafkaRecord], Marks]:
        return take(records, self.marks, self._rules.transactional)

    def obey(self, records: Iterable[KafkaRecord]) -> bool:
        """Decides the control records among them, and nothing else. Returns whether there were any."""
        self._derived.poll()
        orders, marks = self._take(record for record in records if record.topic == self._rules.control_topic)
        if orders:
            self._decide(orders, marks, [])
        return bool(orders)

    def probe(self, records: Sequence[KafkaRecord] = ()) -> float:
        """Tries one event of a blocked stream, one that waits or one of ``records``. Returns the seconds to the next
        probe.

        Only a probe that failed costs `probe_s`. One that says nothing of what blocks the stream costs no wait. Where
        its event had been rescheduled before it costs `AGAIN_S`, since there may be many of those, and they come back.

        A record that is tried takes those before it in its partition with it, and these wait. Where there is nothing to
        be tried the stream isn't blocked any more: the next batch is the probe.

        :param records: as `filter_undecided` gives them
        """
        self._derived.poll()
        choice = self._choose(records)
        if choice is None:
            self._become(Blocked())
            return 0.0
        rank, chosen = choice
        self._probed = rank
        if isinstance(chosen, OpenItem):
            results = self._decide([], self.marks, [chosen], probe=chosen.row)
        else:
            taken, marks = self._take(_upto(chosen.row, records))
            results = self._decide(taken, marks, [], probe=chosen.row)
        if any(self._blocked.goes_on(result) for result in results):
            return self.probe_s
        return AGAIN_S if results and rank.is_put_off else 0.0

    def tells_more(self, records: Sequence[KafkaRecord]) -> bool:
        """Whether the next probe would try an event that tells more than the last one's; then nobody needs to wait."""
        choice = self._choose(records) if self._probed is not None else None
        return choice is not None and self._probed is not None and choice[0] < self._probed

    def _choose(self, records: Sequence[KafkaRecord]) -> tuple[Rank, OpenItem | Item] | None:
        return choose(self._due(LOOKED_AT_MAX), self._number(records[:LOOKED_AT_MAX]).events)

    def _number(self, records: Sequence[KafkaRecord]) -> Arrivals:
        state = self._journal.state
        return number(records, state.next_seq, self._clock.now(), self._rules, state.histories)

    def _due(self, limit: int) -> list[OpenItem]:
        return self._derived.index.due(self._clock.now(), limit, self._rules.due_bytes_max)

    def close(self) -> None:
        """Closes the engine after the last batch: dead letters and anchors get time to be sent."""
        self._journal.close()
        self._derived.close(CLOSE_S_MAX)

    def release(self) -> None:
        """Lets go of everything without waiting, after a failure, so that the next writer of this process can begin."""
        self._journal.close()
        self._derived.close(0)

    def _decide(
        self,
        records: Sequence[KafkaRecord],
        marks: Marks,
        due: Sequence[OpenItem],
        condemned: Mapping[int, Failure] | None = None,
        probe: JournalRow | None = None,
        turns: Sequence[Turn] = (),
    ) -> Collection[Outcome | Failure]:
        """Commits a batch and returns what handlers said of it.

        ``probe``: one event of this row's entity runs, and nothing else. ``turns``: what runs of selections do in this
        batch.
        """
        self._derived.check(self.seq)
        steps = Steps(self._clock)
        arrivals = self._number(records)
        admitted = admit(self._known, self._rules, self._clock.now(), due, arrivals.events, condemned or {})
        steps.end("lookup")
        results = self._run(admitted, probe)
        settled = self._settle(arrivals, admitted, results)
        steps.end("handle")
        decided = [item for item in settled if not item.goes_on_waiting]
        every = self._order(decided, arrivals, turns)
        if not every:
            self._handlers.committed(self.seq)
            self._put_off(settled)
            return results.by_item.values()
        rows, bodies = [item.row for item in every], _bodies_of(every)
        notes = {**self._blocked.note(), **self._runs.notes()}
        head = self._journal.commit(rows, bodies, marks, self._derived.dead_letters.published_upto, notes)
        self._handlers.committed(self.seq)
        steps.end("commit")
        self._derived.follow(every, bodies, head)
        self._put_off(settled)
        self._heads.committed(rows)
        self._runs.committed(rows)
        steps.end("derive")
        self.progress.done(len(rows), len(records), steps)
        return results.by_item.values()

    def _put_off(self, settled: Iterable[Item]) -> None:
        """Tells the index until when those events wait for which nothing else has changed."""
        waits = [
            (item.waiting, item.row.due_at, item.row.reason)
            for item in settled
            if item.goes_on_waiting and item.waiting is not None and item.row.due_at is not None
        ]
        self._derived.index.put_off(waits)

    def _run(self, admitted: Admitted, probe: JournalRow | None) -> Results:
        if admitted.poison:
            rules, handlers, now = self._rules, self._handlers, self._clock.now()
            rereads = Rereads(rules.name, rules.mode, self._known.adapters, handlers.republish, handlers.put_back, now)
            rereads.settle(admitted.poison)
        lines = admitted.lines
        to_run = lines.values() if probe is None else only_first(lines.get(probe.entity_key or ""))
        results = self._handlers.run(to_run, self.seq)
        self.progress.hung_calls, self.progress.waited_s = sum(results.hung.values()), results.waited_s
        return results

    def _settle(self, arrivals: Arrivals, admitted: Admitted, results: Results) -> list[Item]:
        lines, now = admitted.lines.values(), self._clock.now()
        answers = answers_of(lines, results.by_item, results.handler_version, now, self._blocked.reason)
        booked = self._known.index.booked_of(sorted(pairs_named(answers)))
        self._learn(answers.by_item.values(), results.reports)
        return [*admitted.settled, *admitted.poison, *settle(lines, answers, booked), *arrivals.passed]

    def _learn(self, results: Iterable[Outcome | Failure], reports: Mapping[str, Report]) -> None:
        results = list(results)
        failures = blocking(results)
        if failures:
            self._become(self._blocked.after_failures(failures, self._rules.outage))
            log.warning("the stream is blocked (%s); next probe in %.0f s", failures[0].error_class, self.probe_s)
        elif self.blocked:
            blocked = self._blocked
            for result in results:
                blocked = blocked.after_result(result, reports, self._rules.outage)
            self._become(blocked)

    def _order(self, decided: Sequence[Item], arrivals: Arrivals, turns: Sequence[Turn]) -> list[Item]:
        moved_by, state, now = place(decided), self._journal.state, self._clock.now()
        if not arrivals.commands and not turns:
            return in_order(decided, [], [], state.next_seq, now)
        history = state.history(self._rules.control_topic).of_row()
        orders = Orders(self._known, self._rules, state.lineage, history, now, self._runs, decided)
        for record, seq in arrivals.commands:
            orders.decide(record, seq + moved_by)
        orders.carry_on(turns)
        orders.end()
        return in_order(decided, orders.commands, orders.rows, state.next_seq, now)

    def _become(self, blocked: Blocked) -> None:
        if blocked.reason is None:
            self._probed = None
        elif not blocked.since:
            blocked = replace(blocked, since=to_rfc3339(self._clock.now()))
        self._blocked = blocked
        self.progress.blocked_reason, self.progress.blocked_since = blocked.reason, blocked.since or None


def _bodies_of(every: Iterable[Item]) -> dict[str, bytes]:
    with_one = (item for item in every if item.new or item.body)
    return {item.row.body_sha256: item.body for item in with_one if item.row.body_sha256 is not None}


def _upto(row: JournalRow, records: Iterable[KafkaRecord]) -> list[KafkaRecord]:
    return [
        record
        for record in records
        if (record.topic, record.partition) == (row.topic, row.partition) and record.offset <= row.offset
    ]
