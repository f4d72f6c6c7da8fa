"""Replays: a person has dead events tried again, under the names that the adapter of now gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from core.decision import Decision
from dlq.acceptance import Judged, Lookup, Meanwhile, ReplayRules, judge_replay
from dlq.commands import Command
from journal.open_item import OpenItem
from processor.decide.admission import again
from processor.decide.intake import Item
from processor.decide.one_person import OnePerson, alone
from processor.decide.renaming import AppliedUpto, passed, renamed_if_readable
from processor.decide.told import told_of


@dataclass(frozen=True, slots=True)
class _Accepted:
    """A target that is replayed, renamed. ``left``: the entity that it was one of and isn't any more."""

    item: OpenItem
    in_place: bool
    left: str | None


@dataclass(slots=True)
class Replays:
    """Decides the replays of one batch.

    An event that is of another entity by its names of now leaves its line. Its place is in the order of its real entity
    as far as that still holds, as for an ignored event that is taken up again. ``heads`` are those that held back the
    entity that they left, by that entity; ``gone`` are the items of all that left one.
    """

    rules: ReplayRules
    index: Lookup
    adapters: Mapping[str, object]
    applied_upto: AppliedUpto
    now: datetime
    one_person: OnePerson
    meanwhile: Meanwhile
    heads: dict[str, Item] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)

    def propose(self, control: Item, command: Command) -> None:
        """Takes a proposal down, or says why nothing could come of it. Nothing is tried."""
        judged = judge_replay(command, self.index, self.rules, self.meanwhile)
        self.meanwhile.take_back(judged)
        possible, row = sum(one.refusal is None for one in judged), control.row
        row.decision = Decision.RESOLVED if possible else Decision.IGNORED
        done = f"{possible} of {len(judged)} proposed to be replayed, nothing is tried yet" if possible else ""
        row.reason = told_of(done, _refusals(judged), command.reason if possible else "")

    def replay(self, control: Item, command: Command) -> list[Item]:
        """What is accepted; the command's row tells how many, and why the others weren't."""
        judged = judge_replay(command, self.index, self.rules, self.meanwhile)
        control.refusals = [one.refusal for one in judged if one.refusal is not None]
        accepted = self._renamed(judged)
        refused = self.one_person.refusal(control, command, [(one.item.row, one.item.body) for one in accepted])
        if refused is not None:
            control.refusals += alone(refused, (one.item for one in accepted))
            self.meanwhile.take_back(judged)
            control.row.decision, control.row.reason = Decision.IGNORED, told_of("", [refused])
            return []
        interval, refusals = timedelta(microseconds=command.interval_us), _refusals(judged)
        control.row.decision = Decision.REPLAYED if accepted else Decision.IGNORED
        control.row.reason = told_of(f"{len(accepted)} of {len(judged)} accepted", refusals)
        return [self._replayed(one, control, command, self.now + at * interval) for at, one in enumerate(accepted)]

    def _renamed(self, judged: Sequence[Judged]) -> list[_Accepted]:
        accepted = [
            self._by_today(one.item, one.in_place) for one in judged if one.refusal is None and one.item is not None
        ]
        moving = [one.item.row for one in accepted if one.left is not None]
        late = passed(moving, self.applied_upto, self.meanwhile) if moving else set()
        return [
            one if one.left is None else replace(one, in_place=one.item.row.item_seq not in late) for one in accepted
        ]

    def _by_today(self, item: OpenItem, in_place: bool) -> _Accepted:
        row = renamed_if_readable(self.adapters, item.row, item.body)
        left = item.row.entity_key if row.entity_key != item.row.entity_key else None
        return _Accepted(replace(item, row=row), in_place, left)

    def _replayed(self, one: _Accepted, control: Item, command: Command, due_at: datetime) -> Item:
        replayed = again(one.item)
        if one.left is not None:
            self.gone.add(replayed.seq)
            if one.item.row.blocking:
                self.heads[one.left] = replayed
        row = replayed.row
        row.decision, row.blocking = Decision.REPLAYED, one.in_place
        row.attempt, row.due_at = 0, due_at
        row.actor, row.reason = command.actor, command.reason
        row.out_of_order |= not one.in_place
        replayed.cause = control
        return replayed


def _refusals(judged: Sequence[Judged]) -> list[str]:
    return [one.refusal.why for one in judged if one.refusal is not None]
