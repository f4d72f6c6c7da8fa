"""Looks through one portion, once, batch by batch."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledger.postings import POSTINGS_SCHEMA
from ledger.verify.fast_path import hashes, items
from ledger.verify.fast_path.bookings import Lines, are_balanced, lines_of, moved, names_a_payment, taken_back
from ledger.verify.fast_path.commits import CommitReader
from ledger.verify.fast_path.files import Portion, TableFiles
from ledger.verify.fast_path.hashes import HASH_CHARS, KeyDigest, fixed_chars, key_digest, wrong_hashes
from ledger.verify.fast_path.items import ITEM
from ledger.verify.fast_path.lines import BOOKED, LinesInStep, expected_lines, lines_as_booked
from ledger.verify.fast_path.offsets import all_runs, follow, joined, too_many
from ledger.verify.fast_path.results import Doubt, PortionResult, Tables

CONTENT_CHARS = 16
"""Of a content's hash, what the index keeps."""

DEMANDED = ("seq", "batch_seq", "epoch", "item_seq", "first", "topic", "partition", "offset", "decision", "decided_at")


class Kind(StrEnum):
    """What goes into buckets."""

    EVENT = "event"
    FACT = "fact"
    ITEM = "item"
    PAYMENT = "payment"


Share = tuple[int, tuple[Kind, np.ndarray] | PortionResult]
"""A bucket, and what goes there."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is the same for all portions. ``since``: rows before it aren't looked at."""

    tables: Tables
    salt: bytes
    buckets: int
    since: int = 1


@dataclass(slots=True)
class _Look:
    """A portion being looked through."""

    question: Question
    lines: LinesInStep | None
    facts: PortionResult = field(default_factory=PortionResult)
    commits: CommitReader = field(default_factory=CommitReader)
    kept: dict[Kind, list[np.ndarray]] = field(default_factory=lambda: {kind: [] for kind in Kind})


def look(portion: Portion, question: Question) -> Iterator[Share]:
    """
    :raises ValueError: a row lacks what every row has
    :raises OSError, pa.ArrowException: a file of the journal can't be read
    """
    found = _Look(question, _lines_in_step(portion, question))
    for rows in TableFiles(question.tables.journal).batches(portion.journal, question.since):
        kept = rows if question.since <= 1 else rows.filter(pc.field("seq") >= question.since)
        if kept.num_rows:
            _add(found, kept)
    if found.lines is not None:
        with _doubting_lines(found):
            found.facts.files = found.lines.files.rows_of(portion.postings)
            if found.lines.up_to(portion.until).num_rows:
                found.facts.doubts.add(Doubt.POSTINGS)
    yield from _shares(found)


def _lines_in_step(portion: Portion, question: Question) -> LinesInStep | None:
    if question.tables.postings is None:
        return None
    since = max(portion.since, question.since)
    return LinesInStep(TableFiles(question.tables.postings), portion.postings, since, portion.until)


@contextlib.contextmanager
def _doubting_lines(found: _Look) -> Iterator[None]:
    """Postings that can't be read are no doubt of the journal."""
    try:
        yield
    except (OSError, pa.ArrowException):
        found.lines = None
        found.facts.doubts.add(Doubt.POSTINGS)


def _add(found: _Look, rows: pa.RecordBatch) -> None:
    if any(rows[name].null_count for name in DEMANDED):
        raise ValueError(f"a row lacks one of {', '.join(DEMANDED)}")
    facts, flags = found.facts, items.flags(rows)
    facts.rows += rows.num_rows
    found.commits.add(rows, wrong_hashes(rows))
    first = (flags & items.FIRST) > 0
    one = chosen(rows, ("topic", "partition", "offset", *_later(rows)), first)
    if one.num_rows:
        runs, rises = all_runs(one)
        if not (rises and follow(runs, facts.runs)):
            facts.doubts.add(Doubt.PLACES)
        facts.runs = joined((facts.runs, runs))
        if too_many(facts.runs):
            facts.doubts |= {Doubt.OFFSETS, Doubt.PLACES}
            facts.runs = {}
    facts.late += _late(rows, flags)
    facts.dead += int(np.count_nonzero(flags & items.DEAD))
    if _is_of_another_mode(rows, found.question.tables.mode):
        facts.doubts.add(Doubt.MODE)
    _add_keys(found, rows, flags)
    _add_items(found, rows, flags)
    _add_bookings(found, rows, flags)


def _later(rows: pa.RecordBatch) -> list[str]:
    """Which later columns of an offset are there: its history, and where a range of offsets ends."""
    return [name for name in ("history", "offset_until") if name in rows.schema.names and _any(rows[name])]


def _any(column: pa.Array) -> bool:
    return bool(column.null_count < len(column))


def _late(rows: pa.RecordBatch, flags: np.ndarray) -> int:
    late = (flags & (items.APPLIED | items.FIRST)) == items.APPLIED
    return int(np.count_nonzero(late & ~rows["out_of_order"].to_numpy(zero_copy_only=False))) if late.any() else 0


def chosen(rows: pa.RecordBatch, names: Sequence[str], which: np.ndarray) -> pa.RecordBatch:
    """Some rows of some columns; what is wanted whole isn't copied."""
    some = rows.select(list(names))
    return some if which.all() else some.filter(pa.array(which))


def _taken(column: pa.Array, at: np.ndarray) -> pa.Array:
    return column if len(at) == len(column) else column.take(pa.array(at))


def _is_of_another_mode(rows: pa.RecordBatch, mode: str) -> bool:
    same = pc.equal(rows["mode"], mode)
    neither = pc.and_(pc.is_null(rows["mode"]), pc.is_null(rows["event_key"]))
    return not pc.all(pc.or_(pc.fill_null(same, False), neither), min_count=0).as_py()


def _add_keys(found: _Look, rows: pa.RecordBatch, flags: np.ndarray) -> None:
    question, seq = found.question, rows["seq"].to_numpy()
    applied, holds = (flags & items.APPLIED) > 0, (flags & items.HOLDS) > 0
    indexed = seq <= question.tables.index_seq

    lost = (flags & items.LOST) > 0
    at = np.flatnonzero(rows["event_key"].is_valid().to_numpy(zero_copy_only=False) & ~lost)
    key_hashes = hashes.key_hashes(_taken(rows["event_key"], at))
    roles = applied[at] * hashes.TOOK | holds[at] * hashes.HELD | ((flags[at] & items.DUPLICATE) > 0) * hashes.COPY
    entries = hashes.entries(key_hashes, rows["item_seq"].to_numpy()[at], roles)
    found.kept[Kind.EVENT].append(entries)
    purged = indexed[at] & ((flags[at] & items.PURGED) > 0) & ((flags[at] & items.FIRST) == 0)
    if purged.any():
        found.facts.purged += rows["event_key"].take(pa.array(at[purged])).to_pylist()
    inside = (holds & indexed)[at]
    version = pc.fill_null(rows["content_version"], 0).to_numpy()[at][inside]
    held = _digest(rows["content_sha256"], at[inside], key_hashes[inside], version, question.salt)
    found.facts.events += held

    copies = (flags & items.DUPLICATE_FACT) > 0
    at = np.flatnonzero(rows["fact_key"].is_valid().to_numpy(zero_copy_only=False) & (applied | copies))
    key_hashes = hashes.key_hashes(_taken(rows["fact_key"], at))
    roles = applied[at] * (hashes.TOOK | hashes.HELD) | copies[at] * hashes.COPY
    found.kept[Kind.FACT].append(hashes.entries(key_hashes, rows["batch_seq"].to_numpy()[at], roles))
    inside = (applied & indexed)[at]
    none = np.zeros(int(inside.sum()), "u8")
    found.facts.facts += _digest(rows["fact_sha256"], at[inside], key_hashes[inside], none, question.salt)


def _digest(contents: pa.Array, at: np.ndarray, hashes: np.ndarray, version: np.ndarray, salt: bytes) -> KeyDigest:
    return key_digest(hashes, first_bytes(_taken(contents, at)), version.astype("u8"), salt)


def first_bytes(hashes: pa.Array) -> np.ndarray:
    """The first eight bytes of hashes in hex, as the index keeps them; zeroes where there are fewer.

    :raises ValueError: one isn't hex
    """
    try:
        whole = np.frombuffer(fixed_chars(hashes, HASH_CHARS), "u1").reshape(len(hashes), HASH_CHARS)
        short = whole[:, :CONTENT_CHARS].tobytes()
    except ValueError:
        padded = pc.utf8_rpad(pc.fill_null(hashes, ""), CONTENT_CHARS, "0")
        short = fixed_chars(pc.utf8_slice_codeunits(padded, 0, CONTENT_CHARS), CONTENT_CHARS)
    return np.frombuffer(bytes.fromhex(short.decode("ascii")), "<u8")


def _add_items(found: _Look, rows: pa.RecordBatch, flags: np.ndarray) -> None:
    """Rows of items that weren't settled by their first one."""
    unsettled = ((flags & (items.FIRST | items.LOST | items.PORTION)) == 0) | ((flags & items.WAITS) > 0)
    item, seq = rows["item_seq"].to_numpy(), rows["seq"].to_numpy()
    reversal = (flags & items.REVERSED) > 0
    taken_back = np.flatnonzero(reversal & ((flags & items.FIRST) == 0))
    found.facts.reversals += zip(item[taken_back].tolist(), seq[taken_back].tolist(), strict=True)
    at = np.flatnonzero(unsettled & ~reversal & (item >= found.question.since))
    entries = np.empty(len(at), ITEM)
    entries["item"], entries["seq"] = item[at], seq[at]
    entities, partition = _taken(rows["entity_key"], at), rows["partition"].to_numpy()
    mine = _mine(found.question, entities, partition[at])
    entries["is"] = flags[at] | np.where(mine, 0, items.ELSEWHERE).astype("u2")
    decided_at = rows["decided_at"].cast(pa.int64()).to_numpy()
    received = pc.coalesce(rows["received_at"], rows["decided_at"]).cast(pa.int64()).to_numpy()
    entries["since"] = np.where((flags & items.REPLAYED) > 0, decided_at, received)[at]
    found.kept[Kind.ITEM].append(entries)


def _mine(question: Question, entities: pa.Array, partition: np.ndarray) -> np.ndarray:
    """Of some rows whether their items are the shard's, as `journal.shards.decides`."""
    shard = question.tables.shard
    if shard.count == 1:
        return np.ones(len(entities), "?")
    keys = entities.to_pylist()
    by = [other if key is None else zlib.crc32(key.encode()) for key, other in zip(keys, partition, strict=True)]
    found: np.ndarray = np.array(by, "i8") % shard.count == shard.number
    return found


def _add_bookings(found: _Look, rows: pa.RecordBatch, flags: np.ndarray) -> None:
    has_postings = rows["postings"].is_valid().to_numpy(zero_copy_only=False)
    books = (flags & items.BOOKS) > 0
    booked = chosen(rows, BOOKED, has_postings & books)
    last = int(rows["seq"][-1].as_py())
    table = None
    if found.lines is not None:
        with _doubting_lines(found):
            table = found.lines.up_to(last)
    tables = found.question.tables
    is_booked = tables.own_after < int(rows["seq"][0].as_py()) and last <= tables.postings_mark
    as_booked = lines_as_booked(booked, table) if table is not None and is_booked else None
    lines = as_booked or lines_of(booked["postings"])
    if lines is None or (has_postings & ~books).any() or not are_balanced(lines):
        found.facts.doubts.add(Doubt.BALANCE)
    if lines is None:
        found.facts.doubts.add(Doubt.POSTINGS)
        return
    _add_payments(found, booked, lines)
    if table is None:
        return
    if as_booked is not None:
        found.facts.lines += table.num_rows
        return
    expected = expected_lines(booked, lines)
    if not is_booked:
        expected = expected.filter((pc.field("seq") > tables.own_after) & (pc.field("seq") <= tables.postings_mark))
    if table.cast(POSTINGS_SCHEMA).equals(expected):
        found.facts.lines += table.num_rows
    else:
        found.facts.doubts.add(Doubt.POSTINGS)


def _add_payments(found: _Look, booked: pa.RecordBatch, lines: Lines) -> None:
    own = _mine(found.question, booked["entity_key"], np.zeros(booked.num_rows, "i8"))
    payments = moved(lines, booked, own)
    found.facts.taken_back += taken_back(payments)
    entities = booked["entity_key"].filter(pa.array(own)).drop_null()
    found.facts.nameless += int(np.count_nonzero(~names_a_payment(entities)))
    found.kept[Kind.PAYMENT].append(payments)


def _shares(found: _Look) -> Iterator[Share]:
    found.facts.commits = found.commits.found()
    if found.commits.disordered:
        found.facts.doubts.add(Doubt.ORDER)
    yield 0, found.facts
    for kind, parts in found.kept.items():
        several = np.concatenate(parts) if parts else None
        if several is None or not len(several):
            continue
        by = several["item"].astype("u8") if kind is Kind.ITEM else several["key"] >> np.uint64(32)
        for bucket, some in enumerate(hashes.shares(several, by, found.question.buckets)):
            if len(some):
                yield bucket, (kind, some)
