"""Makes dry runs: what a replay would do with each item of a selection, by the processor's own judge, its adapter and
its handler. The latest are remembered, so that they can be paged through."""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

import numpy as np

from core.clock import Clock
from core.decision import WITHOUT_EFFECT
from dead_letters.dead_letter_index import DeadLetterIndex
from dead_letters.item import ItemEntry, Mark
from journal.open_item import OpenItem, is_conflict, is_other_content
from journal.target import ItemTarget
from operations.acceptance import ChangesSoFar, JudgedTarget, dead_head_of, judge_replay
from operations.command import ReplayMode
from operations.frozen import FrozenSelection, ItemOrder, SelectionFiles
from operations.refusals import ItemRefusal, RefusalReason
from operations.selection.facts import FactFinder, Facts
from operations.selection.model import check_lineage
from operations.selection.rehearsal import ASK_S_MAX, Expected, ExpectedAnswer, OpenRehearsal, ask_events

ITEMS_PER_LOOK = 100_000
"""One look reads the journal once; a hundred thousand items with their entities take about 200 MB."""

KEPT_MAX = 3
"""Dry runs that are remembered; a page of another one is of a new one."""


class Verdict(StrEnum):
    IN_PLACE = "in_place"
    """It runs before every later event of its entity."""
    BEHIND = "behind"
    """A later event was applied: it runs after that."""
    POISON = "poison"
    """Its bytes are read again, by the adapter as it is now."""
    HELD = "held"
    """Another dead event of its entity stands before it and isn't replayed with it."""
    MOVED = "moved"
    """It has another row than when it was frozen: refused."""
    DONE = "done"
    """It ended since it was frozen: nothing is to be done."""
    CONFLICT = "conflict"
    """Its key is held with other content: refused. Or its fact is: it would die again."""
    NO_BODY = "no_body"
    """Its bytes aren't kept any more: it can't run."""
    LOOP = "loop"
    """It was replayed in vain too often: refused, unless forced."""
    REFUSED = "refused"
    """The asked mode isn't for it."""
    DIES = "dies"
    """It would run and die again: its handler raises, or its adapter can't read it."""
    IGNORED = "ignored"
    """It would run, and its handler takes no notice of it."""
    UNKNOWN = "unknown"
    """It would run, and its handler doesn't know it."""


RUNS = frozenset({Verdict.IN_PLACE, Verdict.BEHIND, Verdict.POISON})
_REFUSED = {
    RefusalReason.NOT_OPEN: Verdict.DONE,
    RefusalReason.MOVED: Verdict.MOVED,
    RefusalReason.RESTORED: Verdict.MOVED,
    RefusalReason.NOT_DEAD: Verdict.REFUSED,
    RefusalReason.NO_BODY: Verdict.NO_BODY,
    RefusalReason.KEY_HELD: Verdict.CONFLICT,
    RefusalReason.WORN_OUT: Verdict.LOOP,
    RefusalReason.NOT_WHOLE: Verdict.REFUSED,
}
_VERDICTS = tuple(Verdict)
_EXPECTED = {
    Expected.DIES: Verdict.DIES,
    Expected.IGNORED: Verdict.IGNORED,
    Expected.UNKNOWN: Verdict.UNKNOWN,
}
"""Verdicts that replace one that an event runs."""
IN_PLACE_TEXT = "before every later event of its entity"


@dataclass(frozen=True, slots=True)
class ForecastRequest:
    """The replay that a dry run predicts. ``dead_head``: what followers of a dead event do in this stream, `continue`
    or `wait`. ``replays_max``: as of `DlqSettings`."""

    mode: ReplayMode = ReplayMode.ALONE
    dead_head: str = "wait"
    force: bool = False
    replays_max: int = 5


@dataclass(frozen=True, slots=True)
class ItemForecast:
    target: ItemTarget
    verdict: Verdict
    why: str
    followers: int


@dataclass(frozen=True, slots=True)
class _ForecastOrder:
    targets: Sequence[ItemTarget]
    mode: ReplayMode
    force: bool


def forecast_items(
    targets: Sequence[ItemTarget], facts: Facts, asked: ForecastRequest, meanwhile: ChangesSoFar
) -> list[ItemForecast]:
    """Predicts the processor's decision on each item, in their order, if this were one command.

    ``meanwhile``: what commands before it would have been accepted for; takes in what this one would be.
    """
    order = _ForecastOrder(targets, asked.mode, asked.force)
    judged = {
        judgement.target: judgement
        for judgement in judge_replay(order, facts.known, asked.replays_max, meanwhile, facts.ignored)
    }
    return [_forecast_item(judged[target], facts, asked, meanwhile) for target in targets]


def _forecast_item(
    judgement: JudgedTarget, facts: Facts, asked: ForecastRequest, meanwhile: ChangesSoFar
) -> ItemForecast:
    entry = facts.entries.get(judgement.target.item_seq)
    if judgement.item is not None and judgement.item.row.decision in WITHOUT_EFFECT:
        return ItemForecast(judgement.target, *_explain_ignored(judgement, facts), 0)
    if judgement.refusal is not None or judgement.item is None or entry is None:
        return ItemForecast(judgement.target, *_explain_refused(judgement, entry), 0)
    verdict, why = _explain_accepted(judgement, judgement.item, entry, facts, asked, meanwhile)
    return ItemForecast(
        judgement.target, verdict, why, facts.known.count_followers(judgement.item) if verdict in RUNS else 0
    )


def _explain_refused(judgement: JudgedTarget, entry: ItemEntry | None) -> tuple[Verdict, str]:
    refusal = judgement.refusal or ItemRefusal(RefusalReason.NOT_OPEN, judgement.target.item_seq)
    if entry is None:
        return Verdict.DONE, "it is no longer open"
    if refusal.ground is RefusalReason.NOT_OPEN:
        return Verdict.DONE, f"{entry.decision} since (row {entry.seen_seq})"
    if refusal.ground is RefusalReason.MOVED:
        seen = judgement.target.seen_seq
        return Verdict.MOVED, f"{entry.decision} in row {entry.seen_seq}, frozen at row {seen}: select again"
    return _REFUSED[refusal.ground], refusal.why_refused


def _explain_ignored(judgement: JudgedTarget, facts: Facts) -> tuple[Verdict, str]:
    if judgement.refusal is not None:
        return _REFUSED[judgement.refusal.ground], judgement.refusal.why_refused
    if judgement.in_place or judgement.item is None:
        return Verdict.IN_PLACE, IN_PLACE_TEXT
    return (
        Verdict.BEHIND,
        f"a later event was applied: it runs after item {facts.ignored.applied[judgement.item.row.entity_key or '']}",
    )


def _explain_accepted(
    judgement: JudgedTarget,
    item: OpenItem,
    entry: ItemEntry,
    facts: Facts,
    asked: ForecastRequest,
    meanwhile: ChangesSoFar,
) -> tuple[Verdict, str]:
    if not facts.has_body(entry):
        return (
            Verdict.NO_BODY,
            f"body {entry.body_sha256} is gone: restore it from a backup, or resolve or discard the event",
        )
    if is_conflict(item.row) and not is_other_content(item.row):
        return Verdict.CONFLICT, "its fact was applied with other content: it would die again"
    head = dead_head_of(item, facts.known, meanwhile) if asked.dead_head == "wait" else None
    if head is not None:
        return (
            Verdict.HELD,
            f"item {head} of its entity is dead before it: it would wait until that one is replayed or closed",
        )
    if entry.mark == Mark.POISON:
        return Verdict.POISON, "its bytes are parsed again, and it runs last of the entity that they name"
    if judgement.in_place:
        return Verdict.IN_PLACE, IN_PLACE_TEXT
    applied = facts.known.line(entry.entity_key or "").applied_upto
    return Verdict.BEHIND, f"a later event was applied: it runs after item {applied}"


@dataclass(frozen=True, slots=True)
class DryRun:
    """The result of a dry run, as of row ``journal_seq``. ``counts``: items by verdict; ``followers`` run after them.

    ``applied``: items of which the handler says so. ``unasked``: items that would run, of which nobody says what comes;
    ``limits``: why.
    """

    number: int
    made_at: datetime
    journal_seq: int
    counts: Mapping[Verdict, int]
    followers: int
    applied: int = 0
    limits: str = ""

    @property
    def runnable_count(self) -> int:
        return sum(self.counts.get(verdict, 0) for verdict in RUNS)

    @property
    def unasked(self) -> int:
        return self.runnable_count - self.applied


@dataclass(slots=True)
class _Reported:
    frozen: FrozenSelection
    verdicts: np.ndarray
    followers: array[int]
    whys: list[str]
    texts: dict[str, str] = field(default_factory=dict)
    made: DryRun | None = None

    def take_forecast(self, place: int, item_forecast: ItemForecast) -> None:
        self.verdicts[place] = _VERDICTS.index(item_forecast.verdict)
        self.followers[place] = item_forecast.followers
        self.whys[place] = self.texts.setdefault(item_forecast.why, item_forecast.why)

    def find_runnable(self) -> list[int]:
        places: list[int] = np.flatnonzero(
            np.isin(self.verdicts, [_VERDICTS.index(verdict) for verdict in RUNS])
        ).tolist()
        return places

    def take_answer(self, place: int, answer: ExpectedAnswer) -> None:
        if answer.expected is Expected.APPLIED:
            why = f"{self.whys[place]}; {answer.why or 'it would be applied'}"
        else:
            self.verdicts[place], self.followers[place] = _VERDICTS.index(_EXPECTED[answer.expected]), 0
            why = answer.why
        self.whys[place] = self.texts.setdefault(why, why)

    def list_forecasts(self, places: Sequence[int]) -> list[ItemForecast]:
        return [
            ItemForecast(target, _VERDICTS[self.verdicts[place]], self.whys[place], self.followers[place])
            for place, target in zip(places, self.frozen.pick_targets(places), strict=True)
        ]


class DryRuns:
    """Makes dry runs of one stream's selections, and remembers the latest. Threads may share it."""

    def __init__(
        self,
        files: SelectionFiles,
        index: DeadLetterIndex,
        finder: FactFinder,
        clock: Clock,
        rehearsal: OpenRehearsal | None = None,
    ) -> None:
        self._files = files
        self._index = index
        self._finder = finder
        self._clock = clock
        self._rehearsal = rehearsal
        self._kept: OrderedDict[int, _Reported] = OrderedDict()

    def make(self, number: int, asked: ForecastRequest) -> DryRun:
        """Looks at every item as it is now; nothing is sent.

        :raises SelectionUnknown: it isn't there
        :raises RunRefused: the journal was restored since it was frozen
        """
        selection = self._files.get(number)
        check_lineage(selection, self._finder.lineage())
        frozen, upto, meanwhile = self._files.read(selection.digest), self._index.follow().seq, ChangesSoFar()
        count = selection.count
        reported = _Reported(frozen, np.zeros(count, "u1"), array("l", bytes(8 * count)), [""] * count)
        turns, begin = ItemOrder(frozen, asked.mode), 0
        while begin < count:
            end = turns.end(begin, ITEMS_PER_LOOK)
            targets = turns.pick_targets(begin, end)
            looked = forecast_items(targets, self._finder.gather_facts(targets), asked, meanwhile)
            for place, item_forecast in zip(turns.places[begin:end].tolist(), looked, strict=True):
                reported.take_forecast(place, item_forecast)
            begin = end
        applied, limits = self._ask(reported)
        counts = {_VERDICTS[verdict]: n for verdict, n in sorted(Counter(reported.verdicts.tolist()).items())}
        reported.made = DryRun(number, self._clock.now(), upto, counts, sum(reported.followers), applied, limits)
        self._kept.pop(number, None)
        self._kept[number] = reported
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return reported.made

    def _ask(self, reported: _Reported) -> tuple[int, str]:
        places = reported.find_runnable()
        if self._rehearsal is None or not places:
            return 0, ""
        by_seq = {
            target.seen_seq: place for place, target in zip(places, reported.frozen.pick_targets(places), strict=True)
        }
        asked = ask_events(self._rehearsal, self._finder.events, list(by_seq), ASK_S_MAX)
        for seq, answer in asked.answers.items():
            reported.take_answer(by_seq[seq], answer)
        applied = sum(answer.expected is Expected.APPLIED for answer in asked.answers.values())
        return applied, "; ".join(text for text in (asked.left_out, asked.problem) if text)

    def find_latest(self, number: int) -> DryRun | None:
        self._files.get(number)
        reported = self._kept.get(number)
        return None if reported is None else reported.made

    def page(
        self, number: int, verdicts: Iterable[Verdict] | None = None, after_seq: int = 0, limit: int = 100
    ) -> list[ItemForecast]:
        reported = self._kept.get(number)
        if reported is None:
            return []
        wanted = [_VERDICTS.index(verdict) for verdict in (_VERDICTS if verdicts is None else verdicts)]
        begin = int(np.searchsorted(reported.frozen.item_seqs, after_seq, "right"))
        places = begin + np.flatnonzero(np.isin(reported.verdicts[begin:], wanted))[:limit]
        return reported.list_forecasts(places.tolist())

    def iterate_forecasts(self, number: int) -> Iterator[ItemForecast]:
        after = 0
        while page := self.page(number, after_seq=after, limit=1_000):
            yield from page
            after = page[-1].target.item_seq
