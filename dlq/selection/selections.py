"""What operators see of selections: freeze them, list them, and look at what became of their runs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from core.clock import Clock
from core.layout import StreamLayout
from dlq.command import Target
from dlq.frozen import NEWEST, Frozen, Selection, SelectionFiles
from dlq.index import DeadLetterIndex, Filter, ItemState
from dlq.recorder import Recorder
from dlq.run import RunState
from dlq.selection.freeze import filter_text, gather
from dlq.selection.journal import RunItems, RunLog, why_slow
from dlq.selection.model import ItemShown, Kept, Progress, RunItemState, RunKept, RunRefused, SelectionsFull
from journal.reader import JournalReader

ITEMS_MAX = 1_000_000
KEPT_MAX, KEPT_ITEMS_MAX = 500, 5_000_000
"""Selections, and items of all of them: the oldest that nothing is under way of leave for a new one."""

FOLLOWED_MAX = 4
"""Runs whose items are remembered; others are followed from their beginning."""


class Selections:
    """One stream's selections. Its methods block; threads may share it."""

    def __init__(
        self, places: StreamLayout, log: RunLog, index: DeadLetterIndex, clock: Clock, recorder: Recorder
    ) -> None:
        self._index = index
        self._clock = clock
        self._recorder = recorder
        self._status = places.status
        self._lock = threading.Lock()
        self._followed: OrderedDict[str, RunItems] = OrderedDict()
        self.stream = places.stream
        self.log = log
        self.files = SelectionFiles(places.selections)

    def freeze(self, wanted: Filter, actor: str, note: str = "", seen: Sequence[Target] = ()) -> Selection:
        """What is dead and matches now, under a new number: from here on nothing changes it.

        ``seen``: items as the operator saw them. One that has another row by now is frozen as it was seen, so that its
        order is refused.

        :raises SelectionEmpty, SelectionTooLarge: too little or too much matches
        :raises SelectionsFull: there is no room
        """
        wanted = replace(wanted, states=(ItemState.OPEN,))
        text = filter_text(wanted)
        with self._recorder.refusals(actor, "select", f"{self.stream} {text}", note):
            lineage, upto = self.log.lineage(), self._index.follow().seq
            found = gather(self._index.seen(wanted), ITEMS_MAX, {target.item_seq: target for target in seen})
            count, now = found.table.num_rows, self._clock.now()
            leaving = self._leaving(count)
            amounts, unknown = found.amounts, found.unknown
            selection = Selection(self.stream, now, actor, note, text, count, upto, lineage, amounts, unknown)
            made = self.files.put(Frozen(selection, found.table))
            for one in leaving:
                self.files.drop(one)
            after = f"{made.count} items, {text}, digest {made.digest}"
            self._recorder.record(actor, "select", f"{self.stream} {made.name}", reason=note, after=after)
            return made

    def _leaving(self, coming: int) -> list[Selection]:
        """The oldest that nothing is under way of, as many as make room for another one of so many items.

        :raises SelectionsFull: every one that is kept is still under way
        """
        kept = self.kept(limit=KEPT_MAX + 1)
        over = [one.selection for one in kept if one.run is None or one.run.finished_at is not None]
        items = sum(one.selection.count for one in kept)
        leaving: list[Selection] = []
        while len(kept) > len(leaving) and (len(kept) - len(leaving) >= KEPT_MAX or items + coming > KEPT_ITEMS_MAX):
            if not over:
                raise SelectionsFull(len(kept))
            leaving.append(over.pop())
            items -= leaving[-1].count
        return leaving

    def kept(self, before: int = NEWEST, limit: int = 100) -> list[Kept]:
        """The newest with smaller numbers than ``before``."""
        found = self.files.newest(before, limit)
        if found:
            self.log.follow()
        return [Kept(one, self.log.kept(one)) for one in found]

    def proposals(self) -> list[Kept]:
        """What waits for a second person, oldest first."""
        waiting = [one for one in self.kept(limit=KEPT_MAX) if one.run and one.run.state is RunState.PROPOSED]
        return waiting[::-1]

    def get(self, number: int) -> Kept:
        """
        :raises SelectionUnknown: it isn't there
        """
        selection = self.files.get(number)
        self.log.follow()
        return Kept(selection, self.log.kept(selection))

    def begun(self, number: int) -> tuple[Selection, RunKept]:
        """
        :raises SelectionUnknown: it isn't there
        :raises RunRefused: it has no run
        """
        kept = self.get(number)
        if kept.run is None:
            raise RunRefused(number, "nothing was begun with it; `payhook dlq replay`, `purge` or `resolve` does")
        return kept.selection, kept.run

    def items(
        self, number: int, states: Iterable[RunItemState] | None = None, after_place: int = -1, limit: int = 100
    ) -> list[ItemShown]:
        """Items and what became of them, behind ``after_place``.

        :raises SelectionUnknown: it isn't there
        """
        items, reader = self._follow(self.files.get(number))
        with self._lock:
            places = items.places(list(RunItemState if states is None else states))
            return items.shown(places[places > after_place][:limit].tolist(), reader)

    def progress(self, number: int) -> Progress:
        """The run as it stands.

        :raises SelectionUnknown, RunRefused: there is no such run
        """
        selection, run = self.begun(number)
        (items, _), now = self._follow(selection), self._clock.now()
        run = items.reported.kept(number) or run
        with self._lock:
            progress = Progress(selection, run, items.counts(), items.per_s(now), None)
        if progress.finished or run.state not in (RunState.RUNNING, RunState.SENT):
            return progress
        speed = progress.per_s or run.run.per_s
        eta_s = (selection.count - progress.ended) / speed if speed else None
        return replace(progress, run=replace(run, problem=why_slow(self._status, now)), eta_s=eta_s)

    def _follow(self, selection: Selection) -> tuple[RunItems, JournalReader | None]:
        """A selection's items, as a journal has them; None where none was begun."""
        reader = self.log.follow()
        reported = self.log.of(selection.digest)
        with self._lock:
            items = self._followed.pop(selection.digest, None)
            if items is None or items.reported is not reported:
                items = RunItems(self.files.read(selection.digest), reported)
            items.follow(reader)
            self._followed[selection.digest] = items
            while len(self._followed) > FOLLOWED_MAX:
                self._followed.popitem(last=False)
            return items, reader
