"""Joins several journals' lists of dead items: each item is in one of the lists (`dead_letters.follow`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Any, TypeVar

from dead_letters.dead_letter_index import PAGE_SIZE, DeadLetterIndex
from dead_letters.item import Item
from dead_letters.listing import Filter, FilterInvalid, Sort, cursor_after, place_of
from dead_letters.rates import sum_rates
from dead_letters.stats import GROUPS_MAX, LISTED_MAX, PROVIDERS_MAX, Count, Group, Hour, Stats

STREAM_MARK = ":"
"""Between a journal's stream and an item's number: ``ledger.1:42``."""


def name_in(stream: str, item_seq: int) -> str:
    return f"{stream}{STREAM_MARK}{item_seq}"


@dataclass(frozen=True, slots=True)
class JoinedItem(Item):
    stream: str

    @property
    def name(self) -> str:
        return name_in(self.stream, self.item_seq)


@dataclass(frozen=True, slots=True)
class JoinedGroup(Group):
    stream: str

    @property
    def sample_name(self) -> str:
        return name_in(self.stream, self.sample)


@dataclass(frozen=True, slots=True)
class JoinedPage:
    """A page of all lists, as `dead_letters.listing.Page`. ``seqs``: by stream, the row up to which its list goes."""

    items: tuple[JoinedItem, ...]
    next: str | None
    total: int
    seqs: Mapping[str, int]


class JoinedIndex:
    """The indexes of a stream's journals, by stream, in their order. It answers as one `DeadLetterIndex` does."""

    def __init__(self, indexes: Mapping[str, DeadLetterIndex]) -> None:
        self._indexes = indexes

    def page(
        self, wanted: Filter, cursor: str | None = None, limit: int = PAGE_SIZE, sort: Sort = Sort.OLDEST
    ) -> JoinedPage:
        """Lists some items in their order. A cursor is the indexes' own, one after the other.

        :raises FilterInvalid: cursor or limit can't be one
        """
        cursors = self._split_cursor(cursor)
        pages = {name: index.page(wanted, cursors[name], limit, sort) for name, index in self._indexes.items()}
        lists = [[(place_of(item, sort), name, item) for item in page.items] for name, page in pages.items()]
        first_items = list(islice(merge(*lists, key=lambda entry: entry[0]), limit))
        taken = Counter(name for _, name, _ in first_items)
        is_more = any(page.next is not None or len(page.items) > taken[name] for name, page in pages.items())
        after = cursors | {name: cursor_after(item, sort) for _, name, item in first_items}
        return JoinedPage(
            tuple(_copy_as(JoinedItem, item, name) for _, name, item in first_items),
            CURSORS_MARK.join(part or "" for part in after.values()) if is_more else None,
            sum(page.total for page in pages.values()),
            {name: page.seq for name, page in pages.items()},
        )

    def stats(self, wanted: Filter | None = None) -> Stats:
        """Sums the indexes' statistics. ``seq`` is the sum of all; for ``by_*`` each index names its largest."""
        every = [index.stats(wanted) for index in self._indexes.values()]
        sums: dict[str, Any] = {name: sum(getattr(stats, name) for stats in every) for name in _SUMMED}
        listed: dict[str, Any] = {name: _sum_counts(getattr(stats, name) for stats in every) for name in _LISTED}
        return Stats(
            at=every[0].at,
            oldest=_find_earliest(stats.oldest for stats in every),
            next_over_24h=_find_earliest(stats.next_over_24h for stats in every),
            hours=_sum_hours(every),
            rates=sum_rates([stats.rates for stats in every], sums["open"]),
            age_h_max=every[0].age_h_max,
            escalate_h=every[0].escalate_h,
            **sums,
            **listed,
        )

    def amounts(self) -> dict[str, int]:
        amounts = Counter[str]()
        for index in self._indexes.values():
            amounts.update(index.amounts())
        return dict(sorted(amounts.items()))

    def groups(self, wanted: Filter | None = None, limit: int = GROUPS_MAX) -> list[JoinedGroup]:
        groups: dict[str, JoinedGroup] = {}
        for name, index in self._indexes.items():
            for group in index.groups(wanted):
                joined, key = _copy_as(JoinedGroup, group, name), group.fingerprint or ""
                groups[key] = joined if key not in groups else _join_groups(groups[key], joined)
        return sorted(groups.values(), key=lambda group: (-group.count, group.fingerprint or ""))[:limit]

    def _split_cursor(self, cursor: str | None) -> dict[str, str | None]:
        if cursor is None:
            return dict.fromkeys(self._indexes)
        parts = cursor.split(CURSORS_MARK)
        if len(parts) != len(self._indexes):
            raise FilterInvalid("cursor", "it isn't from this list; start at its first page")
        return {name: part or None for name, part in zip(self._indexes, parts, strict=True)}


_SUMMED = ("seq", "open", "waiting", "over_24h", "over_48h")
_LISTED = ("by_kind", "by_class", "by_provider", "by_type")

CURSORS_MARK = ","
"""Between the indexes' cursors; one that is empty stands for an index's first page."""

Named = TypeVar("Named", JoinedItem, JoinedGroup)


def _copy_as(kind: type[Named], of: Item | Group, stream: str) -> Named:
    return kind(**{field.name: getattr(of, field.name) for field in fields(of)}, stream=stream)


def _find_earliest(moments: Iterable[datetime | None]) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


def _sum_counts(lists: Iterable[Sequence[Count]]) -> tuple[Count, ...]:
    sums: Counter[str | None] = Counter()
    for counts in lists:
        sums.update({count.value: count.items for count in counts})
    ordered = sorted(sums.items(), key=lambda pair: (-pair[1], pair[0] or ""))
    return tuple(Count(value, items) for value, items in ordered[:LISTED_MAX])


def _sum_hours(every: Sequence[Stats]) -> tuple[Hour, ...]:
    """Sums the hours of the first index: another one may have begun when the next index was asked."""
    died, closed = Counter[datetime](), Counter[datetime]()
    for hour in (hour for stats in every for hour in stats.hours):
        died[hour.at] += hour.died
        closed[hour.at] += hour.closed
    return tuple(Hour(hour.at, died[hour.at], closed[hour.at]) for hour in every[0].hours)


def _join_groups(first: JoinedGroup, other: JoinedGroup) -> JoinedGroup:
    newer = max(first, other, key=lambda group: group.newest)
    return replace(
        newer,
        kinds=tuple(sorted({*first.kinds, *other.kinds})),
        providers=tuple(sorted({*first.providers, *other.providers})[:PROVIDERS_MAX]),
        count=first.count + other.count,
        oldest=min(first.oldest, other.oldest),
    )
