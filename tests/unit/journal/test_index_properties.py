"""The index is a function of the journal's rows: however they came, and whatever was lost meanwhile."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from core.decision import OPEN_DECISIONS, TAKES_FACT, Decision
from core.keys import hash_key
from journal.index import Index
from journal.index_changes import EntityLine
from journal.index_layout import BITS, QUEUE, SEQ, Queues, seq_of
from journal.open_item import ClosedHead
from journal.schema import JournalRow, to_arrow
from journal.state import JournalState
from tests.examples import examples
from tests.unit.journal.histories import bodies, histories, portions
from tests.unit.journal.rows import NOW, event_count, sha

cuts = st.lists(st.integers(0, 30), max_size=6)
WAITS = {Decision.RETRY, Decision.PARKED, Decision.REPLAYED}

CLOSED = (Decision.PURGED, Decision.RESOLVED, Decision.RELEASED)


@dataclass
class ListReader:
    """A journal in memory, as far as the index reads it."""

    rows: Sequence[JournalRow]
    chunk: int = 7
    table_id: str = "table-1"
    lineage: str = ""

    @property
    def last_seq(self) -> int:
        return self.rows[-1].seq if self.rows else 0

    def tables_after(self, seq: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        for at in range(seq, len(self.rows), self.chunk):
            yield to_arrow(self.rows[at : at + self.chunk]).select(list(columns))

    def rows_of(self, seqs: Sequence[int]) -> list[JournalRow]:
        return [self.rows[seq - 1] for seq in seqs]

    def row_hash_at(self, seq: int) -> str | None:
        return self.rows[seq - 1].row_hash

    def state(self) -> JournalState:
        return JournalState(1, 1, len(self.rows) + 1, {}, {}, 0, "")


@dataclass
class DictBodies:
    """A store of bodies in memory. ``asked`` are the hashes that were wanted."""

    held: dict[str, bytes]
    asked: list[str] = field(default_factory=list)

    def fetch(self, hashes: Iterable[str]) -> dict[str, bytes]:
        wanted = list(hashes)
        self.asked += wanted
        return {sha256: self.held[sha256] for sha256 in wanted if sha256 in self.held}


def content(index: Index) -> dict[bytes, bytes | None]:
    """Every key and value, but for which table it is of."""
    return {key: index._store.get(key) for key in index._store.read_keys(b"") if key != b"t"}


def in_a_folder(check: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder))


@settings(max_examples=examples(60), deadline=None)
@given(rows=histories(), ours=cuts, lost_from=st.integers(0, 30), chunk=st.integers(1, 30))
def test_rebuilt_and_interrupted_indexes_equal_the_one_that_followed_along(
    rows: list[JournalRow], ours: list[int], lost_from: int, chunk: int
) -> None:
    """One follows batch by batch, one is made from the journal, one lost its last writes and catches up."""

    def check(folder: Path) -> None:
        followed, rebuilt, behind = (Index.open(folder / name, 1) for name in ("followed", "rebuilt", "behind"))
        for portion in portions(rows, ours):
            followed.apply_rows(portion, bodies())
        rebuilt.catch_up(ListReader(rows, chunk), DictBodies(bodies()))  # type: ignore[arg-type]
        behind.catch_up(ListReader(rows[: lost_from % len(rows)]), DictBodies(bodies()))  # type: ignore[arg-type]
        behind.catch_up(ListReader(rows, chunk), DictBodies(bodies()))  # type: ignore[arg-type]
        assert content(rebuilt) == content(followed) == content(behind)
        for index in (followed, rebuilt, behind):
            index.close()

    in_a_folder(check)


@settings(max_examples=examples(60), deadline=None)
@given(rows=histories(), ours=cuts)
def test_the_index_says_what_a_plain_reading_of_the_rows_says(rows: list[JournalRow], ours: list[int]) -> None:
    """A model over dictionaries: last rows by item, keys by their holders."""

    def check(folder: Path) -> None:
        index = Index.open(folder, 1)
        for portion in portions(rows, ours):
            index.apply_rows(portion, bodies())
        last = {row.item_seq: row for row in rows}
        waits = {
            seq: row
            for seq, row in last.items()
            if row.decision in OPEN_DECISIONS and not (row.first and row.decision is Decision.REPLAYED)
        }
        assert (index.seq, index.open_count()) == (rows[-1].seq, len(waits))
        assert index.dead_count() == sum(row.decision is Decision.DEAD for row in waits.values())
        assert {item.row.item_seq: item.last_seq for item in index.open_items()} == {
            seq: row.seq for seq, row in waits.items()
        }
        assert all(item.body == bodies()[item.row.body_sha256 or ""] for item in index.open_items())
        for entity in {row.entity_key or "" for row in rows}:
            queue = sorted(seq for seq, row in waits.items() if row.blocking and row.entity_key == entity)
            assert [item.row.item_seq for item in index.queue(entity)] == queue
            mine = sorted(seq for seq, row in waits.items() if row.entity_key == entity)
            assert list(index.of_entity(entity)) == mine
            died, line = _passed_over(rows, entity)
            assert list(index.find_died(entity)) == died
            assert index.line(entity) == line
        due = sorted(
            (row.due_at, seq)
            for seq, row in waits.items()
            if row.decision in WAITS and row.due_at is not None and row.due_at <= NOW
        )
        assert [item.row.item_seq for item in index.find_due(NOW, 100)] == [seq for _, seq in due]
        _keys_are_right(index, rows)
        _people_acted(index, rows)
        index.close()

    in_a_folder(check)


@settings(max_examples=examples(60), deadline=None)
@given(rows=histories(), ours=cuts, asked=st.lists(st.integers(0, 9), max_size=12))
def test_many_looked_up_at_once_are_what_each_is_by_itself(
    rows: list[JournalRow], ours: list[int], asked: list[int]
) -> None:
    """Keys that are known, purged and unknown, some of them asked for twice."""

    def check(folder: Path) -> None:
        index = Index.open(folder, 1)
        for portion in portions(rows, ours):
            index.apply_rows(portion, bodies())
        events, facts = [f"stripe:evt_{number}:x" for number in asked], [f"fact-{number}" for number in asked]
        assert index.known_events(events) == [index.known_event(key) for key in events]
        assert index.known_facts(facts) == [index.known_fact(key) for key in facts]
        index.close()

    in_a_folder(check)


@settings(max_examples=examples(60), deadline=None)
@given(rows=histories(), ours=cuts, reopened_after=st.integers(0, 6))
def test_a_queue_that_is_reported_empty_without_a_look_is_empty_in_the_store(
    rows: list[JournalRow], ours: list[int], reopened_after: int
) -> None:
    """By the index that followed along and by one that was opened again on the way."""

    def check(folder: Path) -> None:
        index = Index.open(folder, 1)
        for number, portion in enumerate(portions(rows, ours)):
            index.apply_rows(portion, bodies())
            if number == reopened_after:
                index.close()
                index = Index.open(folder, 2)
            for entity in (*(f"entity-{number}" for number in range(3)), "entity-of-nobody"):
                stored = [seq_of(key) for key in index._store.read_keys(QUEUE + hash_key(entity))]
                assert [item.row.item_seq for item in index.queue(entity)] == stored
        index.close()

    in_a_folder(check)


def _passed_over(rows: Sequence[JournalRow], entity: str) -> tuple[list[int], EntityLine | None]:
    """Who died and holds nothing back, and what was applied while anybody held nothing back: read row by row."""
    beside: dict[int, bool] = {}
    applied = 0
    for row in rows:
        if row.entity_key != entity:
            continue
        is_open = row.decision in OPEN_DECISIONS and not (row.first and row.decision is Decision.REPLAYED)
        before = beside.pop(row.item_seq, False)
        if is_open and not row.blocking:
            dead = row.decision is Decision.DEAD
            beside[row.item_seq] = row.error_class != "EventConflict" if dead else before
        applied = max(applied, row.item_seq if row.decision is Decision.APPLIED else 0) if beside else 0
    died = sorted(seq for seq, it_died in beside.items() if it_died)
    return died, EntityLine(len(beside), applied) if beside else None


def _keys_are_right(index: Index, rows: Sequence[JournalRow]) -> None:
    events: dict[str, tuple[str, int, bool]] = {}
    conflicts: set[tuple[str, str]] = set()
    facts: dict[str, str] = {}
    for row, before in _with_what_was_open(rows):
        if row.decision in TAKES_FACT and row.fact_key is not None:
            facts[row.fact_key] = row.fact_sha256 or ""
        if row.event_key is None:
            continue
        key, held = row.event_key, (row.content_sha256 or "", row.content_version or 0)
        was_other_content = before is not None and before.error_class == "EventConflict"
        if row.first and row.error_class == "EventConflict":
            conflicts.add((key, held[0]))
        elif row.first and row.decision is not Decision.DUPLICATE:
            events[key] = (*held, False)
        elif before is not None and row.decision is Decision.PURGED and not was_other_content:
            events[key] = (*held, True)
            conflicts.add((key, held[0]))
        elif before is not None and row.decision is Decision.RELEASED and not was_other_content:
            events.pop(key, None)
            conflicts.discard((key, held[0]))
        elif was_other_content and row.decision is Decision.REPLAYED and key in events and events[key][2]:
            events[key] = (*held, False)
    for number in range(6):
        key = f"stripe:evt_{number}:x"
        known = index.known_event(key)
        reported = None if known is None else (known.content8.hex(), known.content_version, known.purged)
        wanted = events.get(key)
        assert reported == (None if wanted is None else (wanted[0][:16], *wanted[1:]))
        for text in range(4):
            sha256 = sha(f"content {text}")
            assert index.known_conflict(key, sha256) == ((key, sha256) in conflicts)
    for number in range(3):
        fact = index.known_fact(f"fact-{number}")
        wanted_fact = facts.get(f"fact-{number}")
        assert (fact and fact.hex()) == (wanted_fact and wanted_fact[:16])
    assert event_count(index) == len(events)


def _with_what_was_open(rows: Sequence[JournalRow]) -> Iterator[tuple[JournalRow, JournalRow | None]]:
    """Each row, and its item's row before it where that left it open."""
    last: dict[int, JournalRow] = {}
    for row in rows:
        before = last.get(row.item_seq)
        yield row, before if before is not None and _is_open(before) else None
        last[row.item_seq] = row


def _is_open(row: JournalRow) -> bool:
    return row.decision in OPEN_DECISIONS and not (row.first and row.decision is Decision.REPLAYED)


def _people_acted(index: Index, rows: Sequence[JournalRow]) -> None:
    """Closed heads by entity, and how often each open item was replayed since it was opened."""
    closed: dict[str, dict[int, ClosedHead]] = {}
    replays: dict[int, int] = {}
    for row, before in _with_what_was_open(rows):
        counted = replays.get(row.item_seq, 0) if before is not None else 0
        replays[row.item_seq] = counted + (row.decision is Decision.REPLAYED)
        if before is not None and before.blocking and row.decision in CLOSED:
            head = ClosedHead(row.item_seq, row.seq, row.event_key or "", row.decision.value, before.retry_policy)
            closed.setdefault(row.entity_key or "", {})[row.item_seq] = head
    for entity in {row.entity_key or "" for row in rows}:
        # Of an item that was opened again the last closing counts.
        assert index.closed_heads(entity) == [head for _, head in sorted(closed.get(entity, {}).items())]
    assert all(item.replays == replays[item.row.item_seq] for item in index.open_items())


@settings(max_examples=examples(25), deadline=None)
@given(rows=histories(size_max=12), moment=st.integers(-4, 4))
def test_what_is_due_grows_with_time_and_never_holds_what_is_dead(rows: list[JournalRow], moment: int) -> None:
    def check(folder: Path) -> None:
        index = Index.open(folder, 1)
        index.apply_rows(rows, bodies())
        now = NOW + timedelta(seconds=moment)
        due = index.find_due(now, 100)
        assert all(item.row.decision in WAITS and item.row.due_at is not None for item in due)
        assert all(item.row.due_at is not None and item.row.due_at <= now for item in due)
        assert index.find_due(now, 2) == due[:2]
        index.close()

    in_a_folder(check)


ENTITY = bytes.fromhex("0123456789abcdef0123456789abcdef")
ELSEWHERE = bytes.fromhex("f123456789abcdef0123456789abcdef")
SAME_PLACE = ENTITY[: BITS // 8] + bytes([ENTITY[BITS // 8] ^ 0x01]) + ENTITY[BITS // 8 + 1 :]


def key(entity: bytes, item_seq: int) -> bytes:
    return QUEUE + entity + SEQ.pack(item_seq)


def test_an_entity_is_empty_until_something_of_it_waits_and_again_when_all_of_it_is_over() -> None:
    queues = Queues([key(ENTITY, 1), key(ENTITY, 2)])
    assert (queues.is_empty(ENTITY), queues.is_empty(ELSEWHERE)) == (False, True)
    queues.change({ENTITY: -1, ELSEWHERE: 1})
    assert (queues.is_empty(ENTITY), queues.is_empty(ELSEWHERE)) == (False, False)
    queues.change({ENTITY: -1})
    assert queues.is_empty(ENTITY)


def test_of_an_entity_at_anothers_place_nothing_is_known() -> None:
    assert SAME_PLACE != ENTITY
    assert not Queues([key(ENTITY, 1)]).is_empty(SAME_PLACE)
