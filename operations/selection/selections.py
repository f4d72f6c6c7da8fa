"""Freezes and lists selections, and shows what became of their runs."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import reduce
from itertools import islice
from operator import and_
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.clock import Clock, to_rfc3339
from core.layout import StreamLayout
from core.location import Location
from core.routing import JOURNAL_TOPIC
from core.status_file import StreamStatuses
from dead_letters.dead_letter_index import Amounts, DeadLetterIndex
from dead_letters.item import FrozenItem, ItemState
from dead_letters.listing import ITEMS_MAX as NAMED_MAX
from dead_letters.listing import Filter, FilterInvalid
from journal.journals import is_item_of, shard_at
from journal.lake import has_table, open_table
from journal.reader import JournalReader, read_rows
from journal.target import ItemTarget, hash_head
from operations.frozen import NEWEST, SCHEMA, FrozenSelection, RunState, Selection, SelectionFiles, each_line
from operations.recorder import Recorder
from operations.selection.journal import RunItems, RunLog, why_slow
from operations.selection.model import (
    ItemShown,
    KeptSelection,
    ProgressReport,
    RunItemState,
    RunKept,
    RunRefused,
    SelectionEmpty,
    SelectionsFull,
    SelectionTooLarge,
)

IGNORED_MAX = 100_000
"""Most events of one selection: the body of each is read, for its amount."""

BODIES_AT_ONCE = 2_000
OWN_PROVIDER = "payhook"
"""Commands that were refused are ignored too; what a stream was fed of another one's journal is no command."""

_COLUMNS = ["seq", "item_seq", "row_hash", "entity_key", "partition", "provider", "event_type", "body_sha256"]
_NOT_OF_IGNORED = ("kinds", "classes", "text", "fingerprint", "marks")


class _Row(NamedTuple):
    seq: int
    item_seq: int
    row_hash: str
    entity_key: str | None
    partition: int
    provider: str
    event_type: str
    body_sha256: str | None


class IgnoredEventFinder:
    """Finds ignored or unknown events in one stream's journal. ``bodies``: those of some hashes that are kept."""

    def __init__(
        self, journal: Location, bodies: Callable[[Collection[str]], Mapping[str, bytes]], amounts: Amounts | None
    ) -> None:
        self._journal = str(journal)
        self._bodies = bodies
        self._amounts = amounts

    def find(self, wanted: Filter) -> Iterator[FrozenItem]:
        """Finds the events that match, in item order, one more than `IGNORED_MAX` at most. ``wanted`` has one state:
        ignored, or unknown.

        :raises FilterInvalid: it asks for what only a dead event has
        """
        for name in _NOT_OF_IGNORED:
            if getattr(wanted, name):
                raise FilterInvalid(name, f"an {wanted.states[0].value} event has none; leave it out")
        rows = self._rows(wanted)[: IGNORED_MAX + 1]
        for begin in range(0, len(rows), BODIES_AT_ONCE):
            some = rows[begin : begin + BODIES_AT_ONCE]
            bodies = self._bodies({row.body_sha256 for row in some if row.body_sha256 is not None})
            yield from (self._make_frozen_item(row, bodies.get(row.body_sha256 or "")) for row in some)

    def _rows(self, wanted: Filter) -> list[_Row]:
        if not has_table(self._journal):
            return []
        table, shard = open_table(self._journal), shard_at(self._journal)
        matching = read_rows(table, _build_condition(wanted), ["seq", "item_seq"]).sort_by("item_seq")
        seqs, items = matching["seq"].to_numpy(), matching["item_seq"].to_numpy()
        # An item that was retried has its outcome in its last row.
        later = read_rows(table, ~pc.field("first"), ["seq", "item_seq"])
        later_seqs, later_items = later["seq"].to_numpy(), later["item_seq"].to_numpy()
        ours = np.isin(later_items, items)
        last = dict(zip(items.tolist(), seqs.tolist(), strict=True))
        for item_seq, seq in zip(later_items[ours].tolist(), later_seqs[ours].tolist(), strict=True):
            last[item_seq] = max(seq, last[item_seq])
        kept = [seq for item_seq, seq in zip(items.tolist(), seqs.tolist(), strict=True) if last[item_seq] == seq]
        wanted_seqs = pc.field("seq").isin(pa.array(kept[: IGNORED_MAX + 1], pa.int64()))
        rows = [_Row(**row) for row in read_rows(table, wanted_seqs, _COLUMNS).sort_by("item_seq").to_pylist()]
        return [row for row in rows if is_item_of(shard, row)]

    def _make_frozen_item(self, row: _Row, body: bytes | None) -> FrozenItem:
        money = None
        if body is not None and self._amounts is not None:
            money = self._amounts(row.provider, row.event_type, body)
        amount, currency = (None, None) if money is None else (money.amount_minor, money.currency)
        return FrozenItem(row.item_seq, row.seq, hash_head(row.row_hash), amount, currency, row.entity_key)


def _build_condition(wanted: Filter) -> pc.Expression:
    parts = [
        pc.field("decision") == wanted.states[0].value,
        pc.field("event_key").is_valid(),
        (pc.field("provider") != OWN_PROVIDER) | pc.starts_with(pc.field("topic"), JOURNAL_TOPIC),
    ]
    for column, values in (
        ("provider", wanted.providers),
        ("event_type", wanted.types),
        ("account", wanted.accounts),
        ("tenant", wanted.tenants),
    ):
        if values:
            parts.append(pc.field(column).isin(pa.array(values, pa.string())))
    if wanted.receiver is not None:
        parts.append(pc.ends_with(pc.field("topic"), f"/{wanted.receiver}"))
    if wanted.items:
        parts.append(pc.field("item_seq").isin(pa.array(wanted.items, pa.int64())))
    if wanted.entity is not None:
        parts.append(pc.field("entity_key") == wanted.entity)
    if wanted.since is not None:
        parts.append(pc.field("decided_at") >= pa.scalar(wanted.since, pa.timestamp("us", "UTC")))
    if wanted.until is not None:
        parts.append(pc.field("decided_at") < pa.scalar(wanted.until, pa.timestamp("us", "UTC")))
    return reduce(and_, parts)


ITEMS_MAX = 1_000_000
KEPT_MAX, KEPT_ITEMS_MAX = 500, 5_000_000
"""Selections, and items of all of them: the oldest that nothing is under way of leave for a new one."""

FOLLOWED_MAX = 4
"""Runs whose items are remembered; others are followed from their beginning."""


class Selections:
    """The selections of one stream. Its methods block; threads may share it."""

    def __init__(
        self,
        places: StreamLayout,
        log: RunLog,
        index: DeadLetterIndex,
        clock: Clock,
        recorder: Recorder,
        ignored: IgnoredEventFinder,
        statuses: StreamStatuses,
    ) -> None:
        self._index = index
        self._ignored = ignored
        self._clock = clock
        self._recorder = recorder
        self._statuses = statuses
        self._lock = threading.Lock()
        self._followed: OrderedDict[str, RunItems] = OrderedDict()
        self.stream = places.stream
        self.log = log
        self.files = SelectionFiles(places.selections)

    def freeze(self, wanted: Filter, actor: str, note: str = "", seen: Sequence[ItemTarget] = ()) -> Selection:
        """Freezes matching items under a new number: dead ones, or ignored or unknown ones if the filter says so.

        ``seen``: items as the operator saw them. One that has another row by now is frozen as it was seen, so that its
        order is refused.

        :raises SelectionEmpty, SelectionTooLarge: too little or too much matches
        :raises SelectionsFull: there is no room
        """
        is_ignored = wanted.states in ((ItemState.IGNORED,), (ItemState.UNKNOWN,))
        wanted = wanted if is_ignored else replace(wanted, states=(ItemState.OPEN,))
        text = filter_text(wanted)
        with self._recorder.record_refusals(actor, "select", f"{self.stream} {text}", note):
            lineage, upto = self.log.lineage(), self._index.follow().seq
            matching, items_max = (
                (self._ignored.find(wanted), IGNORED_MAX)
                if is_ignored
                else (self._index.read_frozen_items(wanted), ITEMS_MAX)
            )
            table, amounts, unknown = gather_items(matching, items_max, {target.item_seq: target for target in seen})
            count, now = table.num_rows, self._clock.now()
            leaving = self._find_leaving(count)
            state = wanted.states[0].value
            selection = Selection(self.stream, now, actor, note, text, count, upto, lineage, amounts, unknown, state)
            made = self.files.put(FrozenSelection(selection, table))
            for old_selection in leaving:
                self.files.drop(old_selection)
            after = f"{made.count} items, {text}, digest {made.digest}"
            self._recorder.record(actor, "select", f"{self.stream} {made.name}", reason=note, after=after)
            return made

    def freeze_ignored(self, items: Sequence[int], actor: str, note: str = "") -> list[Selection]:
        """Freezes the items that are ignored still, under as many numbers as their count takes.

        :raises SelectionsFull: there is no room
        """
        frozen = []
        for begin in range(0, len(items), NAMED_MAX):
            some = Filter(states=(ItemState.IGNORED,), items=tuple(items[begin : begin + NAMED_MAX]))
            with contextlib.suppress(SelectionEmpty):
                frozen.append(self.freeze(some, actor, note))
        return frozen

    def _find_leaving(self, coming: int) -> list[Selection]:
        kept = self.list_kept(limit=KEPT_MAX + 1)
        over = [entry.selection for entry in kept if entry.run is None or entry.run.finished_at is not None]
        items = sum(entry.selection.count for entry in kept)
        leaving: list[Selection] = []
        while len(kept) > len(leaving) and (len(kept) - len(leaving) >= KEPT_MAX or items + coming > KEPT_ITEMS_MAX):
            if not over:
                raise SelectionsFull(len(kept))
            leaving.append(over.pop())
            items -= leaving[-1].count
        return leaving

    def list_kept(self, before: int = NEWEST, limit: int = 100) -> list[KeptSelection]:
        selections = self.files.list_newest(before, limit)
        if selections:
            self.log.follow()
        return [KeptSelection(selection, self.log.find_run(selection)) for selection in selections]

    def proposals(self) -> list[KeptSelection]:
        """Lists proposals that wait for a second person, oldest first."""
        waiting = [
            entry for entry in self.list_kept(limit=KEPT_MAX) if entry.run and entry.run.state is RunState.PROPOSED
        ]
        return waiting[::-1]

    def get(self, number: int) -> KeptSelection:
        selection = self.files.get(number)
        self.log.follow()
        return KeptSelection(selection, self.log.find_run(selection))

    def find_begun(self, number: int) -> tuple[Selection, RunKept]:
        kept = self.get(number)
        if kept.run is None:
            raise RunRefused(
                number, "it has no run yet: start one with `payhook dlq replay`, `discard`, `release` or `resolve`"
            )
        return kept.selection, kept.run

    def items(
        self, number: int, states: Iterable[RunItemState] | None = None, after_place: int = -1, limit: int = 100
    ) -> list[ItemShown]:
        items, reader = self._follow(self.files.get(number))
        with self._lock:
            places = items.find_in_states(list(RunItemState if states is None else states))
            return items.show_items(places[places > after_place][:limit].tolist(), reader)

    def progress(self, number: int) -> ProgressReport:
        selection, run = self.find_begun(number)
        (items, _), now = self._follow(selection), self._clock.now()
        run = items.reported.describe_run(number) or run
        with self._lock:
            progress = ProgressReport(selection, run, items.count_states(), items.per_s(now), None)
        if progress.finished or run.state not in (RunState.RUNNING, RunState.SENT):
            return progress
        speed = progress.per_s or run.run.per_s
        eta_s = (selection.count - progress.ended) / speed if speed else None
        problem = why_slow(self._statuses.read_one(self.stream, now), now)
        return replace(progress, run=replace(run, problem=problem), eta_s=eta_s)

    def _follow(self, selection: Selection) -> tuple[RunItems, JournalReader | None]:
        reader = self.log.follow()
        reported = self.log.find_progress(selection.digest)
        with self._lock:
            items = self._followed.pop(selection.digest, None)
            if items is None or items.reported is not reported:
                items = RunItems(self.files.read(selection.digest), reported)
            items.follow(reader)
            self._followed[selection.digest] = items
            while len(self._followed) > FOLLOWED_MAX:
                self._followed.popitem(last=False)
            return items, reader


def gather_items(
    seen: Iterable[FrozenItem], items_max: int, as_seen: Mapping[int, ItemTarget]
) -> tuple[pa.Table, Mapping[str, int], int]:
    """Makes the table of a selection's file of what a filter matched, each item with its last row. Also sums the
    amounts, in minor units by currency, and counts the items that have none.

    ``as_seen``: items as they were shown before. One that has another row by now is refused when it is decided.

    :raises SelectionEmpty: there is nothing
    :raises SelectionTooLarge: there is more than ``items_max``
    """
    every = list(islice(seen, items_max + 1))
    if len(every) > items_max:
        raise SelectionTooLarge(items_max)
    if not every:
        raise SelectionEmpty
    shown = [as_seen.get(item.item_seq, item) for item in every] if as_seen else every
    columns = (
        [item.item_seq for item in every],
        [item.seen_seq for item in shown],
        [int(item.seen_hash, 16) for item in shown],
        list(each_line(item.entity_key for item in every)),
    )
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    amounts: Counter[str] = Counter()
    unknown = 0
    for item in every:
        if item.amount_minor is None or item.currency is None:
            unknown += 1
        else:
            amounts[item.currency] += abs(item.amount_minor)
    return pa.Table.from_arrays(arrays, schema=SCHEMA), dict(amounts), unknown


def filter_text(wanted: Filter) -> str:
    reported = {name: value for name, value in asdict(wanted).items() if value not in (None, ())}
    return json.dumps(reported, default=_to_plain, sort_keys=True)


def _to_plain(value: Any) -> str:
    return to_rfc3339(value) if isinstance(value, datetime) else str(value)
