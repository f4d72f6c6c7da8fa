"""Judges what an order would do to each of its items. Nothing else says so.

The processor decides by it with its own index; a dry run predicts by it from the dead-letter index and the journal
(`operations.selection.facts`). The prediction comes true or the item is refused: between the two lie only the rows that
were decided meanwhile, and for an item that got one the order is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from core.decision import WITHOUT_EFFECT, Decision
from journal.index import KnownEvent
from journal.index_changes import EMPTY_SHA256, EntityLine
from journal.open_item import OpenItem, is_conflict, is_other_content
from journal.schema import JournalRow
from journal.target import ItemTarget
from operations.command import RELEASE, Command, ReplayMode
from operations.refusals import ItemRefusal, RefusalReason, refuse_restored, worn_out

ENTITY_ITEMS_MAX = 10_000
"""Open items of one entity that are looked through for followers."""


class Lookup(Protocol):
    """Looks up what is known of a stream; `journal.index.Index` and `operations.selection.facts.KnownOpenItems` do."""

    def open_item(self, item_seq: int) -> OpenItem | None: ...
    def queue(self, entity_key: str) -> Iterator[OpenItem]: ...
    def of_entity(self, entity_key: str) -> Iterator[int]: ...
    def line(self, entity_key: str) -> EntityLine | None: ...
    def known_event(self, event_key: str) -> KnownEvent | None: ...
    def reopened_at(self, item_seq: int) -> int | None: ...


@dataclass(frozen=True, slots=True)
class IgnoredEvents:
    """Events that were ignored, or unknown, and that an order names: what is known of them beside the open items.

    ``by_row``: each as it was seen, by the seq of the row that ended it; one whose bytes aren't kept has none.
    ``applied``: by entity, its latest applied event.
    """

    by_row: Mapping[int, OpenItem] = field(default_factory=dict)
    applied: Mapping[str, int] = field(default_factory=dict)


NONE_IGNORED = IgnoredEvents()


class ReplayOrder(Protocol):
    @property
    def targets(self) -> Sequence[ItemTarget]: ...
    @property
    def mode(self) -> ReplayMode: ...
    @property
    def force(self) -> bool: ...


@dataclass(slots=True)
class ChangesSoFar:
    """Decisions of the batch before the order, which the index doesn't know yet.

    ``moved`` are items with a row in it; ``applied`` the highest applied item by entity; ``died`` items by entity;
    ``replayed`` items; ``freed`` event keys whose holder was purged, ``taken`` those that another content took over,
    ``released`` those that nothing holds any more.
    """

    moved: set[int] = field(default_factory=set)
    applied: dict[str, int] = field(default_factory=dict)
    died: dict[str, list[int]] = field(default_factory=dict)
    replayed: set[int] = field(default_factory=set)
    freed: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    released: set[str] = field(default_factory=set)

    def take_back(self, judged: Sequence[JudgedTarget]) -> None:
        for judgement in judged:
            if judgement.refusal is None and judgement.item is not None:
                row = judgement.item.row
                self.moved.discard(row.item_seq)
                self.replayed.discard(row.item_seq)
                if is_other_content(row):
                    self.taken.discard(row.event_key or "")


@dataclass(frozen=True, slots=True)
class JudgedTarget:
    """The judgement on one target. ``refusal``: why nothing would happen to it; None: it would be done.

    ``in_place``: a replay would run before all that came later of its entity; else behind what was applied since.
    """

    target: ItemTarget
    item: OpenItem | None
    refusal: ItemRefusal | None
    in_place: bool = False


def judge_replay(
    order: ReplayOrder,
    index: Lookup,
    replays_max: int,
    meanwhile: ChangesSoFar | None = None,
    ignored: IgnoredEvents = NONE_IGNORED,
) -> list[JudgedTarget]:
    """Predicts a replay's result for each item, in the order in which they would run: heads before their followers.

    :param replays_max: see `DlqSettings`
    :param meanwhile: takes in what is accepted
    :param ignored: those of the targets that aren't open because they were ignored, or unknown
    """
    judge = _ReplayJudge(order, index, replays_max, meanwhile or ChangesSoFar(), ignored)
    targets = sorted(order.targets, key=lambda target: target.item_seq)
    if order.mode is not ReplayMode.WITH_FOLLOWERS:
        return [judge.accept(judge.judge(target)) for target in targets]
    return judge.by_entity(targets)


def judge_closing(
    command: Command, index: Lookup, meanwhile: ChangesSoFar, unknown: IgnoredEvents
) -> list[JudgedTarget]:
    """Predicts the result of a purge, a resolve or a release. Changes nothing of ``meanwhile``.

    :param unknown: those of the targets that aren't open; what nobody knows the meaning of may be closed
    """
    frees = command.action == RELEASE
    targets = sorted(command.targets, key=lambda target: target.item_seq)
    return [_judge_one_closing(target, index, meanwhile, unknown, frees=frees) for target in targets]


def _judge_one_closing(
    target: ItemTarget, index: Lookup, meanwhile: ChangesSoFar, unknown: IgnoredEvents, *, frees: bool
) -> JudgedTarget:
    item = index.open_item(target.item_seq)
    if item is None and (ended := unknown.by_row.get(target.seen_seq)) is not None:
        refusal = _not_ended_as_seen(target, ended.row, index, meanwhile)
        if refusal is None and (frees or ended.row.decision is not Decision.UNKNOWN):
            refusal = ItemRefusal(RefusalReason.NOT_OPEN, target.item_seq)
        return JudgedTarget(target, ended, refusal)
    refusal = _not_as_seen(target, item, meanwhile)
    if refusal is None and item is not None:
        refusal = _not_dead(item.row)
        if refusal is None and frees and (item.row.event_key is None or is_other_content(item.row)):
            refusal = ItemRefusal(RefusalReason.HOLDS_NO_KEY, target.item_seq)
    return JudgedTarget(target, item, refusal)


def dead_head_of(item: OpenItem, index: Lookup, meanwhile: ChangesSoFar) -> int | None:
    for before in index.queue(item.row.entity_key or ""):
        seq = before.row.item_seq
        if seq >= item.row.item_seq:
            return None
        is_left = seq not in meanwhile.moved and seq not in meanwhile.replayed
        if before.row.decision is Decision.DEAD and is_left:
            return seq
    return None


def _not_dead(row: JournalRow) -> ItemRefusal | None:
    if row.decision is Decision.DEAD:
        return None
    return ItemRefusal(RefusalReason.NOT_DEAD, row.item_seq, {"decision": row.decision.value})


def _not_as_seen(target: ItemTarget, item: OpenItem | None, meanwhile: ChangesSoFar) -> ItemRefusal | None:
    number = target.item_seq
    if item is None:
        return ItemRefusal(RefusalReason.NOT_OPEN, number)
    if number in meanwhile.moved or item.last_seq != target.seen_seq:
        return ItemRefusal(RefusalReason.MOVED, number, {"row": target.seen_seq})
    return None if target.is_row(item.row) else refuse_restored(target)


def _not_ended_as_seen(
    target: ItemTarget, row: JournalRow, index: Lookup, meanwhile: ChangesSoFar
) -> ItemRefusal | None:
    number = target.item_seq
    if row.item_seq != number or row.decision not in WITHOUT_EFFECT or row.event_key is None:
        return ItemRefusal(RefusalReason.NOT_OPEN, number)
    if not target.is_row(row):
        return refuse_restored(target)
    if number in meanwhile.moved or index.reopened_at(number) not in (None, target.seen_seq):
        return ItemRefusal(RefusalReason.MOVED, number, {"row": target.seen_seq})
    return None


@dataclass(slots=True)
class _ReplayJudge:
    order: ReplayOrder
    index: Lookup
    replays_max: int
    meanwhile: ChangesSoFar
    ignored: IgnoredEvents

    def by_entity(self, targets: Sequence[ItemTarget]) -> list[JudgedTarget]:
        groups: dict[str, list[ItemTarget]] = {}
        for target in targets:
            item = self.index.open_item(target.item_seq)
            # One that isn't open has no entity to be seen in: it is refused by itself.
            entity = f"={target.item_seq}" if item is None else item.row.entity_key or ""
            groups.setdefault(entity, []).append(target)
        reported = [judgement for entity, group in groups.items() for judgement in self._judge_entity(entity, group)]
        return sorted(reported, key=lambda judgement: judgement.target.item_seq)

    def _judge_entity(self, entity: str, targets: Sequence[ItemTarget]) -> list[JudgedTarget]:
        before = set(self.meanwhile.replayed)
        reported: list[JudgedTarget] = []
        for target in targets:
            reported.append(self.judge(target))
            self.meanwhile.replayed.add(target.item_seq)
        self.meanwhile.replayed = before
        refused = next((judgement.refusal for judgement in reported if judgement.refusal is not None), None)
        because = refused or self._follower_left_out(entity, targets)
        if because is None:
            return [self.accept(judgement) for judgement in reported]
        return [
            JudgedTarget(judgement.target, judgement.item, judgement.refusal or _not_whole(judgement, because))
            for judgement in reported
        ]

    def _follower_left_out(self, entity: str, targets: Sequence[ItemTarget]) -> ItemRefusal | None:
        first, named = targets[0].item_seq, {target.item_seq for target in targets}
        left_out = [seq for seq in self.meanwhile.died.get(entity, ()) if seq > first and seq not in named]
        seqs = list(islice(self.index.of_entity(entity), ENTITY_ITEMS_MAX + 1))
        if len(seqs) > ENTITY_ITEMS_MAX:
            return ItemRefusal(RefusalReason.TOO_MANY, first, {"most": ENTITY_ITEMS_MAX})
        for seq in seqs:
            if seq > first and seq not in named and seq not in self.meanwhile.moved:
                item = self.index.open_item(seq)
                if item is not None and item.row.decision is Decision.DEAD and not is_conflict(item.row):
                    left_out.append(seq)
        return ItemRefusal(RefusalReason.LEFT_OUT, min(left_out)) if left_out else None

    def accept(self, judgement: JudgedTarget) -> JudgedTarget:
        if judgement.refusal is None and judgement.item is not None:
            row = judgement.item.row
            self.meanwhile.moved.add(row.item_seq)
            self.meanwhile.replayed.add(row.item_seq)
            if is_other_content(row):
                self.meanwhile.taken.add(row.event_key or "")
        return judgement

    def judge(self, target: ItemTarget) -> JudgedTarget:
        item = self.index.open_item(target.item_seq)
        if item is None and (closed := self.ignored.by_row.get(target.seen_seq)) is not None:
            return self._judge_ignored(target, closed)
        refusal = _not_as_seen(target, item, self.meanwhile)
        if refusal is not None or item is None:
            return JudgedTarget(target, item, refusal)
        in_place = item.row.blocking or not self._is_passed(item.row)
        return JudgedTarget(target, item, self._find_refusal(item), in_place)

    def _judge_ignored(self, target: ItemTarget, item: OpenItem) -> JudgedTarget:
        """Judges an event that no handler took or knew, as it was seen then. It keeps its place in its entity's order
        as far as that still holds: before all that came later and waits, behind what was applied since."""
        row, number = item.row, target.item_seq
        refusal = _not_ended_as_seen(target, row, self.index, self.meanwhile)
        if refusal is None and row.fact_key is not None and row.decision is Decision.UNKNOWN:
            refusal = ItemRefusal(RefusalReason.UNDOES_NOTHING, number)
        elif refusal is None and not item.body and row.body_sha256 != EMPTY_SHA256:
            refusal = ItemRefusal(RefusalReason.NO_BODY, number)
        entity = row.entity_key or ""
        applied = max(self.ignored.applied.get(entity, 0), self.meanwhile.applied.get(entity, 0))
        return JudgedTarget(target, item, refusal, applied <= number)

    def _find_refusal(self, item: OpenItem) -> ItemRefusal | None:
        row = item.row
        item_seq = row.item_seq
        if (refusal := _not_dead(row)) is not None:
            return refusal
        if is_other_content(row) and (ground := self._key_ground(row.event_key or "")) is not None:
            return ItemRefusal(ground, item_seq)
        return None if self.order.force else worn_out(item_seq, item.replays, self.replays_max)

    def _key_ground(self, event_key: str) -> RefusalReason | None:
        if event_key in self.meanwhile.taken:
            return RefusalReason.KEY_HELD
        known = self.index.known_event(event_key)
        if event_key in self.meanwhile.released or known is None:
            return RefusalReason.KEY_FREED
        return None if event_key in self.meanwhile.freed or known.purged else RefusalReason.KEY_HELD

    def _is_passed(self, row: JournalRow) -> bool:
        entity = row.entity_key or ""
        line = self.index.line(entity)
        applied = max(line.applied_upto if line is not None else 0, self.meanwhile.applied.get(entity, 0))
        return row.out_of_order or applied > row.item_seq


def _not_whole(judgement: JudgedTarget, because: ItemRefusal) -> ItemRefusal:
    return ItemRefusal(RefusalReason.NOT_WHOLE, judgement.target.item_seq, {"because": because.to_json()})
