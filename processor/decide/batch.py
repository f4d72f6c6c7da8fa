"""One micro-batch, in the six steps; the journal commit is the only point at which anything is decided."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from core.clock import Clock
from core.crash import crash_point
from core.decision import Decision
from core.errors import PayhookError
from dlq.acceptance import Meanwhile
from dlq.done_alone import DoneAlone, GivenSince
from dlq.frozen import ReadSelection, nothing_frozen
from journal.anchoring import Head, Unanchored
from journal.bodies import BodyStore
from journal.errors import Refused
from journal.index import Index
from journal.marks import Marks
from journal.open_item import OpenItem
from journal.schema import JournalRow
from journal.state import JournalState
from journal.writer import Committed, JournalWriter
from processor.decide.admission import Admission
from processor.decide.blocked import LOOKED_AT_MAX, Blocked, Rank, choose
from processor.decide.closings import Closings
from processor.decide.commands import CommandDesk
from processor.decide.entries import Entries
from processor.decide.head_of_line import HeadFigures, HeadOfLine
from processor.decide.intake import Item, KafkaRecord, read_table, take
from processor.decide.numbering import (
    Commands,
    bodies_of,
    divide,
    fresh_bodies,
    in_order,
    number,
    only_first,
    take_early,
)
from processor.decide.one_person import OnePerson
from processor.decide.ports import Anchors, DeadLetters, Follower, Reader, Watch
from processor.decide.renaming import AppliedUpto, applied_nothing
from processor.decide.replays import Replays
from processor.decide.reprocessing import Reprocessing
from processor.decide.rereads import Republish, Rereads
from processor.decide.reversals import Reversals, RowsOf
from processor.decide.runs import RUNS_NOTE, Runs, Turn
from processor.decide.settle import Settling
from processor.decide.trying import Trying
from processor.history.watch import Position
from processor.judge.classify import Failure
from processor.rules import StreamRules
from processor.run.execute import Executor, Results
from processor.tell.progress import Progress, Steps

__all__ = ["Batches", "DeadLetters", "Follower", "IndexBehind", "Progress", "Reader", "StreamRules"]

log = logging.getLogger(__name__)

CLOSE_S_MAX = 5.0


class IndexBehind(PayhookError):
    """The index doesn't reflect the last committed row: deciding by it could decide twice."""

    def __init__(self, index_seq: int, journal_seq: int) -> None:
        self.index_seq = index_seq
        self.journal_seq = journal_seq
        super().__init__(f"the index is at seq {index_seq}, the journal at {journal_seq}; restart to let it catch up")


class Batches:
    """The engine of one work stream. Not thread-safe: Spark runs one batch at a time.

    After any error it is of no further use: `release` it, and open another one from the journal.
    ``notes`` are texts that go with each commit, by name (`JournalWriter.commit`). ``downstreams`` tells the status of
    what handlers call. ``rows_of``: committed rows of its journal, ``given_since`` those of commands,
    ``applied_upto`` which of an entity's were applied.
    ``republish``: see `Rereads`. ``selections``: frozen ones by their digest. ``backlog_s``: seconds that what the
    source holds takes before anything that comes now.
    """

    def __init__(
        self,
        rules: StreamRules,
        state: JournalState,
        writer: JournalWriter,
        index: Index,
        bodies: BodyStore,
        followers: Sequence[Follower],
        dead_letters: DeadLetters,
        executor: Executor,
        adapters: Mapping[str, Reader],
        clock: Clock,
        trying: Path,
        *,
        anchors: Anchors | None = None,
        rows_of: RowsOf = lambda seqs: {},
        given_since: GivenSince = lambda since: (),
        applied_upto: AppliedUpto = applied_nothing,
        republish: Republish | None = None,
        on_rows: Callable[[Sequence[JournalRow]], None] = lambda rows: None,
        notes: Callable[[], Mapping[str, str]] = dict,
        downstreams: Callable[[], Mapping[str, Any]] = dict,
        jitter: Callable[[], float] = random.random,
        transactional: Collection[str] = (),
        watch: Watch | None = None,
        selections: ReadSelection = nothing_frozen,
        backlog_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._rules = rules
        self._writer = writer
        self._index = index
        self._bodies = bodies
        self._followers = followers
        self._dead_letters = dead_letters
        self._executor = executor
        self._adapters = adapters
        self._clock = clock
        self._trying = Trying(trying, clock)
        self._anchors = anchors or Unanchored()
        self._rows_of = rows_of
        self._done_alone = DoneAlone(given_since)
        self._applied_upto = applied_upto
        self._republish = republish
        self._on_rows = on_rows
        self._notes = notes
        self._downstreams = downstreams
        self._jitter = jitter
        self._transactional = transactional
        self._watch = watch
        self._state = state
        self._lasts: dict[tuple[str, int], JournalRow] = {}
        self._suspect = self._trying.tried(self.seq)
        self.progress = Progress()
        self._probed: Rank | None = None
        self._become(Blocked.noted(state.notes))
        self._heads = HeadOfLine(index, rules.heads, rules.dead_head, clock)
        left = state.notes.get(RUNS_NOTE, "")
        self._runs = Runs(
            state.lineage, index, clock, selections, lambda: self.progress.seconds + backlog_s(), left, rows_of
        )

    @property
    def marks(self) -> Marks:
        """The next offset of each topic partition."""
        return self._state.marks

    @property
    def seq(self) -> int:
        """The last committed row's."""
        return self._state.next_seq - 1

    @property
    def position(self) -> Position:
        """How far it has decided; may be asked from any thread."""
        state, lasts = self._state, self._lasts
        return Position(state.next_seq - 1, state, lasts)

    @property
    def blocked(self) -> bool:
        """Whether the whole stream is blocked, as far as the last batch could tell."""
        return self._blocked.reason is not None

    @property
    def probe_s(self) -> float:
        """Seconds until the next probe of a blocked stream."""
        return self._blocked.probe_s

    @property
    def refusal(self) -> Refused | None:
        """Why nothing more may be decided: what there is to read is of another history."""
        return None if self._watch is None else self._watch.refusal

    @property
    def heads(self) -> HeadFigures:
        """What waits behind failing events, as of the last look."""
        return self._heads.figures

    def status(self) -> dict[str, Any]:
        """Figures for the status file; counts are of open events, times in seconds."""
        return {
            "epoch": self._state.epoch,
            "seq": self.seq,
            "marks": self.marks,
            "open": self._index.open_count(),
            "dead": self._index.dead_count(),
            "index_memory_bytes": self._index.memory_bytes(),
            "published_upto": self._dead_letters.published_upto,
            "unpublished": self._dead_letters.unacknowledged,
            "unpublished_s": round(self._dead_letters.waiting_s, 1),
            "anchored": self._anchors.anchored_seq,
            "heads": self.heads.status(),
            "downstreams": self._downstreams(),
            "by_range": [] if self._watch is None else list(self._watch.by_range),
            **self.progress.status(),
        }

    def run(self, table: pa.Table) -> None:
        """A batch of Kafka's records (columns as `read_table` takes them) and of what is due."""
        self._poll()
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

    def undecided(self, records: Iterable[KafkaRecord]) -> list[KafkaRecord]:
        """Those of them that are events to be decided yet, in offset order."""
        return self._take(one for one in records if one.topic != self._rules.control_topic)[0]

    def _take(self, records: Iterable[KafkaRecord]) -> tuple[list[KafkaRecord], Marks]:
        return take(records, self.marks, self._transactional)

    def obey(self, records: Iterable[KafkaRecord]) -> bool:
        """Decides the control records among them, and nothing else; returns whether there were any to be decided."""
        self._poll()
        orders, marks = self._take(one for one in records if one.topic == self._rules.control_topic)
        if orders:
            self._decide(orders, marks, [])
        return bool(orders)

    def probe(self, records: Sequence[KafkaRecord] = ()) -> bool:
        """Tries one event of a blocked stream, one that waits or one of ``records``; returns whether a handler saw it.

        A record that is tried takes those before it in its partition with it, and these wait. Where there is nothing to
        be tried the stream isn't blocked any more: the next batch is the probe.

        :param records: as `undecided` gives them
        """
        self._poll()
        found = self._choose(records)
        if found is None:
            self._become(Blocked())
            return False
        self._probed, chosen = found
        if isinstance(chosen, OpenItem):
            return self._decide([], self.marks, [chosen], probe=chosen.row)
        taken, marks = self._take(_upto(chosen.row, records))
        return self._decide(taken, marks, [], probe=chosen.row)

    def tells_more(self, records: Sequence[KafkaRecord]) -> bool:
        """Whether the next probe would try an event that tells more than the last one's: there is no need to wait."""
        found = self._choose(records) if self._probed is not None else None
        return found is not None and self._probed is not None and found[0] < self._probed

    def _choose(self, records: Sequence[KafkaRecord]) -> tuple[Rank, OpenItem | Item] | None:
        now = self._clock.now()
        state = self._state
        arrived = number(records[:LOOKED_AT_MAX], state.next_seq, now, self._rules, state.histories).events
        return choose(self._due(LOOKED_AT_MAX), arrived)

    def _due(self, limit: int) -> list[OpenItem]:
        return self._index.due(self._clock.now(), limit, self._rules.due_bytes_max)

    def close(self) -> None:
        """After the last batch: dead letters and anchors get their time, and the index is free for the next writer."""
        self._dead_letters.close(CLOSE_S_MAX)
        self._anchors.close(CLOSE_S_MAX)
        self._close()

    def release(self) -> None:
        """After a failure: lets go of everything without a wait, for the next writer of this process."""
        self._dead_letters.close(0)
        self._anchors.close(0)
        self._close()

    def _close(self) -> None:
        if self._watch is not None:
            self._watch.close()
        self._index.close()

    def _poll(self) -> None:
        self._dead_letters.poll()
        self._anchors.poll()

    def _decide(
        self,
        records: Sequence[KafkaRecord],
        marks: Marks,
        due: Sequence[OpenItem],
        condemned: Mapping[int, Failure] | None = None,
        probe: JournalRow | None = None,
        turns: Sequence[Turn] = (),
    ) -> bool:
        """Commits a batch; returns whether a handler saw any of it.

        ``probe``: of its entity one event runs, and nothing else does. ``turns``: what runs of selections do.
        """
        if self._index.seq != self.seq:
            raise IndexBehind(self._index.seq, self.seq)
        steps = Steps(self._clock)
        state = self._state
        new = number(records, state.next_seq, self._clock.now(), self._rules, state.histories)
        admission = self._admit(new.events, due, condemned)
        self._reread(admission.poison)
        steps.end("lookup")
        settling = self._handle(admission, probe)
        steps.end("handle")
        every = self._number(admission.settled + settling.decided + new.passed, new.commands, turns)
        if not every:
            return False
        rows, bodies = [item.row for item in every], bodies_of(every)
        self._learn(settling.results)
        committed = self._commit(rows, bodies, marks)
        steps.end("commit")
        self._derive(rows, bodies)
        self._anchors.committed(Head(state.epoch, committed.last_seq, committed.chain))
        steps.end("derive")
        self.progress.done(len(rows), len(records), steps)
        return bool(settling.results.by_item)

    def _admit(
        self, events: Sequence[Item], due: Sequence[OpenItem], condemned: Mapping[int, Failure] | None
    ) -> Admission:
        admission = Admission(self._index, self._adapters, self._clock.now(), self._rules, condemned)
        admission.take_up(due)
        admission.admit(events)
        return admission

    def _reread(self, poison: Sequence[Item]) -> None:
        if poison:
            rules = self._rules
            Rereads(rules.name, rules.mode, self._adapters, self._republish, self._clock.now()).settle(poison)

    def _handle(self, admission: Admission, probe: JournalRow | None) -> Settling:
        groups = admission.groups
        to_run = groups.values() if probe is None else [only_first(groups.get(probe.entity_key or ""))]
        work, early = divide(to_run)
        self._trying.remember(self.seq)
        results = self._executor.run(work, suspect=self._suspect)
        take_early(early, results)
        self.progress.hung_calls, self.progress.waited_s = sum(results.hung.values()), results.waited_s
        crash_point("processor.after_handlers")
        rules, now = self._rules, self._clock.now()
        blocked = self._blocked.reason
        settling = Settling(results, rules.policy, rules.dead_head, now, blocked, self._jitter, self._is_taken)
        settling.settle(groups.values())
        return settling

    def _is_taken(self, fact_key: str) -> bool:
        return self._index.known_fact(fact_key) is not None

    def _number(self, decided: Sequence[Item], commands: Commands, turns: Sequence[Turn]) -> list[Item]:
        now = self._clock.now()
        rules, index, meanwhile = self._rules, self._index, Meanwhile()
        one_person = OnePerson(index, self._adapters, rules.alone, self._done_alone, now)
        desk = CommandDesk(
            rules.name,
            self._state.lineage,
            rules.mode,
            index,
            now,
            Replays(rules.replays, index, self._adapters, self._applied_upto, now, one_person, meanwhile),
            Reversals(index, self._rows_of, now),
            Closings(index, one_person, meanwhile),
            Entries(index),
            Reprocessing(
                rules,
                index,
                self._adapters,
                self._rows_of,
                self._bodies.fetch,
                self._applied_upto,
                now,
                one_person,
                meanwhile,
            ),
            self._runs,
            meanwhile,
            self._state.history(rules.control_topic).of_row(),
        )
        return in_order(decided, commands, desk, self._state.next_seq, turns)

    def _commit(self, rows: Sequence[JournalRow], bodies: Mapping[str, bytes], marks: Marks) -> Committed:
        self._bodies.append(fresh_bodies(rows, bodies))
        crash_point("processor.before_commit")
        looked = {} if self._watch is None else self._watch.notes()
        notes = {**self._notes(), **looked, **self._blocked.note(), **self._runs.notes()}
        committed = self._writer.commit(rows, marks, self._dead_letters.published_upto, notes)
        crash_point("processor.after_commit")
        self._state = replace(self._state, marks=marks, next_seq=committed.last_seq + 1)
        self._lasts = {**self._lasts, **{(row.topic, row.partition): row for row in rows if row.first}}
        self._suspect = False
        return committed

    def _derive(self, rows: Sequence[JournalRow], bodies: Mapping[str, bytes]) -> None:
        self._index.apply(rows, bodies)
        crash_point("processor.after_index")
        for follower in self._followers:
            follower.follow(rows)
        crash_point("processor.after_postings")
        dead = [(row, bodies.get(row.body_sha256 or "", b"")) for row in rows if row.decision is Decision.DEAD]
        self._dead_letters.publish(dead)
        self._dead_letters.passed(self.seq)
        crash_point("processor.after_dlq")
        self._heads.committed(rows)
        self._runs.committed(rows)
        self._on_rows(rows)

    def _learn(self, results: Results) -> None:
        failures = [result for result in results.by_item.values() if isinstance(result, Failure) and result.blocks]
        if failures:
            self._become(self._blocked.after_failures(failures, self._rules.probe_s_max))
            log.warning("the stream is blocked (%s); next probe in %.0f s", failures[0].error_class, self.probe_s)
        elif self.blocked:
            blocked = self._blocked
            for result in results.by_item.values():
                blocked = blocked.after_result(result, results.reports)
            self._become(blocked)

    def _become(self, blocked: Blocked) -> None:
        if blocked.reason is None:
            self._probed = None
        self._blocked = blocked
        self.progress.blocked_reason = blocked.reason


def _upto(row: JournalRow, records: Iterable[KafkaRecord]) -> list[KafkaRecord]:
    """The records of its partition down to a row's own."""
    return [
        one for one in records if (one.topic, one.partition) == (row.topic, row.partition) and one.offset <= row.offset
    ]
