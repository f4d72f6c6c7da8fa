"""Operators' commands, decided in the same batch and journal as the events they act on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from core.decision import Decision
from core.event import Mode
from core.keys import join_key
from dlq.acceptance import Lookup, Meanwhile
from dlq.commands import (
    CLOSING_ACTIONS,
    ENTRY_ACTIONS,
    PROPOSE_REPLAY,
    PROPOSE_REPROCESS,
    PROPOSE_REVERSAL,
    PURGE,
    REPLAY,
    REPROCESS,
    RESOLVE,
    RUN_ACTIONS,
    Command,
    Portion,
    decode,
)
from dlq.refusals import older_than_restore
from dlq.run import command_headers, run_entity
from journal.open_item import is_conflict
from journal.schema import JournalRow
from processor.decide.closings import Closings
from processor.decide.entries import Entries
from processor.decide.intake import Item, KafkaRecord
from processor.decide.own_error import attempt
from processor.decide.release import release
from processor.decide.replays import Replays
from processor.decide.reprocessing import Reprocessing
from processor.decide.reversals import Reversals
from processor.decide.runs import Runs, Turn
from processor.decide.verdict import die, duplicate
from processor.judge.classify import Failure


@dataclass(slots=True)
class CommandDesk:
    """Decides the control records of one batch, after its events (`saw`).

    ``meanwhile`` is what the batch did to items already: a command that was given before is refused for these.
    ``lineage``: the journal's; a command of another one is refused whole. ``history`` is that of the control topic's
    offsets. ``rows`` are the items' rows, ``decided`` the commands' own.
    """

    stream: str
    lineage: str
    mode: Mode
    index: Lookup
    now: datetime
    replays: Replays
    reversals: Reversals
    closings: Closings
    entries: Entries
    reprocessing: Reprocessing
    runs: Runs
    meanwhile: Meanwhile
    history: int | None = None
    decided: list[Item] = field(default_factory=list)
    rows: list[Item] = field(default_factory=list)
    _batch: list[Item] = field(default_factory=list)
    _seen: set[str] = field(default_factory=set)

    def saw(self, decided: Iterable[Item]) -> None:
        """Takes in what this batch decided of its events; their item seqs are final."""
        known = self.meanwhile
        for item in decided:
            self._batch.append(item)
            entity = item.row.entity_key or ""
            if not item.new:
                known.moved.add(item.seq)
            if item.row.decision is Decision.APPLIED:
                known.applied[entity] = max(known.applied.get(entity, 0), item.seq)
            elif item.row.decision is Decision.DEAD and not is_conflict(item.row):
                known.died.setdefault(entity, []).append(item.seq)

    def decide(self, record: KafkaRecord, seq: int) -> None:
        """Gives the control offset its one row, and each accepted target a row that refers to it."""
        item = self._control_item(record, seq)
        self.decided.append(item)
        command = attempt(decode, record.value or b"")
        if isinstance(command, Failure):
            die(item, command, blocking=False)
            return
        row = item.row
        row.event_key = join_key("payhook", command.command_id, command.action)
        row.event_type, row.actor, row.occurred_at = command.action, command.actor, command.at
        row.entity_key = join_key("payhook", command.command_id)
        if command.action in RUN_ACTIONS:
            row.entity_key, row.headers = run_entity(command.selection), command_headers(command)
        if row.event_key in self._seen or self.index.known_event(row.event_key) is not None:
            duplicate(item, Decision.DUPLICATE, "the command was received before")
            return
        self._seen.add(row.event_key)
        if command.stream != self.stream:
            row.decision, row.reason = Decision.IGNORED, f"for the stream {command.stream}"
        elif (why := older_than_restore(command.lineage, self.lineage)) is not None:
            row.decision, row.reason = Decision.IGNORED, why
        else:
            self._act(item, command)

    def carry_on(self, turns: Sequence[Turn]) -> None:
        """After the commands: the portions of runs are judged as they are."""
        self.runs.carry_on(turns, self.now, self._portion)

    def _portion(self, control: Item, portion: Portion | None) -> Sequence[Item]:
        self.rows.append(control)
        before = len(self.rows)
        if portion is not None:
            self._act(control, portion)
        return self.rows[before:]

    def release(self) -> None:
        """After the last command: who waited behind what was closed, or left its entity, goes on."""
        heads = {**self.closings.heads, **self.replays.heads}
        gone = self.closings.closed | self.replays.gone
        dies = self.replays.rules.die_with_it
        self.rows += release(
            heads, gone, self.index, self._batch, self.rows, self.meanwhile, self.now, die_with_it=dies
        )

    def _act(self, item: Item, command: Command) -> None:
        if command.action == REPLAY:
            self.rows += self.replays.replay(item, command)
        elif command.action == PROPOSE_REPLAY:
            self.replays.propose(item, command)
        elif command.action == PROPOSE_REPROCESS:
            self.reprocessing.propose(item, command)
        elif command.action == REPROCESS:
            self.rows += self.reprocessing.take_up(item, command)
        elif command.action in (PURGE, RESOLVE):
            self.rows += self.closings.close(item, command)
        elif command.action in CLOSING_ACTIONS:
            self.closings.propose(item, command)
        elif command.action in RUN_ACTIONS:
            self.runs.order(item, command, self.replays.one_person)
        elif command.action in ENTRY_ACTIONS:
            self.entries.decide(item, command)
        elif command.action == PROPOSE_REVERSAL:
            self.reversals.propose(item, command)
        else:
            self.rows += self.reversals.reverse(item, command)

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
            history=self.history,
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
