"""Rows, their table and their hashes; the chain over commits."""

from __future__ import annotations

import copy
import hashlib
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.decision import Decision, ErrorKind
from journal.open_item import OpenItem, pack_item, unpack_item
from journal.schema import (
    GENESIS,
    JOURNAL_SCHEMA,
    ChainHead,
    JournalRow,
    commit_digest,
    extend_chain,
    from_arrow,
    row_hashes,
    stamp_rows,
    to_arrow,
)
from tests.unit.journal.rows import row, row_hash, sha

texts = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
counts = st.integers(1, 2**63 - 1)
small = st.integers(0, 2**31 - 1)
times = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001

TYPES: dict[pa.DataType, st.SearchStrategy[object]] = {
    pa.string(): texts,
    pa.bool_(): st.booleans(),
    pa.int64(): counts,
    pa.int32(): small,
    pa.timestamp("us", tz="UTC"): times,
}
MEANT = {
    "decision": st.sampled_from(list(Decision)),
    "error_kind": st.none() | st.sampled_from(list(ErrorKind)),
    "topic": st.just("payments.events"),
    "row_hash": st.just("0" * 64),
}
any_row = st.builds(
    JournalRow,
    **{
        field.name: MEANT.get(field.name, TYPES[field.type] | st.none() if field.nullable else TYPES[field.type])
        for field in JOURNAL_SCHEMA
    },
)


STORED = """
seq:i8! batch_seq:i8! epoch:i8! item_seq:i8! first:b! topic! partition:i4! offset:i8! event_key fact_key
fact_sha256 entity_key provider account event_type mode tenant zone decision! attempt:i4! due_at:t reason
retry_policy blocking:b! out_of_order:b! cause_seq:i8 actor occurred_at:t received_at:t decided_at:t!
body_sha256 original_sha256 original_content_sha256 content_sha256 content_version:i4 dedupe error_class
error_code error_message error_stack error_kind log_lines handler_version postings headers history:i4
offset_until:i8 pair row_hash!
"""
CODES = {pa.int64(): ":i8", pa.int32(): ":i4", pa.bool_(): ":b", pa.string(): "", pa.timestamp("us", tz="UTC"): ":t"}


def test_the_columns_and_their_order_are_those_that_are_stored_and_hashed() -> None:
    there = [f"{one.name}{CODES[one.type]}{'' if one.nullable else '!'}" for one in JOURNAL_SCHEMA]
    assert there == STORED.split()


@given(st.lists(any_row, max_size=4))
def test_rows_survive_the_way_through_arrow(rows: list[JournalRow]) -> None:
    table = to_arrow(rows)
    assert table.schema == JOURNAL_SCHEMA
    assert from_arrow(table) == rows


@given(st.lists(any_row, min_size=1, max_size=4))
def test_hashes_of_a_table_are_those_of_its_rows(rows: list[JournalRow]) -> None:
    assert row_hashes(to_arrow(rows)) == [row_hash(one) for one in rows]


@given(any_row, st.binary(max_size=8))
def test_an_open_item_survives_its_storage(one: JournalRow, body: bytes) -> None:
    item = OpenItem(one, body, 7)
    assert unpack_item(pack_item(item), body) == item


@pytest.mark.parametrize("name", [name for name in JOURNAL_SCHEMA.names if name != "row_hash"])
def test_every_column_counts_for_the_hash(name: str) -> None:
    one = row(5)
    value = getattr(one, name)
    others = {bool: not value, int: 99, datetime: one.decided_at + timedelta(microseconds=1)}
    kind = datetime if name.endswith("_at") else int if name in ("cause_seq", "content_version") else type(value)
    other = {"decision": Decision.DEAD, "error_kind": ErrorKind.NRE}.get(name) or others.get(kind, "other")
    changed = copy.copy(one)
    setattr(changed, name, other)
    assert row_hash(changed) != row_hash(one)


def test_a_hash_is_what_it_always_was() -> None:
    """Journals outlive the code that wrote them: this value may never change."""
    assert row_hash(row(1)) == "41a783aeed1691ddcde16afa366a026ad6a9ee9965f73623212dab71a93cb9d0"


def test_a_stamped_row_is_hashed_with_its_epoch_and_batch() -> None:
    one = row(3)
    table = stamp_rows([one], epoch=4, batch_seq=3)
    assert (one.epoch, one.batch_seq, one.row_hash) == (4, 3, row_hash(one))
    assert from_arrow(table) == [one]


def test_a_time_is_the_same_moment_whatever_its_zone() -> None:
    here = row(1, decided_at=row(1).decided_at.astimezone(timezone(timedelta(hours=5))))
    assert row_hash(here) == row_hash(row(1)) == row_hashes(to_arrow([here]))[0]


def test_columns_that_were_not_read_have_their_defaults() -> None:
    needed = ["seq", "item_seq", "first", "topic", "partition", "offset", "decision", "decided_at"]
    [read] = from_arrow(to_arrow([row(1, reason="why")]).select(needed))
    assert (read.seq, read.reason, read.event_key) == (1, None, None)


commits = st.lists(st.lists(st.integers(0, 9).map(lambda n: sha(str(n))), min_size=1, max_size=3), max_size=4)


def head_of(batches: list[list[str]]) -> str:
    head = GENESIS
    for hashes in batches:
        head = extend_chain(head, commit_digest(hashes))
    return head


def test_the_digest_is_over_the_joined_hashes() -> None:
    assert commit_digest(["aa", "bb"]) == hashlib.sha256(b"aabb").hexdigest()


@given(commits)
def test_row_by_row_the_head_is_the_same_as_commit_by_commit(batches: list[list[str]]) -> None:
    chain = ChainHead()
    for number, hashes in enumerate(batches):
        for one in hashes:
            chain.add(number, one)
    assert chain.head == head_of(batches)


@given(commits, commits)
def test_another_history_has_another_head(one: list[list[str]], other: list[list[str]]) -> None:
    """Rows moved from one commit to the next are another history too."""
    assert (head_of(one) == head_of(other)) == (one == other)
