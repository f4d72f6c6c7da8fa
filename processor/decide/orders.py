"""Operators' commands, decided in the same batch and journal as the events that they act on, after those.

Once orders took away what held back an entity, the next one that waits behind it is due at once.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from core.decision import OPEN_DECISIONS, Decision
from core.keys import join_key
from core.record_keys import check_record
from journal.open_item import OpenItem, frees_key, is_conflict, releases_key
from operations.acceptance import ChangesSoFar, JudgedTarget, judge_closing, judge_replay
from operations.command import (
    ENTRY_ACTIONS,
    REPLAY,
    RUN_ACTIONS,
    Command,
    Portion,
)
from operations.commands import decode
from operations.frozen import command_headers, run_entity
from operations.refusals import ItemRefusal, RefusalReason, older_than_restore
from processor.decide.admit import BatchLookups
from processor.decide.arrivals import make_first_row
from processor.decide.item import BatchItem, dead_letter_item, park_item, reopen_item, settle_item
from processor.decide.rereads import Accepted, Rereads, find_ignored_events, rename_accepted
from processor.decide.runs import DECISIONS, RunScheduler, RunShare
from processor.decide.two_people import Entries, OnePerson, Reversals, format_reason
from processor.errors.classify import Failure, catch_event_error
from processor.rules import StreamRules
from processor.source.records import KafkaRecord


@dataclass(slots=True)
class _EntityChanges:
    events: dict[int, BatchItem] = field(default_factory=dict)
    replayed: float = float("inf")


@dataclass(slots=True)
class BatchCommands:
    """Decides the commands of one batch. ``batch``: what the batch decided of events, their item seqs final.

    ``lineage``: the journal's; a command of another one is refused whole. ``history`` is that of the control topic's
    offsets. ``commands`` are the commands' own rows, ``rows`` those of the items that they act on. ``_heads`` are what
    held back an entity and no longer does, by that entity: it was closed, or is of another entity now; ``_gone`` are
    all items that left their entity so.
    """

    known: BatchLookups
    rules: StreamRules
    lineage: str
    history: int | None
    now: datetime
    runs: RunScheduler
    batch: Sequence[BatchItem]
    rereads: Rereads
    commands: list[BatchItem] = field(default_factory=list)
    rows: list[BatchItem] = field(default_factory=list)
    _meanwhile: ChangesSoFar = field(init=False)
    _one_person: OnePerson = field(init=False)
    _reversals: Reversals = field(init=False)
    _entries: Entries = field(init=False)
    _heads: dict[str, BatchItem] = field(default_factory=dict)
    _gone: set[int] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._meanwhile = _collect_meanwhile(self.batch)
        self._one_person = OnePerson(self.known, self.rules.alone, self.now)
        self._reversals = Reversals(self.known)
        self._entries = Entries(self.known.index)

    def decide(self, record: KafkaRecord, seq: int) -> None:
        item = self._make_control_item(record, seq)
        self.commands.append(item)
        command = catch_event_error(self._read_command, record)
        if isinstance(command, Failure):
            dead_letter_item(item, command, blocking=False)
            return
        row = item.row
        row.event_key = join_key("payhook", command.command_id, command.action)
        row.event_type, row.actor, row.occurred_at = command.action, command.actor, command.at
        row.entity_key = join_key("payhook", command.command_id)
        if command.action in RUN_ACTIONS:
            row.entity_key, row.headers = run_entity(command.selection), command_headers(command)
        if row.event_key in self._seen or self.known.index.known_event(row.event_key) is not None:
            settle_item(item, Decision.DUPLICATE, "the command was received before")
            return
        self._seen.add(row.event_key)
        if command.stream != self.rules.name:
            row.decision, row.reason = Decision.IGNORED, f"for the stream {command.stream}"
        elif (why := older_than_restore(command.lineage, self.lineage)) is not None:
            row.decision, row.reason = Decision.IGNORED, why
        else:
            self._carry_out(item, command)

    def _read_command(self, record: KafkaRecord) -> Command:
        if self.rules.record_keys is not None:
            keys = self.rules.record_keys.now
            check_record(keys, record.topic, record.partition, record.key, record.value, record.headers)
        return decode(record.value or b"")

    def run_portions(self, turns: Sequence[RunShare]) -> None:
        self.runs.run_portions(turns, self.now, self._act_on_portion)

    def _act_on_portion(self, control: BatchItem, portion: Portion | None) -> Sequence[BatchItem]:
        self.rows.append(control)
        before = len(self.rows)
        if portion is not None and portion.action == REPLAY:
            self._replay_targets(control, portion, timedelta(microseconds=portion.interval_us))
        elif portion is not None:
            self._close_targets(control, portion)
        return self.rows[before:]

    def wake_followers(self) -> None:
        """Wakes, after the last command, what waited behind an event that was closed or left its entity.

        Only the first event of an entity is woken: the others follow it, in order. One that this batch parked gets a
        new time instead of a second row.
        """
        lines = self._collect_changes()
        for entity, head in self._heads.items():
            waiting = self._find_first_left(entity, lines[entity])
            if waiting is None or lines[entity].replayed < waiting.row.item_seq:
                continue
            if isinstance(waiting, BatchItem):
                waiting.row.due_at = self.now
            else:
                item = reopen_item(waiting)
                elsewhere = f" as an event of {head.row.entity_key}" if head.row.entity_key != entity else ""
                why = f"item {head.seq}, which held it back, was {head.row.decision.value}{elsewhere}"
                park_item(item, why, self.now)
                item.cause = head.cause
                self.rows.append(item)

    def _collect_changes(self) -> dict[str, _EntityChanges]:
        lines = {entity: _EntityChanges() for entity in self._heads}
        if not lines:
            return lines
        for item in self.batch:
            if (line := lines.get(item.row.entity_key or "")) is not None:
                line.events[item.seq] = item
        for item in self.rows:
            line = lines.get(item.row.entity_key or "")
            if line is not None and item.row.decision is Decision.REPLAYED and item.row.blocking:
                line.replayed = min(line.replayed, item.seq)
        return lines

    def _find_first_left(self, entity: str, line: _EntityChanges) -> OpenItem | BatchItem | None:
        waiting = next(self._find_holding_events(entity, line), None)
        if waiting is None or (waiting.row.item_seq in self._meanwhile.moved and not isinstance(waiting, BatchItem)):
            return None
        return waiting if waiting.row.decision is Decision.PARKED and waiting.row.due_at is None else None

    def _find_holding_events(self, entity: str, line: _EntityChanges) -> Iterator[OpenItem | BatchItem]:
        """Returns the events that hold back later ones of the entity after this batch, in Kafka's order.

        The batch's decisions count before the index, which lacks events that held nothing back until now.
        """
        known = self._gone | line.events.keys()
        before = (waiting for waiting in self.known.index.queue(entity) if waiting.row.item_seq not in known)
        now = [item for item in line.events.values() if item.row.blocking and item.row.decision in OPEN_DECISIONS]
        now.sort(key=_item_seq)
        return heapq.merge(before, now, key=_item_seq)

    def _carry_out(self, control: BatchItem, command: Command) -> None:
        action = command.action
        if action == REPLAY:
            self._replay_targets(control, command)
        elif action in RUN_ACTIONS:
            self.runs.decide_command(control, command, self._one_person)
        elif action in ENTRY_ACTIONS:
            self._entries.decide(control, command)
        else:
            self.rows += self._reversals.decide(control, command)

    def _replay_targets(self, control: BatchItem, command: Command, interval: timedelta = timedelta(0)) -> None:
        """Replays the targets; the k-th accepted one, from 0, is due after k intervals."""
        ignored = find_ignored_events(self.known, command.targets, self.rules.control_topic)
        judged = judge_replay(command, self.known.index, self.rules.config.dlq.replays_max, self._meanwhile, ignored)
        accepted = rename_accepted(self.known, _list_accepted(judged), self._meanwhile)
        granted = self._list_granted(control, command, judged, accepted, Decision.REPLAYED)
        if granted is None:
            self._meanwhile.take_back(judged)
            return
        self.rows += [
            self._replay_item(event, control, command, self.now + at * interval) for at, event in enumerate(granted)
        ]

    def _close_targets(self, control: BatchItem, portion: Portion) -> None:
        """Closes each target by itself: one that can't be closed doesn't keep the others open."""
        unknown = find_ignored_events(self.known, portion.targets, self.rules.control_topic)
        judged = judge_closing(portion, self.known.index, self._meanwhile, unknown)
        decision = DECISIONS[portion.action]
        granted = self._list_granted(control, portion, judged, _list_accepted(judged), decision)
        self.rows += [self._close_item(event, control, portion, decision) for event in granted or ()]

    def _list_granted(
        self,
        control: BatchItem,
        command: Command,
        judged: Sequence[JudgedTarget],
        accepted: Sequence[Accepted],
        decision: Decision,
    ) -> Sequence[Accepted] | None:
        """Returns the events to act on now. The command's row says how many, and why not the others.

        None: one person may not do so much alone.
        """
        row = control.row
        control.refusals = [target.refusal for target in judged if target.refusal is not None]
        refused = self._one_person.find_refusal(
            control, command, [(event.item.row, event.item.body) for event in accepted]
        )
        if refused is not None:
            row.decision, row.reason = Decision.IGNORED, format_reason("", [refused])
            alone = {"why": refused}
            control.refusals += [
                ItemRefusal(RefusalReason.SECOND_PERSON, event.item.row.item_seq, alone) for event in accepted
            ]
            return None
        if accepted and (kept := self._prepare_act(accepted, decision)):
            control.refusals, accepted = [*kept, *control.refusals], []
        row.decision = decision if accepted else Decision.IGNORED
        refusals = [refusal.why_refused for refusal in control.refusals]
        row.reason = format_reason(f"{len(accepted)} of {len(command.targets)} accepted", refusals)
        return accepted

    def _prepare_act(self, accepted: Sequence[Accepted], decision: Decision) -> list[ItemRefusal]:
        """Frees the receivers' claims, or publishes what else replayed events tell, before anything is committed.

        What comes of it in between, or twice after a crash, is decided by the journal.

        :returns: a refusal for each event where that can't be done
        """
        rows, problem, reason = [event.item.row for event in accepted], None, RefusalReason.CLAIM_KEPT
        if decision is Decision.RELEASED:
            problem = self.known.free_claims([row.event_key for row in rows if row.event_key is not None])
        elif decision is Decision.REPLAYED:
            reason = RefusalReason.OTHERS_UNPUBLISHED
            problem = self.rereads.publish_others(self.known.index, (event.item for event in accepted), self.now)
        about = {"problem": problem}
        return [] if problem is None else [ItemRefusal(reason, row.item_seq, about) for row in rows]

    def _replay_item(self, event: Accepted, control: BatchItem, command: Command, due_at: datetime) -> BatchItem:
        item = reopen_item(event.item)
        if event.left is not None:
            self._gone.add(item.seq)
            if event.item.row.blocking:
                self._heads[event.left] = item
        row = item.row
        row.decision, row.blocking = Decision.REPLAYED, event.in_place
        row.attempt, row.due_at = 0, due_at
        row.actor, row.reason = command.actor, command.reason
        row.out_of_order |= not event.in_place
        item.cause = control
        self._meanwhile.moved.add(item.seq)
        return item

    def _close_item(self, event: Accepted, control: BatchItem, portion: Portion, decision: Decision) -> BatchItem:
        item, before = reopen_item(event.item), event.item.row
        row = item.row
        row.decision, row.blocking = decision, False
        row.actor, row.reason = portion.actor, portion.reason
        item.cause = control
        self._meanwhile.moved.add(item.seq)
        self._gone.add(item.seq)
        if before.blocking:
            self._heads[row.entity_key or ""] = item
        if row.event_key is not None and frees_key(row, before):
            self._meanwhile.freed.add(row.event_key)
            self._meanwhile.taken.discard(row.event_key)
        if row.event_key is not None and releases_key(row, before):
            self._meanwhile.released.add(row.event_key)
            self._meanwhile.taken.discard(row.event_key)
        return item

    def _make_control_item(self, record: KafkaRecord, seq: int) -> BatchItem:
        value, row = record.value or b"", make_first_row(record, seq, self.now, self.history)
        row.decision, row.provider, row.mode = Decision.IGNORED, "payhook", self.rules.mode
        row.body_sha256 = row.content_sha256 = hashlib.sha256(value).hexdigest()
        row.content_version = 0
        return BatchItem(row, value)


def _item_seq(waiting: OpenItem | BatchItem) -> int:
    return waiting.row.item_seq


def _collect_meanwhile(batch: Iterable[BatchItem]) -> ChangesSoFar:
    meanwhile = ChangesSoFar()
    for item in batch:
        entity = item.row.entity_key or ""
        if not item.is_new:
            meanwhile.moved.add(item.seq)
        if item.row.decision is Decision.APPLIED:
            meanwhile.applied[entity] = max(meanwhile.applied.get(entity, 0), item.seq)
        elif item.row.decision is Decision.DEAD and not is_conflict(item.row):
            meanwhile.died.setdefault(entity, []).append(item.seq)
    return meanwhile


def _list_accepted(judged: Iterable[JudgedTarget]) -> list[Accepted]:
    return [
        Accepted(target.item, target.in_place)
        for target in judged
        if target.refusal is None and target.item is not None
    ]
