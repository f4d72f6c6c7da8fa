"""Invariants between the journal and what is derived from it: postings, the key index, dead letters."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from core.clock import from_rfc3339
from dlq.record import DECIDED_HEADER, KIP_1191, SEQ_HEADER
from journal import index_layout as layout
from journal.histories import find_cuts
from journal.index import Index
from journal.schema import TIMESTAMP, TopicRecord
from ledger.verify.engine import read_promise
from ledger.verify.evidence import Evidence
from ledger.verify.report import Finding, PromiseInvariant
from ledger.verify.views import OPEN_ITEMS


class PostingsEqualJournal(PromiseInvariant):
    name = "postings_equal_journal"

    def check(self, evidence: Evidence) -> Finding:
        mark = evidence.postings_mark
        if mark is None:
            missing = "there is no table of postings; the processor makes it when it starts"
            return self.build_finding(evidence, (), {"mark": None}, not_checked=missing)
        offenders = list(islice(_find_other_lines(evidence, mark), evidence.sample_max))
        if mark > evidence.seq:
            offenders = [
                {"problem": "postings are ahead of the journal", "mark": mark, "seq": evidence.seq},
                *offenders,
            ]
        figures = {"mark": mark, "behind": max(0, evidence.seq - mark)}
        return self.build_finding(evidence, offenders, figures, evidence.explain_part("lines of earlier rows"))


_PORTION = pa.schema([("after_seq", pa.int64()), ("until_seq", pa.int64())])


def _find_other_lines(evidence: Evidence, mark: int) -> Iterator[dict[str, Any]]:
    rows_max = evidence.engine.portion_rows
    for after in range(evidence.base.seq, max(mark, evidence.base.seq + 1), rows_max):
        until = after + rows_max if after + rows_max < mark else sys.maxsize
        evidence.add_rows("portion", _PORTION, [{"after_seq": after, "until_seq": until}])
        yield from evidence.search_offenders(PostingsEqualJournal.name)


class IndexEqualsJournal(PromiseInvariant):
    """The index of a divided journal has no open items of other shards, or still all of them.

    A processor that opens it forgets them (`Index.keep_part`).
    """

    name = "index_equals_journal"

    def check(self, evidence: Evidence) -> Finding:
        index = evidence.index
        if index is None:
            missing = evidence.no_index or "there is no key index here; a start of the processor makes it"
            return self.build_finding(evidence, (), {"seq": None}, not_checked=missing)
        figures: dict[str, Any] = {"seq": index.seq, "behind": evidence.seq - index.seq}
        if index.seq > evidence.seq:
            ahead = {"problem": "the index is ahead of the journal", "index_seq": index.seq, "seq": evidence.seq}
            return self.build_finding(evidence, (ahead,), figures)
        evidence.engine.add_table("index_keys", read_index_keys(index), _KEYS)
        evidence.engine.add_result("indexed_items", OPEN_ITEMS.format(rows="indexed"))
        offenders = [
            *islice(_find_other_keys(evidence, index), evidence.sample_max),
            *islice(_find_other_items(evidence, index), evidence.sample_max),
        ]
        if not evidence.is_whole:
            return self.build_finding(evidence, offenders, figures, NOT_LOOKED_AT)
        counts, other_counts = _compare_counts(evidence, index)
        offenders += [*_find_other_pairs(evidence, index), *other_counts]
        return self.build_finding(evidence, offenders, figures | counts)


NOT_LOOKED_AT = "keys of earlier rows, keys without a row, and counts of pairs"

_HASH_BYTES = 16
_KEYS = pa.schema([*((name, pa.string()) for name in ("kind", "key", "content_1")), ("version", pa.int32())])
_PAIR_COUNTS = pa.schema([("key", pa.string()), ("booked", pa.int64())])
_VALUE_BYTES = layout.CONTENT_BYTES + 1


def read_index_keys(index: Index) -> Iterator[pa.RecordBatch]:
    for kind, prefix, entries in (
        ("event", layout.EVENT, index.event_entries()),
        ("fact", layout.FACT, index.fact_entries()),
    ):
        for keys, values in entries:
            if keys:
                yield _build_key_batch(kind, len(prefix), keys, values)


def _build_key_batch(kind: str, prefix: int, keys: list[bytes], values: list[bytes]) -> pa.RecordBatch:
    content = _pad_texts(values, _VALUE_BYTES)
    columns = [
        pa.repeat(kind, len(keys)),
        _format_hashes(keys, prefix),
        _format_hex(content[:, : layout.CONTENT_BYTES]),
        pa.array(content[:, layout.CONTENT_BYTES].astype("i4")),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_KEYS)


def read_pair_counts(index: Index) -> Iterator[pa.RecordBatch]:
    for keys, values in index.pair_entries():
        if keys:
            counts = np.frombuffer(_pad_texts(values, layout.COUNT.size).tobytes(), ">i8").astype("i8")
            columns = [_format_hashes(keys, len(layout.PAIR)), pa.array(counts)]
            yield pa.RecordBatch.from_arrays(columns, schema=_PAIR_COUNTS)


def _format_hashes(keys: list[bytes], prefix: int) -> pa.Array:
    return _format_hex(_pad_texts(keys, prefix + _HASH_BYTES)[:, prefix:])


def _pad_texts(texts: list[bytes], size: int) -> np.ndarray:
    if len(sizes := set(map(len, texts))) > 1:
        texts = [text.ljust(max(sizes), b"\0") for text in texts]
    rows = np.frombuffer(b"".join(texts), "u1").reshape(len(texts), -1)[:, :size]
    return rows if rows.shape[1] == size else np.pad(rows, ((0, 0), (0, size - rows.shape[1])))


def _format_hex(rows: np.ndarray) -> pa.Array:
    chars = 2 * rows.shape[1]
    ends = np.arange(0, chars * (len(rows) + 1), chars, dtype="i4")
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(ends), pa.py_buffer(rows.tobytes().hex().encode()))


def _find_other_keys(evidence: Evidence, index: Index) -> Iterator[dict[str, Any]]:
    for row in evidence.rows(read_promise(IndexEqualsJournal.name).sql):
        # Purged, a key may be another content's by now; the index keeps the first one's as that of a conflict.
        if row["kind"] == "event" and row["is_known"] and index.known_conflict(row["name"], row["content"] or ""):
            continue
        yield {"problem": row["problem"], row["kind"]: row["name"]}


def _find_other_items(evidence: Evidence, index: Index) -> Iterator[dict[str, Any]]:
    for item in evidence.rows("SELECT item_seq, last_seq, decision FROM indexed_items WHERE mine ORDER BY item_seq"):
        kind, item_there = "dead" if item["decision"] == "dead" else "open", index.open_item(item["item_seq"])
        if item_there is None:
            yield {"problem": "the index doesn't hold an open item", kind: str(item["item_seq"])}
        # The index may have moved on since its mark was read: only an older state is wrong.
        elif item_there.last_seq < item["last_seq"]:
            yield {"problem": "the index holds an older state of an open item", kind: str(item["item_seq"])}
    for row in evidence.rows(
        "SELECT DISTINCT item_seq FROM indexed WHERE decision = 'reversed' AND NOT first ORDER BY item_seq"
    ):
        if not index.is_reversed(row["item_seq"]):
            problem = "the index doesn't know that a booking was reversed"
            yield {"problem": problem, "reversed": str(row["item_seq"])}
    for row in evidence.rows(_REOPENED):
        if (index.reopened_at(row["item_seq"]) or 0) < row["seq"]:
            problem = "the index doesn't know that an ignored event was replayed, or an unknown one closed"
            yield {"problem": problem, "reopened": str(row["item_seq"])}


_REOPENED = """
    SELECT item_seq, max(seq) AS seq FROM (
        SELECT item_seq, seq, decision, first, lag(decision) OVER (PARTITION BY item_seq ORDER BY seq) AS was
        FROM indexed WHERE decision IN ('ignored', 'unknown')
                           OR (decision IN ('replayed', 'purged', 'resolved') AND NOT first))
    WHERE (decision = 'replayed' AND was IN ('ignored', 'unknown'))
          OR (decision IN ('purged', 'resolved') AND was = 'unknown')
    GROUP BY item_seq ORDER BY item_seq
"""


def _find_other_pairs(evidence: Evidence, index: Index) -> Iterator[dict[str, Any]]:
    evidence.engine.add_table("index_pairs", read_pair_counts(index), _PAIR_COUNTS)
    for row in evidence.ask_sample(_OTHER_PAIRS):
        name = f"hash {row['key']}" if row["name"] is None else row["name"]
        problem = "the index has another count of a pair's movements less its undos"
        yield {"problem": problem, "pair": name, "index": row["in_index"], "journal": row["in_journal"]}


_OTHER_PAIRS = """
    SELECT name, coalesce(counted.key, index_pairs.key) AS key,
           coalesce(index_pairs.booked, 0) AS in_index, coalesce(counted.booked, 0) AS in_journal
    FROM (SELECT name, substring(sha2(name, 256), 1, 32) AS key, booked
          FROM (SELECT substring(pair, 2) AS name,
                       CAST(sum(CASE WHEN substring(pair, 1, 1) = '-' THEN -1 ELSE 1 END) AS bigint) AS booked
                FROM indexed WHERE pair IS NOT NULL AND decision IN ('applied', 'unknown')
                GROUP BY substring(pair, 2)) AS sums) AS counted
    FULL OUTER JOIN index_pairs ON index_pairs.key = counted.key
    WHERE coalesce(index_pairs.booked, 0) <> coalesce(counted.booked, 0)
"""


def _compare_counts(evidence: Evidence, index: Index) -> tuple[dict[str, int], list[dict[str, Any]]]:
    [keys] = evidence.rows(
        """
        SELECT count(*) FILTER (WHERE holds AND event_key IS NOT NULL) - count(*) FILTER (WHERE releases) AS event,
               count(*) FILTER (WHERE decision IN ('applied', 'unknown') AND fact_key IS NOT NULL) AS fact
        FROM indexed
        """
    )
    [items] = evidence.rows(
        """
        SELECT count(*) FILTER (WHERE mine) AS open, count(*) FILTER (WHERE mine AND decision = 'dead') AS dead,
               count(*) AS every_open, count(*) FILTER (WHERE decision = 'dead') AS every_dead
        FROM indexed_items
        """
    )
    key_counts = {row["kind"]: row["count"] for row in evidence.rows(_KEY_COUNTS)}
    index_counts = {"open": index.open_count(), "dead": index.dead_count()}
    if index_counts == {kind: items[f"every_{kind}"] for kind in index_counts}:
        index_counts = {kind: items[kind] for kind in index_counts}
    journal = {**keys, "open": items["open"], "dead": items["dead"]}
    counted = {"event": key_counts.get("event", 0), **index_counts}
    other = [
        {"problem": f"the index holds another number of {kind} keys or items", "index": count, "journal": journal[kind]}
        for kind, count in (*counted.items(), ("fact", key_counts.get("fact", 0)))
        if journal[kind] != count
    ]
    return counted, other


_KEY_COUNTS = "SELECT kind, count(*) AS count FROM index_keys GROUP BY kind"

NO_SEQ = -1
"""Stands for the seq of a record that names none: no dead row has it, so the record is an offender."""

_LETTERS = pa.schema([("seq", pa.int64()), ("partition", pa.int32()), ("record_sha256", pa.string())])
_HELD = pa.schema([("partition", pa.int32()), ("held_since", TIMESTAMP)])
LETTERS_PER_BATCH = 10_000


class DlqEqualsOpenDead(PromiseInvariant):
    name = "dlq_equals_open_dead"
    looked_past = "dead letters of earlier rows"

    def check(self, evidence: Evidence) -> Finding:
        evidence.engine.add_table("letters", _read_letters(evidence), _LETTERS)
        evidence.add_rows("letters_held", _HELD, list(_read_held_since(evidence)))
        return super().check(evidence)

    def count_figures(self, evidence: Evidence) -> dict[str, Any]:
        return {"published_upto": evidence.state.published_upto}


def _read_letters(evidence: Evidence) -> Iterator[pa.RecordBatch]:
    if not any(high > low for low, high in evidence.dlq_ends.values()):
        return
    given_up = list(find_cuts(evidence.state.notes))
    letters = (
        {
            "seq": seq,
            "partition": partition,
            "record_sha256": None if record.value is None else hashlib.sha256(record.value).hexdigest(),
        }
        for partition, record in evidence.kafka.records(evidence.lake.dlq_topic)
        for seq, decided_at in [_parse_seq_and_time(record)]
        # Of rows that the journal gave up when it continued an older copy.
        if not any(seq > after and decided_at is not None and decided_at < at for after, at in given_up)
    )
    while batch := list(islice(letters, LETTERS_PER_BATCH)):
        yield pa.RecordBatch.from_pylist(batch, _LETTERS)


def _parse_seq_and_time(record: TopicRecord) -> tuple[int, Any]:
    """Reads a dead letter's seq and time. One without a copy of the record has them behind KIP-1191's header prefix."""
    texts = {
        name.removeprefix(KIP_1191): raw.decode("utf-8", "replace") for name, raw in record.headers if raw is not None
    }
    seq, decided_at = NO_SEQ, None
    try:
        seq = int(texts[SEQ_HEADER])
        decided_at = from_rfc3339(texts[DECIDED_HEADER])
    except (KeyError, ValueError):
        pass
    return seq, decided_at


def _read_held_since(evidence: Evidence) -> Iterable[dict[str, Any]]:
    for partition, (low, high) in evidence.dlq_ends.items():
        if low > 0:
            oldest = evidence.kafka.timestamp(evidence.lake.dlq_topic, partition, low) if high > low else None
            yield {"partition": partition, "held_since": oldest or evidence.now}
