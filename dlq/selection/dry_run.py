"""A dry run: what a replay would do with each item of a selection, kept so that it can be paged through."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.clock import Clock, from_rfc3339, to_rfc3339
from dlq.acceptance import Meanwhile
from dlq.commands import ReplayMode, Target
from dlq.index import DeadLetterIndex
from dlq.selection import store
from dlq.selection.errors import check_lineage
from dlq.selection.facts import FactFinder
from dlq.selection.file import SelectionFile
from dlq.selection.forecast import RUNS, Asked, Forecast, Verdict, forecast
from dlq.selection.lines import lined_up, looks

ITEMS_PER_LOOK = 100_000
"""One look reads the journal once; a hundred thousand items with their entities take about 200 MB."""


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


class DryRuns:
    """Makes and keeps dry runs of one stream's selections: of each its latest."""

    def __init__(self, file: SelectionFile, board: DeadLetterIndex, finder: FactFinder, clock: Clock) -> None:
        self._file = file
        self._board = board
        self._finder = finder
        self._clock = clock

    def make(self, number: int, asked: Asked) -> DryRun:
        """Looks at every item as it is now; nothing is sent.

        :raises SelectionUnknown: it isn't there
        :raises RunRefused: the journal was restored since it was frozen
        """
        with self._file.reading() as db:
            selection = store.read(db, number)
            targets = store.targets(db, number, 0, selection.count)
        check_lineage(selection, self._finder.lineage())
        upto, meanwhile = self._board.follow().seq, Meanwhile()
        for some in self._looks(targets, asked):
            told = forecast(some, self._finder.facts(some), asked, meanwhile)
            with self._file.writing() as db:
                db.executemany(
                    "UPDATE items SET forecast = ?, forecast_why = ?, followers = ? WHERE number = ? AND item_seq = ?",
                    [(one.verdict.value, one.why, one.followers, number, one.target.item_seq) for one in told],
                )
        with self._file.writing() as db:
            at = to_rfc3339(self._clock.now())
            db.execute("INSERT OR REPLACE INTO dry_runs VALUES (?, ?, ?)", (number, at, upto))
        made = self.kept(number)
        assert made is not None
        return made

    def _looks(self, targets: Sequence[Target], asked: Asked) -> Iterator[Sequence[Target]]:
        """In the order in which a run sends them."""
        if asked.mode is not ReplayMode.WITH_FOLLOWERS:
            yield from (targets[begin : begin + ITEMS_PER_LOOK] for begin in range(0, len(targets), ITEMS_PER_LOOK))
            return
        by_seq = {target.item_seq: target for target in targets}
        entities = {seq: item.entity_key for seq, item in self._board.look_up(by_seq).items()}
        for seqs in looks(lined_up(list(by_seq), entities), ITEMS_PER_LOOK):
            yield [by_seq[seq] for seq in seqs]

    def kept(self, number: int) -> DryRun | None:
        """The latest one; None: none was made.

        :raises SelectionUnknown: there is no such selection
        """
        with self._file.reading() as db:
            store.read(db, number)
            row = db.execute("SELECT made_at, journal_seq FROM dry_runs WHERE number = ?", (number,)).fetchone()
            if row is None:
                return None
            counted = db.execute(
                "SELECT forecast, count(*), sum(followers) FROM items WHERE number = ? AND forecast IS NOT NULL"
                " GROUP BY forecast",
                (number,),
            ).fetchall()
        counts = {Verdict(verdict): count for verdict, count, _ in counted}
        return DryRun(number, from_rfc3339(row[0]), row[1], counts, sum(followers for _, _, followers in counted))

    def page(
        self, number: int, verdicts: Iterable[Verdict] | None = None, after_seq: int = 0, limit: int = 100
    ) -> list[Forecast]:
        """Items behind ``after_seq``, in item order, as the latest dry run has them."""
        wanted = None if verdicts is None else json.dumps([verdict.value for verdict in verdicts])
        with self._file.reading() as db:
            store.read(db, number)
            rows = db.execute(
                "SELECT item_seq, seen_seq, seen_hash, forecast, forecast_why, followers FROM items"
                " WHERE number = ? AND item_seq > ? AND forecast IS NOT NULL"
                " AND (? IS NULL OR forecast IN (SELECT value FROM json_each(?))) ORDER BY item_seq LIMIT ?",
                (number, after_seq, wanted, wanted, limit),
            ).fetchall()
        return [Forecast(Target(*row[:3]), Verdict(row[3]), row[4], row[5]) for row in rows]

    def each(self, number: int) -> Iterator[Forecast]:
        """All of them, page by page."""
        after = 0
        while page := self.page(number, after_seq=after, limit=1_000):
            yield from page
            after = page[-1].target.item_seq
