"""Events that a provider reported twice, or in two ways: evidence that finance can send to it.

Each case is two reports that the journal holds. The first was booked, or holds the event key; the other was set
aside. Amounts come from the reports' own bodies, while those are kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from itertools import groupby
from operator import and_
from typing import Any, Literal, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from core.clock import from_rfc3339
from core.decision import WITHOUT_EFFECT, Decision
from core.errors import Unparseable
from core.money import MoneyFact, MoneyInvalid, MovementUnknown
from journal.bodies import BodyStore
from journal.lake import has_table, open_table
from journal.reader import read_rows, rows_where
from journal.schema import JournalRow, from_arrow
from ledger.queries.journals import LedgerJournals
from providers.reconciled import choose_reader
from providers.reread import MoneyReader

APART_MAX = timedelta(hours=1)
"""Between two reports of one event. The same content a day later is the same state, reported again."""

BODIES_PER_READ = 1_000
_ALIKE = ["provider", "event_type", "entity_key"]
_TIME_SLACK_S = 1.0


def find_repeated_events(
    journal: str, bodies: str, condition: pc.Expression | None, columns: list[str]
) -> list[tuple[JournalRow, JournalRow]]:
    """Finds pairs of rows: the first report, and one under another id. Events whose bodies aren't kept are left out.

    :param condition: which rows are looked at besides
    """
    if not (has_table(journal) and has_table(bodies)):
        return []
    moves_nothing = pc.field("first") & pc.field("fact_key").is_null() & pc.field("event_key").is_valid()
    moves_nothing &= pc.field("decision").isin(pa.array(sorted(WITHOUT_EFFECT), pa.string()))
    moves_nothing &= pc.field("body_sha256").is_valid() & pc.field("entity_key").is_valid()
    table = read_rows(open_table(journal), moves_nothing if condition is None else moves_nothing & condition, columns)
    counts = table.group_by(_ALIKE).aggregate([("seq", "count")])
    several = counts.filter(pc.greater(counts["seq_count"], 1)).select(_ALIKE)
    rows = from_arrow(table.join(several, _ALIKE, join_type="left semi").select(columns))
    rows.sort(key=lambda row: (*_build_group_key(row), row.seq))
    groups = (list(of_object) for _, of_object in groupby(rows, _build_group_key))
    return sorted(_find_pairs(groups, BodyStore(bodies)), key=lambda pair: pair[1].seq)


def _build_group_key(row: JournalRow) -> tuple[str, str, str]:
    return row.provider or "", row.event_type or "", row.entity_key or ""


def _find_pairs(groups: Iterable[list[JournalRow]], bodies: BodyStore) -> Iterator[tuple[JournalRow, JournalRow]]:
    waiting: list[list[JournalRow]] = []
    for group in groups:
        waiting.append(group)
        if sum(map(len, waiting)) >= BODIES_PER_READ:
            yield from _find_pairs_in(waiting, bodies)
            waiting = []
    yield from _find_pairs_in(waiting, bodies)


def _find_pairs_in(groups: list[list[JournalRow]], bodies: BodyStore) -> Iterator[tuple[JournalRow, JournalRow]]:
    kept = bodies.fetch({row.body_sha256 or "" for group in groups for row in group})
    for group in groups:
        firsts: dict[str, JournalRow] = {}
        for row in group:
            content = hash_content(row, kept)
            if content is None:
                continue
            first = firsts.setdefault(content, row)
            if first is not row and _measure_gap(first, row) <= APART_MAX:
                yield first, row
            else:
                firsts[content] = row


def _measure_gap(first: JournalRow, again: JournalRow) -> timedelta:
    times = [row.occurred_at or row.received_at for row in (first, again)]
    return abs(times[1] - times[0]) if times[0] and times[1] else timedelta(0)


def hash_content(row: JournalRow, kept: Mapping[str, bytes]) -> str | None:
    """Hashes a JSON body without the event's id and time; None of a body that isn't kept or isn't JSON."""
    try:
        document = orjson.loads(kept[row.body_sha256 or ""])
    except (KeyError, ValueError):
        return None
    if not isinstance(document, dict):
        return None
    event_id = _find_event_id(row.event_key or "", document)
    if event_id is None:
        return None
    content_fields = {
        name: value for name, value in document.items() if value != event_id and not _is_time(value, row.occurred_at)
    }
    return hashlib.sha256(json.dumps(content_fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _find_event_id(event_key: str, document: Mapping[str, Any]) -> str | None:
    parts = event_key.split(":")
    return next((value for value in document.values() if isinstance(value, str) and value in parts), None)


def _is_time(value: object, occurred_at: datetime | None) -> bool:
    if occurred_at is None or isinstance(value, bool):
        return False
    at_s = occurred_at.timestamp()
    if isinstance(value, (int, float)):
        return any(abs(value / scale - at_s) <= _TIME_SLACK_S for scale in (1, 1_000))
    try:
        return isinstance(value, str) and abs(from_rfc3339(value).timestamp() - at_s) <= _TIME_SLACK_S
    except ValueError:
        return False


Kind: TypeAlias = Literal["fact_repeated", "fact_conflict", "event_conflict", "event_repeated"]

EXPLAINED: Mapping[Kind, str] = {
    "fact_repeated": "one movement of money under several event ids",
    "fact_conflict": "one movement of money under several event ids, with another amount, currency or account",
    "event_conflict": "one event id with other content",
    "event_repeated": "one event without money under several event ids",
}
_FACT_CONFLICT, _EVENT_CONFLICT = "FactConflict", "EventConflict"
_COLUMNS = [
    *("seq", "item_seq", "first", "topic", "partition", "offset", "event_key", "fact_key", "fact_sha256", "provider"),
    *("event_type", "entity_key", "decision", "occurred_at", "received_at", "decided_at", "body_sha256"),
    *("content_sha256", "error_class"),
]


@dataclass(frozen=True, slots=True)
class ReportedDelivery:
    """A delivery of an event. ``seq`` is the journal's; amounts are in minor units, None where the body doesn't say."""

    seq: int
    event_key: str
    event_type: str
    occurred_at: datetime | None
    received_at: datetime | None
    movement: str | None
    amount_minor: int | None
    currency: str | None
    account: str | None
    body_sha256: str | None
    content_sha256: str | None
    fact_sha256: str | None


@dataclass(frozen=True, slots=True)
class ProviderBug:
    """Two reports that should have been one. ``first`` is None where the journal holds no such row.

    ``stream``: whose journal has their rows.
    """

    provider: str
    kind: Kind
    fact_key: str | None
    first: ReportedDelivery | None
    again: ReportedDelivery
    stream: str = ""

    @property
    def seqs_apart(self) -> int | None:
        return None if self.first is None else self.again.seq - self.first.seq


def find_provider_bugs(
    journal: str,
    bodies: str,
    adapters: Mapping[str, MoneyReader],
    *,
    provider: str | None = None,
    since: datetime | None = None,
    stream: str = "",
    own_after: int = 0,
) -> list[ProviderBug]:
    """Finds every case, oldest first; one a delivery, however often it was retried or replayed.

    :param journal: the path of the journal of ``stream``; empty while there is none
    :param own_after: cases up to this row are another journal's (`journal.journals.own_after`)
    :param bodies: the path of the bodies table; not read without ``adapters``
    :param since: only where the second report was received then or later
    :raises JournalBroken: a file of the bodies can't be read
    """
    set_aside = rows_where(journal, _match_set_aside(provider, since), _COLUMNS)
    again = [row for row in _keep_first_rows(set_aside) if row.seq > own_after]
    firsts = _FirstReports(rows_where(journal, _match_first_reports(again), _COLUMNS))
    cases: list[tuple[Kind, JournalRow, JournalRow | None]] = [
        (_classify_row(row), row, firsts.find_first(row)) for row in again
    ]
    repeated = find_repeated_events(journal, bodies, _match_question(provider, since), _COLUMNS) if adapters else []
    cases += [("event_repeated", row, first) for first, row in repeated if row.seq > own_after]
    reports = _DeliveryReader(bodies, adapters, (row for _, *pair in cases for row in pair if row is not None))
    return [
        ProviderBug(
            provider=row.provider or "",
            kind=kind,
            fact_key=row.fact_key,
            first=reports.read_delivery(first) if first is not None else None,
            again=reports.read_delivery(row),
            stream=stream,
        )
        for kind, row, first in sorted(cases, key=lambda case: case[1].seq)
    ]


def find_all_provider_bugs(
    ledger: LedgerJournals,
    adapters: Mapping[str, MoneyReader],
    *,
    provider: str | None = None,
    since: datetime | None = None,
) -> list[ProviderBug]:
    bugs = [
        bug
        for at in ledger.places
        for bug in find_provider_bugs(
            str(at.journal),
            str(at.bodies_table),
            adapters,
            provider=provider,
            since=since,
            stream=at.stream,
            own_after=ledger.own_after(at),
        )
    ]
    return sorted(bugs, key=_build_sort_key) if ledger.is_divided else bugs


def _build_sort_key(bug: ProviderBug) -> tuple[bool, datetime | None, int]:
    return bug.again.received_at is not None, bug.again.received_at, bug.again.seq


def _match_set_aside(provider: str | None, since: datetime | None) -> pc.Expression:
    died_of = pc.field("error_class").isin([_FACT_CONFLICT, _EVENT_CONFLICT])
    repeated = pc.field("decision") == Decision.DUPLICATE_FACT.value
    set_aside = repeated | ((pc.field("decision") == Decision.DEAD.value) & died_of)
    narrowed = _match_question(provider, since)
    return set_aside if narrowed is None else set_aside & narrowed


def _match_question(provider: str | None, since: datetime | None) -> pc.Expression | None:
    conditions = []
    if provider is not None:
        conditions.append(pc.field("provider") == provider)
    if since is not None:
        conditions.append(pc.field("received_at") >= pa.scalar(since, pa.timestamp("us", tz="UTC")))
    return reduce(and_, conditions) if conditions else None


def _keep_first_rows(rows: Iterable[JournalRow]) -> list[JournalRow]:
    first_rows: dict[int, JournalRow] = {}
    for row in rows:
        first_rows.setdefault(row.item_seq, row)
    return sorted(first_rows.values(), key=lambda row: row.seq)


def _match_first_reports(again: Sequence[JournalRow]) -> pc.Expression:
    events = {_find_held_key(row) for row in again if _classify_row(row) == "event_conflict"}
    facts = {_find_held_key(row) for row in again if _classify_row(row) != "event_conflict"}
    booked = (pc.field("decision") == Decision.APPLIED.value) & pc.field("fact_key").isin(_build_text_array(facts))
    return booked | (pc.field("first") & pc.field("event_key").isin(_build_text_array(events)))


def _build_text_array(values: set[str]) -> pa.Array:
    return pa.array(sorted(values), pa.string())


def _classify_row(row: JournalRow) -> Kind:
    if row.decision is Decision.DUPLICATE_FACT:
        return "fact_repeated"
    return "fact_conflict" if row.error_class == _FACT_CONFLICT else "event_conflict"


def _find_held_key(row: JournalRow) -> str:
    return (row.event_key if _classify_row(row) == "event_conflict" else row.fact_key) or ""


class _FirstReports:
    def __init__(self, rows: Iterable[JournalRow]) -> None:
        self._booked: dict[str, list[JournalRow]] = {}
        self._named: dict[str, JournalRow] = {}
        for row in rows:
            if row.decision is Decision.APPLIED:
                self._booked.setdefault(row.fact_key or "", []).append(row)
            if row.first:
                self._named.setdefault(row.event_key or "", row)

    def find_first(self, row: JournalRow) -> JournalRow | None:
        """Returns the booking that ``row`` met, also where its fact was purged and booked again."""
        if _classify_row(row) == "event_conflict":
            named = self._named.get(_find_held_key(row))
            return named if named is not None and named.seq < row.seq else None
        before = [booked for booked in self._booked.get(_find_held_key(row), []) if booked.seq < row.seq]
        return before[-1] if before else None


class _DeliveryReader:
    def __init__(self, path: str, adapters: Mapping[str, MoneyReader], rows: Iterable[JournalRow]) -> None:
        hashes = {row.body_sha256 for row in rows if row.body_sha256 is not None}
        kept = bool(hashes) and bool(adapters) and has_table(path)
        self._bodies = BodyStore(path).fetch(hashes) if kept else {}
        self._adapters = adapters

    def read_delivery(self, row: JournalRow) -> ReportedDelivery:
        fact = self._read_fact(row)
        return ReportedDelivery(
            seq=row.seq,
            event_key=row.event_key or "",
            event_type=row.event_type or "",
            occurred_at=row.occurred_at,
            received_at=row.received_at,
            movement=fact.movement.value if fact else None,
            amount_minor=fact.money.amount_minor if fact else None,
            currency=fact.money.currency if fact else None,
            account=fact.account if fact else None,
            body_sha256=row.body_sha256,
            content_sha256=row.content_sha256,
            fact_sha256=row.fact_sha256,
        )

    def _read_fact(self, row: JournalRow) -> MoneyFact | None:
        adapter, body = self._adapters.get(row.provider or ""), self._bodies.get(row.body_sha256 or "")
        if adapter is not None and body is not None:
            with contextlib.suppress(MoneyInvalid, MovementUnknown, Unparseable):
                event_type = row.event_type or ""
                return choose_reader(adapter, event_type).money(body, event_type)
        return None
