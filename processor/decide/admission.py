"""Steps 2 and 3: which events are new, and which of them may run now, in which order."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from core.decision import Decision, ErrorKind
from core.event import POISON_TYPE
from journal.index import KnownEvent, KnownFact
from journal.index_changes import EMPTY_SHA256, Line
from journal.open_item import OpenItem
from journal.schema import JournalRow
from processor.decide.blocked import is_suspect
from processor.decide.intake import Item
from processor.decide.line_up import LineUp, is_dead, line_up
from processor.decide.own_error import attempt
from processor.decide.verdict import CONFLICT_CLASS, POISON_CLASS, die, die_with, duplicate, ignore, park
from processor.judge.classify import MESSAGE_CHARS_MAX, Failure
from processor.judge.retry import policy_for
from processor.rules import StreamRules
from processor.settings import DeadHead
from providers.reconciled import reader_of

BEHIND = "behind an earlier event of its entity"
BODY_GONE = "its body was removed (retention, or a redaction) while it was taken up again: it stays ignored"


class Lookup(Protocol):
    """What admission asks of the index."""

    def known_event(self, event_key: str) -> KnownEvent | None: ...
    def known_events(self, event_keys: Sequence[str]) -> list[KnownEvent | None]: ...
    def known_fact(self, fact_key: str) -> KnownFact | None: ...
    def known_facts(self, fact_keys: Sequence[str]) -> list[KnownFact | None]: ...
    def known_conflict(self, event_key: str, content_sha256: str) -> bool: ...
    def known_original(self, event_key: str, content_sha256: str) -> bool: ...
    def queue(self, entity_key: str) -> Iterator[OpenItem]: ...
    def died(self, entity_key: str) -> Iterator[int]: ...
    def closed_heads(self, entity_key: str) -> list[tuple[int, int]]: ...
    def line(self, entity_key: str) -> Line | None: ...


class ContentHash(Protocol):
    """An adapter's content hash by an older version of its list of left-out fields."""

    def content_sha256(self, body: bytes, version: int) -> str: ...


@dataclass(slots=True)
class Group:
    """One entity's events that may run in this batch, in Kafka order.

    ``holder`` is the first waiting event that may not: newcomers go behind it. ``beyond``: of those that the batch
    doesn't take, the one to be taken up next. ``died`` is the first event of the entity that died and was passed over.
    """

    items: list[Item] = field(default_factory=list)
    holder: OpenItem | None = None
    beyond: OpenItem | None = None
    died: int | None = None


class Admission:
    """Sorts a batch's events into those that are decided by a look-up and groups that run.

    ``poison`` are those of ``settled`` that were replayed and whose bytes are yet to be read again (`Rereads`).
    """

    def __init__(
        self,
        index: Lookup,
        adapters: Mapping[str, ContentHash],
        now: datetime,
        rules: StreamRules,
        condemned: Mapping[int, Failure] | None = None,
    ) -> None:
        self._index = index
        self._adapters = adapters
        self._now = now
        self._rules = rules
        self._condemned = condemned or {}
        self._die_with_it = rules.dead_head is DeadHead.DIE_WITH_IT
        self._first_is_last = rules.policy.delay_s(1, _no_jitter) is None
        self._seen: dict[str, Item] = {}
        self._events: dict[str, KnownEvent | None] = {}
        self._facts: dict[str, KnownFact | None] = {}
        self._conflicts: set[tuple[str, str]] = set()
        self.groups: dict[str, Group] = {}
        self.settled: list[Item] = []
        self.poison: list[Item] = []

    def take_up(self, due: Sequence[OpenItem]) -> None:
        """Parked, failed and replayed events whose time has come, with what waits behind them. Before any new one.

        All of them together keep to one budget (`StreamRules.due_per_batch_max`, ``due_bytes_max``): what is due, then
        those behind, an equal share for each entity. Of what is left over the next one is woken, by a row of its own.
        """
        by_entity: dict[str, list[OpenItem]] = {}
        for waiting in due:
            by_entity.setdefault(waiting.row.entity_key or "", []).append(waiting)
        rules = self._rules
        records, size = rules.due_per_batch_max - len(due), rules.due_bytes_max - _size(due)
        for at, (entity, its_due) in enumerate(by_entity.items()):
            share = max(0, records) // (len(by_entity) - at)
            line = self._line_up(entity, its_due, share, max(0, size))
            self._take_up(entity, line)
            records -= max(0, line.count - len(its_due))
            size -= max(0, line.size - _size(its_due))

    def _line_up(self, entity: str, due: Sequence[OpenItem], followers: int, bytes_max: int) -> LineUp:
        """An entity's events that are due and as many others of its queue as there is room for."""
        rules, queue = self._rules, self._index.queue(entity)
        drain_max = min(rules.drain_per_entity_max, sum(waiting.row.blocking for waiting in due) + followers)
        bytes_max += _size(due)
        return line_up(queue, due, self._now, drain_max, die_with_it=self._die_with_it, bytes_max=bytes_max)

    def _take_up(self, entity: str, line: LineUp) -> None:
        run = [item for item in map(again, line.run) if not self._is_refused(item)]
        mine = {item.seq for item in run}
        died = next((seq for seq in self._index.died(entity) if seq not in mine), None)
        group = self.groups[entity] = Group(holder=line.holder, beyond=line.beyond, died=died)
        applied, closed = self._index.line(entity), self._index.closed_heads(entity)
        for item, waiting in zip(run, [w for w in line.run if w.row.item_seq in mine], strict=True):
            item.died_before = waiting.died
            item.row.out_of_order |= applied is not None and applied.applied_upto > item.seq
            self._join(group, item)
            item.previous_dead |= any(head < item.seq < closed_at for head, closed_at in closed)
        for item in map(again, line.behind):
            park(item, BEHIND)
            self.settled.append(item)
        for item in map(again, line.doomed):
            if line.holder is not None and not self._is_refused(item):
                self._die_with(item, line.holder)

    def admit(self, items: Sequence[Item]) -> None:
        """New events, in the order of Kafka's offsets."""
        rows = [item.row for item in items]
        events = [row.event_key for row in rows if row.event_key is not None]
        facts = [row.fact_key for row in rows if row.fact_key is not None]
        self._events = dict(zip(events, self._index.known_events(events), strict=True))
        self._facts = dict(zip(facts, self._index.known_facts(facts), strict=True))
        for item in items:
            self._admit(item)

    def _admit(self, item: Item) -> None:
        if item.refused is not None:
            self._die(item, item.refused)
        elif not self._is_known(item):
            self._seen[item.row.event_key or ""] = item
            if item.poison is not None:
                self._die(item, _because(POISON_CLASS, item.poison))
            else:
                self._enqueue(item)

    def _enqueue(self, item: Item) -> None:
        entity = item.row.entity_key or ""
        group = self.groups.get(entity)
        if group is None:
            holder = next(self._index.queue(entity), None)
            group = self.groups[entity] = Group(holder=holder, died=next(self._index.died(entity), None))
        if group.holder is None:
            self._join(group, item)
        elif self._die_with_it and is_dead(group.holder):
            self._die_with(item, group.holder)
        else:
            park(item, BEHIND)
            self.settled.append(item)

    def _join(self, group: Group, item: Item) -> None:
        fact = item.row.fact_key
        if fact is not None:
            item.known_fact = self._facts[fact] if fact in self._facts else self._index.known_fact(fact)
        item.previous_dead = group.died is not None and group.died < item.seq
        item.last_try = self._is_last_try(item.row)
        item.condemned = self._condemned.get(item.seq)
        if item.condemned is not None:
            item.ends_line = self._rules.dead_head is not DeadHead.CONTINUE
            group.died = item.seq if group.died is None else min(group.died, item.seq)
        group.items.append(item)

    def _is_last_try(self, row: JournalRow) -> bool:
        if row.attempt == 0 and row.retry_policy is None:
            return self._first_is_last
        policy = policy_for(row.retry_policy, self._rules.policy)
        return policy.delay_s(row.attempt + 1, _no_jitter) is None

    def _die_with(self, item: Item, holder: OpenItem) -> None:
        die_with(item, holder.row)
        item.row.cause_seq = holder.last_seq
        self.settled.append(item)

    def _is_known(self, item: Item) -> bool:
        key = item.row.event_key or ""
        seen, known = self._seen.get(key), self._events[key]
        if seen is not None:
            held, version = _own_contents(seen.row), seen.row.content_version
        elif known is not None:
            held, version = [known.content8], known.content_version
        else:
            return False
        contents, own = attempt(self._contents, item, version), _own_contents(item.row)
        same = _is_among(contents, held)
        named = [(key, one.hex()) for one in own]
        compared = named if isinstance(contents, Failure) else [(key, one.hex()) for one in contents]
        if same is True or any(self._index.known_original(*one) for one in compared):
            duplicate(item, Decision.DUPLICATE, "an earlier copy holds the event key")
            item.cause = seen
            self.settled.append(item)
        elif any(one in self._conflicts or self._index.known_conflict(*one) for one in named):
            duplicate(item, Decision.DUPLICATE, "a redelivery of other content that is held already, or was purged")
            self.settled.append(item)
        else:
            self._conflicts.update(named)
            self._die(item, _conflict(key, same))
        return True

    def _contents(self, item: Item, version: int | None) -> list[bytes]:
        """By which content hashes it may be known to one who compares by that version."""
        adapter = self._adapters.get(item.row.provider or "")
        if version is None or version == item.row.content_version or adapter is None:
            return _own_contents(item.row)
        return [bytes.fromhex(reader_of(adapter, item.row.event_type or "").content_sha256(item.body, version))]

    def _is_refused(self, item: Item) -> bool:
        """Whether what is taken up is settled before it is handled: nobody but its key's holder may be."""
        key = item.row.event_key
        if not item.body and item.row.body_sha256 not in (None, EMPTY_SHA256):
            ignore(item, BODY_GONE)
            self.settled.append(item)
            return True
        if item.row.event_type == POISON_TYPE and item.body:
            self.poison.append(item)
            self.settled.append(item)
            return True
        if key is None or item.row.event_type == POISON_TYPE:
            text = "it has no identity to be handled under: let the provider send it again"
            self._die(item, _because(POISON_CLASS, text))
            return True
        known = self._index.known_event(key)
        same = known is not None and _is_among(attempt(self._contents, item, known.content_version), [known.content8])
        if same is not True:
            self._die(item, _conflict(key, same))
            return True
        return False

    def _die(self, item: Item, failure: Failure) -> None:
        die(item, failure, blocking=False)
        self.settled.append(item)


def _own_contents(row: JournalRow) -> list[bytes]:
    """The hash of its content, and where that was masked a keyed one of what it was before: two copies that were masked
    by other settings have the second in common. A copy that wasn't masked has no keyed one.
    """
    return [bytes.fromhex(one) for one in (row.content_sha256, row.original_content_sha256) if one is not None]


def _is_among(contents: Sequence[bytes] | Failure, held: Sequence[bytes]) -> bool | Failure:
    """Whether one of the hashes is held; ``held`` may be the beginnings of hashes."""
    if isinstance(contents, Failure):
        return contents
    return any(content[: len(one)] == one for content in contents for one in held)


def _because(error_class: str, message: str) -> Failure:
    return Failure(ErrorKind.NRE, error_class, None, message, stack="")


def _conflict(event_key: str, same: bool | Failure) -> Failure:
    """Why an event dies beside the holder of its key: other content, or content that can't be compared (``same`` is the
    failure then). Like the first the second holds no key: whoever was first does.
    """
    if not isinstance(same, Failure):
        return _because(CONFLICT_CLASS, conflict_text(event_key))
    text = (
        f"{event_key} was received before, and whether this copy says the same can't be told: {same.error_class}: "
        f"{same.message}. Mend that, then compare both bodies: purge this one if they say the same; if they don't, ask "
        "the provider which one holds."
    )
    return replace(same, error_class=CONFLICT_CLASS, error_code=same.error_class, message=text[:MESSAGE_CHARS_MAX])


def conflict_text(event_key: str) -> str:
    return (
        f"{event_key} was received before with other content. Compare both bodies, ask the provider which one "
        "holds: replay it once the other one is purged, or purge this one."
    )


def _size(waiting: Iterable[OpenItem]) -> int:
    """Bytes of their bodies."""
    return sum(len(one.body) for one in waiting)


def _no_jitter() -> float:
    return 0.0


def again(waiting: OpenItem) -> Item:
    """A waiting event as an item of this batch: its identities stay, what was decided last is cleared.

    One that failed before keeps the policy under which it did.
    """
    row = copy.copy(waiting.row)
    row.seq = 0
    row.first = False
    row.due_at = row.reason = row.cause_seq = row.actor = None
    row.retry_policy = row.retry_policy if row.attempt > 0 else None
    row.error_class = row.error_code = row.error_message = row.error_stack = row.error_kind = None
    row.log_lines = row.handler_version = row.postings = row.headers = None
    return Item(row, waiting.body, new=False, suspect=is_suspect(waiting.row))
