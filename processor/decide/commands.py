"""Operators' commands, decided in the same batch and journal as the events they act on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from core.decision import Decision, ErrorKind
from core.event import Mode
from core.keys import join_key
from dlq.commands import PROPOSE_REVERSAL, REPLAY, REVERSE, Command, CommandInvalid, Target, decode
from journal.index import KnownEvent
from journal.index_changes import Line
from journal.open_item import OpenItem
from journal.schema import JournalRow
from processor.decide.admission import again
from processor.decide.intake import Item, KafkaRecord
from processor.decide.reversals import Reversals
from processor.decide.verdict import die, duplicate
from processor.judge.classify import Failure
from processor.settings import DeadHead

REFUSALS_TOLD_MAX = 10


class CommandLookup(Protocol):
    """What deciding a command asks of the index."""

    def known_event(self, event_key: str) -> KnownEvent | None: ...
    def open_item(self, item_seq: int) -> OpenItem | None: ...
    def queue(self, entity_key: str) -> Iterator[OpenItem]: ...
    def line(self, entity_key: str) -> Line | None: ...


@dataclass(slots=True)
class CommandDesk:
    """Decides the control records of one batch, after its events (`saw`).

    ``moved`` are the items that got a row in this batch already: a command that was given before that
    row was seen is refused. ``rows`` are the items' rows, ``decided`` the commands' own.
    """

    stream: str
    mode: Mode
    index: CommandLookup
    now: datetime
    dead_head: DeadHead
    reversals: Reversals
    moved: set[int] = field(default_factory=set)
    decided: list[Item] = field(default_factory=list)
    rows: list[Item] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)
    _applied: dict[str, int] = field(default_factory=dict)
    _replayed: set[int] = field(default_factory=set)

    def saw(self, decided: Iterable[Item]) -> None:
        """Takes in what this batch decided of its events; their item seqs are final."""
        for item in decided:
            if not item.new:
                self.moved.add(item.seq)
            if item.row.decision is Decision.APPLIED:
                entity = item.row.entity_key or ""
                self._applied[entity] = max(self._applied.get(entity, 0), item.seq)

    def decide(self, record: KafkaRecord, seq: int) -> None:
        """Gives the control offset its one row, and each accepted target a row that refers to it."""
        item = self._control_item(record, seq)
        self.decided.append(item)
        try:
            command = decode(record.value or b"")
        except CommandInvalid as invalid:
            failure = Failure(ErrorKind.NRE, CommandInvalid.__name__, None, str(invalid), stack="")
            die(item, failure, blocking=False)
            return
        row = item.row
        row.event_key = join_key("payhook", command.command_id, command.action)
        row.event_type, row.actor, row.occurred_at = command.action, command.actor, command.at
        row.entity_key = join_key("payhook", command.command_id)
        if row.event_key in self._seen or self.index.known_event(row.event_key) is not None:
            duplicate(item, Decision.DUPLICATE, "the command was received before")
            return
        self._seen.add(row.event_key)
        if command.stream != self.stream:
            row.decision, row.reason = Decision.IGNORED, f"for the stream {command.stream}"
        elif command.action == REPLAY:
            self._replay(item, command)
        elif command.action == PROPOSE_REVERSAL:
            self.reversals.propose(item, command)
        elif command.action == REVERSE:
            self.rows += self.reversals.reverse(item, command)
        else:
            row.reason = f"this version decides no {command.action}: upgrade the processor, then order it again"

    def _replay(self, item: Item, command: Command) -> None:
        # Heads come before their followers, however the operator named them.
        targets = sorted(command.targets, key=lambda target: target.item_seq)
        refusals = [refusal for target in targets if (refusal := self._replay_one(item, command, target))]
        accepted = len(command.targets) - len(refusals)
        item.row.decision = Decision.REPLAYED if accepted else Decision.IGNORED
        told = "; ".join(refusals[:REFUSALS_TOLD_MAX])
        item.row.reason = f"{accepted} of {len(command.targets)} accepted" + (f"; refused: {told}" if told else "")

    def _replay_one(self, control: Item, command: Command, target: Target) -> str | None:
        """Replays one item, or says why not."""
        found = self.index.open_item(target.item_seq)
        if found is None:
            return f"item {target.item_seq} is not open"
        if target.item_seq in self.moved or found.last_seq != target.seen_seq:
            return f"item {target.item_seq} has moved on since row {target.seen_seq}; look again"
        if found.row.decision is not Decision.DEAD:
            return f"item {target.item_seq} is {found.row.decision.value}, not dead"
        if (head := self._dead_head_of(found)) is not None:
            return f"item {target.item_seq} would die with item {head}, which is dead before it: replay that one too"
        replayed = again(found)
        replayed.row.blocking = found.row.blocking or (found.died and not self._is_passed(found.row))
        replayed.row.decision = Decision.REPLAYED
        replayed.row.attempt = 0
        replayed.row.due_at = self.now
        replayed.row.cause_seq = control.seq
        replayed.row.actor, replayed.row.reason = command.actor, command.reason
        replayed.row.out_of_order |= not replayed.row.blocking
        self.moved.add(target.item_seq)
        self._replayed.add(target.item_seq)
        self.rows.append(replayed)
        return None

    def _dead_head_of(self, found: OpenItem) -> int | None:
        """The item with which this one would die again."""
        if self.dead_head is not DeadHead.DIE_WITH_IT:
            return None
        for before in self.index.queue(found.row.entity_key or ""):
            if before.row.item_seq >= found.row.item_seq:
                return None
            if before.row.decision is Decision.DEAD and before.row.item_seq not in self._replayed:
                return before.row.item_seq
        return None

    def _is_passed(self, row: JournalRow) -> bool:
        """Whether a later event of its entity was applied since it died: its old place is gone."""
        entity = row.entity_key or ""
        line = self.index.line(entity)
        applied = max(line.applied_upto if line is not None else 0, self._applied.get(entity, 0))
        return row.out_of_order or applied > row.item_seq

    def _control_item(self, record: KafkaRecord, seq: int) -> Item:
        value = record.value or b""
        digest = hashlib.sha256(value).hexdigest()
        row = JournalRow(
            seq=seq,
            item_seq=seq,
            first=True,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            decision=Decision.IGNORED,
            decided_at=self.now,
            provider="payhook",
            received_at=None,
            body_sha256=digest,
            content_sha256=digest,
            content_version=0,
            mode=self.mode,
        )
        return Item(row, value, new=True)
