"""Each row of a batch gets its seq; within an entity that is the order in which Kafka held its events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from core.decision import Decision
from core.work import Ignored, WorkItem
from journal.histories import Histories
from journal.schema import JournalRow
from processor.decide.admission import Group
from processor.decide.commands import CommandDesk
from processor.decide.intake import Item, KafkaRecord, new_item, passed_over
from processor.decide.runs import Turn
from processor.decide.verdict import Booked
from processor.rules import StreamRules
from processor.run.execute import Results

Commands = Sequence[tuple[KafkaRecord, int]]
"""Control records, each with its provisional seq."""


@dataclass(slots=True)
class Numbered:
    """A batch's new offsets: events, ``passed`` ones that hold none, and commands."""

    events: list[Item] = field(default_factory=list)
    passed: list[Item] = field(default_factory=list)
    commands: list[tuple[KafkaRecord, int]] = field(default_factory=list)


def number(
    records: Sequence[KafkaRecord], next_seq: int, now: datetime, rules: StreamRules, histories: Histories
) -> Numbered:
    """Every offset gets a number in Kafka's order; it is provisional until all rows are known."""
    numbered = Numbered()
    lives = {topic: history.of_row() for topic, history in histories.items()}
    for seq, record in enumerate(records, next_seq):
        life = lives.get(record.topic)
        if record.until is not None:
            numbered.passed.append(passed_over(record, seq, now, life))
        elif record.topic == rules.control_topic:
            numbered.commands.append((record, seq))
        else:
            numbered.events.append(new_item(record, seq, now, rules.mode, life))
    return numbered


def in_order(
    decided: Sequence[Item], commands: Commands, desk: CommandDesk, next_seq: int, turns: Sequence[Turn] = ()
) -> list[Item]:
    """Every item with a row in this batch, in seq order; the rows get their final seq.

    Events taken up again come first, then the new offsets in Kafka's order, so that an entity's rows
    follow one another as its events do; what commands and runs (``turns``) did to items comes last.
    """
    again = [item for item in decided if not item.new]
    new = [item for item in decided if item.new]
    for item in new:
        _shift(item, len(again))
    if commands or turns:
        desk.saw(decided)
        for record, seq in commands:
            desk.decide(record, seq + len(again))
        desk.carry_on(turns)
        desk.release()
    new = sorted(new + desk.decided, key=lambda item: item.seq)
    every = again + new + desk.rows
    for seq, item in enumerate(every, next_seq):
        item.row.seq = seq
        item.row.decided_at = desk.now
    for item in every:
        if item.cause is not None:
            item.row.cause_seq = item.cause.row.seq
    return every


def bodies_of(every: Sequence[Item]) -> dict[str, bytes]:
    """The batch's bodies by hash."""
    with_one = (item for item in every if item.new or item.body)
    return {item.row.body_sha256: item.body for item in with_one if item.row.body_sha256 is not None}


def fresh_bodies(rows: Sequence[JournalRow], bodies: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    """The bodies that no earlier batch has written: of first rows that aren't another's copy."""
    fresh = {row.body_sha256 for row in rows if row.first and row.decision is not Decision.DUPLICATE}
    return [(sha256, body) for sha256, body in bodies.items() if sha256 in fresh]


def only_first(group: Group | None) -> Group:
    """Of a group the first event that a handler is to see, for a probe."""
    first = next(_to_run(group), None) if group is not None else None
    return Group([] if first is None else [first])


def divide(groups: Iterable[Group]) -> tuple[list[list[WorkItem]], list[tuple[Item, Booked | Ignored]]]:
    """The events that a handler must see, group by group and in order, and those that the map stage answered."""
    work: list[list[WorkItem]] = []
    early: list[tuple[Item, Booked | Ignored]] = []
    for group in groups:
        tasks = []
        for item in _to_run(group):
            answer = answered(item)
            if answer is None:
                tasks.append(_work_item(item))
            else:
                early.append((item, answer))
        if tasks:
            work.append(tasks)
    return work, early


def _work_item(item: Item) -> WorkItem:
    row = item.row
    return WorkItem(
        item_seq=item.seq,
        event_key=row.event_key or "",
        entity_key=row.entity_key or "",
        provider=row.provider or "",
        account=row.account or "",
        event_type=row.event_type or "",
        body=item.body,
        fact_key=row.fact_key,
        attempt=row.attempt,
        tenant=row.tenant,
        previous_dead=item.previous_dead,
        last_try=item.last_try,
        died_before=item.died_before,
        fact_sha256=row.fact_sha256,
    )


def _to_run(group: Group) -> Iterator[Item]:
    """The group's items that a handler is to see, down to the one that ends the line."""
    for item in group.items:
        if item.known_fact is None and item.condemned is None:
            yield item
        if item.ends_line:
            return


def take_early(early: Iterable[tuple[Item, Booked | Ignored]], results: Results) -> None:
    """Adds what the map stage answered to what the batch's own job did."""
    for item, answer in early:
        results.by_item[item.seq] = answer
        if item.early is not None:
            results.handler_version = item.early[0]


def answered(item: Item) -> Booked | Ignored | None:
    """What the map stage answered, if it holds for the event as it stands now."""
    if item.early is None or item.previous_dead or item.died_before:
        return None
    _, postings, reason = item.early
    return Booked(text=postings) if reason is None else Ignored(reason)


def _shift(item: Item, count: int) -> None:
    """Moves a new item's provisional number past the rows of those taken up again."""
    item.row.item_seq += count
