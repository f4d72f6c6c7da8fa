"""Admits a batch's events: says which are new, and which may run now, by what it looks up of keys and entities."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from core.decision import Decision
from core.event import POISON_TYPE
from core.routing import is_foreign
from core.work import PreviousEvent
from journal.index import Index
from journal.index_changes import EMPTY_SHA256
from journal.open_item import OpenItem, as_previous
from journal.schema import JournalRow
from operations.done_alone import DoneAlone
from operations.frozen import ReadSelection, nothing_frozen
from processor.decide.item import (
    POISON_CLASS,
    BatchItem,
    dead_letter_item,
    make_conflict_failure,
    reopen_item,
    settle_item,
)
from processor.decide.line import Line, LineUp, line_up
from processor.errors.classify import Failure, catch_event_error, make_engine_failure
from processor.rules import StreamRules
from providers.port import Adapter
from providers.reconciled import choose_reader

BODY_GONE = "its body was removed (by retention or a redaction) before it was handled again: it stays ignored"


@dataclass(frozen=True, slots=True)
class BatchLookups:
    """All look-ups of deciding. They stand still during a batch: nothing of the batch is in them.

    ``rows_of``: committed rows by their seq; ``bodies_of``: bodies by their hash; what isn't there is left out.
    ``applied_upto``: of each entity the last applied item after the one that is named; none where none was.
    ``backlog_s``: seconds that what the source holds takes before anything that comes now. ``free_claims`` ends the
    receivers' claims on event keys, and returns why it couldn't; then some may be free all the same.
    """

    index: Index
    adapters: Mapping[str, Adapter]
    rows_of: Callable[[Sequence[int]], Mapping[int, JournalRow]] = lambda seqs: {}
    bodies_of: Callable[[Iterable[str]], Mapping[str, bytes]] = lambda hashes: {}
    applied_upto: Callable[[Mapping[str, int]], Mapping[str, int]] = lambda after: {}
    done_alone: DoneAlone = field(default_factory=lambda: DoneAlone(lambda since: ()))
    selections: ReadSelection = nothing_frozen
    backlog_s: Callable[[], float] = lambda: 0.0
    free_claims: Callable[[Sequence[str]], str | None] = lambda event_keys: None


def admit_events(
    known: BatchLookups,
    rules: StreamRules,
    now: datetime,
    due: Sequence[OpenItem],
    arrivals: Sequence[BatchItem],
    condemned: Mapping[int, Failure],
) -> Admission:
    """Sorts a batch's events: what is ``due`` with what waits behind it, then ``arrivals`` in Kafka's order.

    :param condemned: why items are to be dead-lettered without another try
    """
    admission = Admission(known, rules, now, condemned)
    admission.take_up(due)
    admission.admit_arrivals(arrivals)
    return admission


@dataclass(slots=True)
class Admission:
    """A batch's events by entity (``lines``).

    ``settled`` are decided by a look-up; ``poison`` is read again, and its bytes are yet to be read, or another
    program's record is yet to be identified.
    """

    known: BatchLookups
    rules: StreamRules
    now: datetime
    condemned: Mapping[int, Failure]
    lines: dict[str, Line] = field(default_factory=dict)
    settled: list[BatchItem] = field(default_factory=list)
    poison: list[BatchItem] = field(default_factory=list)
    _seen: dict[str, BatchItem] = field(default_factory=dict)
    _conflicts: set[tuple[str, str]] = field(default_factory=set)

    def take_up(self, due: Sequence[OpenItem]) -> None:
        """Takes up parked, failed and replayed events that are due, with what waits behind them, before any new one.

        They share one budget (`StreamRules.due_per_batch_max`, ``due_bytes_max``): first what is due, then the
        followers, in equal shares for each entity. Where the budget ends, the next event is woken by a row of its own.
        """
        by_entity: dict[str, list[OpenItem]] = {}
        for waiting in due:
            by_entity.setdefault(waiting.row.entity_key or "", []).append(waiting)
        rules = self.rules
        records, size = rules.due_per_batch_max - len(due), rules.due_bytes_max - _count_body_bytes(due)
        for at, (entity, its_due) in enumerate(by_entity.items()):
            share = max(0, records) // (len(by_entity) - at)
            line = self._line_up(entity, its_due, share, max(0, size))
            self._take_up(entity, line)
            records -= max(0, line.count - len(its_due))
            size -= max(0, line.size - _count_body_bytes(its_due))

    def _line_up(self, entity: str, due: Sequence[OpenItem], followers: int, bytes_max: int) -> LineUp:
        drain_max = min(self.rules.drain_per_entity_max, sum(waiting.row.blocking for waiting in due) + followers)
        return line_up(
            self.known.index.queue(entity),
            due,
            self.now,
            drain_max,
            bytes_max=bytes_max + _count_body_bytes(due),
        )

    def _take_up(self, entity: str, lineup: LineUp) -> None:
        index = self.known.index
        run = [item for item in map(reopen_item, lineup.run) if not self._is_settled(item)]
        seqs, passed = {item.seq for item in run}, index.line(entity)
        line = self.lines[entity] = Line(
            self.rules,
            lineup.holder,
            lineup.beyond,
            self._find_passed_dead(entity, seqs),
            0 if passed is None else passed.applied_upto,
            index.closed_heads(entity),
        )
        for item in run:
            if item.row.fact_key is not None:
                item.known_fact = index.known_fact(item.row.fact_key)
            item.condemned = self.condemned.get(item.seq)
            line.take_up(item)
        line.park_rest(lineup)

    def _find_passed_dead(self, entity: str, taken_up: Collection[int] = ()) -> tuple[int, PreviousEvent] | None:
        index = self.known.index
        first = next((seq for seq in index.find_died(entity) if seq not in taken_up), None)
        dead = None if first is None else index.open_item(first)
        return None if dead is None else (dead.row.item_seq, as_previous(dead))

    def _is_settled(self, item: BatchItem) -> bool:
        row, key, sha256 = item.row, item.row.event_key, item.row.body_sha256 or EMPTY_SHA256
        if not item.body and sha256 != EMPTY_SHA256:
            item.body = self.known.bodies_of([sha256]).get(sha256, b"")
        if not item.body and sha256 != EMPTY_SHA256:
            settle_item(item, Decision.IGNORED, BODY_GONE)
        elif (row.event_type == POISON_TYPE and item.body) or (key is None and is_foreign(row.provider)):
            self.poison.append(item)
            return True
        elif key is None or row.event_type == POISON_TYPE:
            text = "it has no event key, so it can't be handled: have the provider send it again"
            dead_letter_item(item, make_engine_failure(POISON_CLASS, text), blocking=False)
        else:
            holder = self.known.index.known_event(key)
            same: bool | Failure = False
            if holder is not None:
                same = _is_among(
                    catch_event_error(self._find_content_hashes, item, holder.content_version), [holder.content8]
                )
            if same is True:
                return False
            dead_letter_item(item, make_conflict_failure(key, same), blocking=False)
        self.settled.append(item)
        return True

    def admit_arrivals(self, items: Sequence[BatchItem]) -> None:
        index, rows = self.known.index, [item.row for item in items]
        events = [row.event_key for row in rows if row.event_key is not None]
        facts = [row.fact_key for row in rows if row.fact_key is not None]
        known_events = dict(zip(events, index.known_events(events), strict=True))
        known_facts = dict(zip(facts, index.known_facts(facts), strict=True))
        for item in items:
            row, key = item.row, item.row.event_key
            holder, seen = (None, None) if key is None else (known_events[key], self._seen.get(key))
            if seen is not None:
                self._settle_copy(item, _list_own_hashes(seen.row), seen.row.content_version, seen)
                continue
            if holder is not None:
                self._settle_copy(item, [holder.content8], holder.content_version, None)
                continue
            if key is not None:
                self._seen[key] = item
            if item.refused is not None:
                dead_letter_item(item, item.refused, blocking=False)
                self.settled.append(item)
            else:
                item.known_fact = None if row.fact_key is None else known_facts[row.fact_key]
                self._get_line(row.entity_key or "").add_arrival(item, self.now)

    def _get_line(self, entity: str) -> Line:
        line = self.lines.get(entity)
        if line is None:
            index = self.known.index
            line = self.lines[entity] = Line(
                self.rules, next(index.queue(entity), None), died=self._find_passed_dead(entity)
            )
        return line

    def _settle_copy(
        self, item: BatchItem, held: Sequence[bytes], version: int | None, first: BatchItem | None
    ) -> None:
        key, known = item.row.event_key or "", self.known.index
        contents, own_contents = catch_event_error(self._find_content_hashes, item, version), _list_own_hashes(item.row)
        same = _is_among(contents, held)
        named = [(key, content.hex()) for content in own_contents]
        compared = named if isinstance(contents, Failure) else [(key, content.hex()) for content in contents]
        if same is True or any(known.known_original(*named_content) for named_content in compared):
            settle_item(item, Decision.DUPLICATE, "an earlier copy holds the event key")
            item.cause = first
        elif any(named_content in self._conflicts or known.known_conflict(*named_content) for named_content in named):
            settle_item(item, Decision.DUPLICATE, "a redelivery with other content that is kept already, or was purged")
        else:
            self._conflicts.update(named)
            dead_letter_item(item, make_conflict_failure(key, same), blocking=False)
        self.settled.append(item)

    def _find_content_hashes(self, item: BatchItem, version: int | None) -> list[bytes]:
        row = item.row
        adapter = self.known.adapters.get(row.provider or "")
        if version is None or version == row.content_version or adapter is None:
            return _list_own_hashes(row)
        return [bytes.fromhex(choose_reader(adapter, row.event_type or "").content_sha256(item.body, version))]


def _list_own_hashes(row: JournalRow) -> list[bytes]:
    """Returns the hash of the content, and where that was masked also a keyed hash of the original.

    Copies that were masked under different settings share the second. A copy that wasn't masked has none.
    """
    return [bytes.fromhex(digest) for digest in (row.content_sha256, row.original_content_sha256) if digest is not None]


def _is_among(contents: Sequence[bytes] | Failure, held: Sequence[bytes]) -> bool | Failure:
    """Returns whether one of the hashes is held; ``held`` may be the beginnings of hashes."""
    if isinstance(contents, Failure):
        return contents
    return any(content[: len(digest)] == digest for content in contents for digest in held)


def _count_body_bytes(waiting: Iterable[OpenItem]) -> int:
    return sum(len(item.body) for item in waiting)
