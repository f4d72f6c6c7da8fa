"""A dry run: what a replay would do with each item of a selection, remembered so that it can be paged through."""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from core.clock import Clock
from dlq.acceptance import Meanwhile
from dlq.frozen import Frozen, SelectionFiles, Turns
from dlq.index import DeadLetterIndex
from dlq.selection.facts import FactFinder
from dlq.selection.forecast import RUNS, Asked, Forecast, Verdict, forecast
from dlq.selection.model import check_lineage

ITEMS_PER_LOOK = 100_000
"""One look reads the journal once; a hundred thousand items with their entities take about 200 MB."""

KEPT_MAX = 3
"""Dry runs that are remembered; a page of another one is of a new one."""

_VERDICTS = tuple(Verdict)


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a replay would do, as of row ``journal_seq``. ``counts``: items by verdict; ``followers`` run after them."""

    number: int
    made_at: datetime
    journal_seq: int
    counts: Mapping[Verdict, int]
    followers: int

    @property
    def runs(self) -> int:
        """Items that would run."""
        return sum(self.counts.get(verdict, 0) for verdict in RUNS)


@dataclass(slots=True)
class _Reported:
    """Of each item of a selection, by its place."""

    frozen: Frozen
    verdicts: np.ndarray
    followers: array[int]
    whys: list[str]
    texts: dict[str, str] = field(default_factory=dict)
    made: DryRun | None = None

    def take(self, place: int, one: Forecast) -> None:
        self.verdicts[place] = _VERDICTS.index(one.verdict)
        self.followers[place] = one.followers
        self.whys[place] = self.texts.setdefault(one.why, one.why)

    def at(self, places: Sequence[int]) -> list[Forecast]:
        return [
            Forecast(target, _VERDICTS[self.verdicts[place]], self.whys[place], self.followers[place])
            for place, target in zip(places, self.frozen.targets(places), strict=True)
        ]


class DryRuns:
    """Makes dry runs of one stream's selections, and remembers the latest. Threads may share it."""

    def __init__(self, files: SelectionFiles, board: DeadLetterIndex, finder: FactFinder, clock: Clock) -> None:
        self._files = files
        self._board = board
        self._finder = finder
        self._clock = clock
        self._kept: OrderedDict[int, _Reported] = OrderedDict()

    def make(self, number: int, asked: Asked) -> DryRun:
        """Looks at every item as it is now; nothing is sent.

        :raises SelectionUnknown: it isn't there
        :raises RunRefused: the journal was restored since it was frozen
        """
        selection = self._files.get(number)
        check_lineage(selection, self._finder.lineage())
        frozen, upto, meanwhile = self._files.read(selection.digest), self._board.follow().seq, Meanwhile()
        count = selection.count
        reported = _Reported(frozen, np.zeros(count, "u1"), array("l", bytes(8 * count)), [""] * count)
        turns, begin = Turns(frozen, asked.mode), 0
        while begin < count:
            end = turns.end(begin, ITEMS_PER_LOOK)
            targets = turns.targets(begin, end)
            looked = forecast(targets, self._finder.facts(targets), asked, meanwhile)
            for place, one in zip(turns.places[begin:end].tolist(), looked, strict=True):
                reported.take(place, one)
            begin = end
        counts = {_VERDICTS[verdict]: n for verdict, n in sorted(Counter(reported.verdicts.tolist()).items())}
        reported.made = DryRun(number, self._clock.now(), upto, counts, sum(reported.followers))
        self._kept.pop(number, None)
        self._kept[number] = reported
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return reported.made

    def kept(self, number: int) -> DryRun | None:
        """The latest one; None: none is remembered.

        :raises SelectionUnknown: there is no such selection
        """
        self._files.get(number)
        reported = self._kept.get(number)
        return None if reported is None else reported.made

    def page(
        self, number: int, verdicts: Iterable[Verdict] | None = None, after_seq: int = 0, limit: int = 100
    ) -> list[Forecast]:
        """Items behind ``after_seq``, in item order, as the latest dry run has them."""
        reported = self._kept.get(number)
        if reported is None:
            return []
        wanted = [_VERDICTS.index(verdict) for verdict in (_VERDICTS if verdicts is None else verdicts)]
        begin = int(np.searchsorted(reported.frozen.item_seqs, after_seq, "right"))
        places = begin + np.flatnonzero(np.isin(reported.verdicts[begin:], wanted))[:limit]
        return reported.at(places.tolist())

    def each(self, number: int) -> Iterator[Forecast]:
        """All of them, page by page."""
        after = 0
        while page := self.page(number, after_seq=after, limit=1_000):
            yield from page
            after = page[-1].target.item_seq
