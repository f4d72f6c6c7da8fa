"""Invariants between the journal and what is derived from it: postings, the key index, dead letters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from core.keys import hash16
from dlq.record import DECIDED_HEADER, SEQ_HEADER
from journal import index_layout as layout
from journal.histories import cuts
from journal.index import Entries, Index
from ledger.postings import MERCHANT_OF_LINE
from ledger.verify.evidence import Evidence
from ledger.verify.fast_path import Doubt
from ledger.verify.fast_path.hashes import KeyDigest, key_digest
from ledger.verify.index_lookup import event_problem, look_up
from ledger.verify.report import Finding, Invariant
from ledger.verify.views import collect

_UNEQUAL = """
    SELECT line.*, sum(weight) AS journal_minus_postings FROM (
        SELECT struct(
                   seq, at AS line, event_key, fact_key, entity_key, provider,
                   {merchant} AS merchant,
                   posting.account, posting.side, posting.amount_minor, posting.currency,
                   occurred_at, decided_at) AS line,
               1 AS weight
        FROM booked LATERAL VIEW explode(array(lines)) AS parsed
                    LATERAL VIEW posexplode(parsed) AS at, posting
        WHERE books AND postings IS NOT NULL
        UNION ALL
        SELECT struct(
                   seq, line, event_key, fact_key, entity_key, provider, merchant,
                   account, side, amount_minor, currency, occurred_at, decided_at),
               -1
        FROM postings)
    GROUP BY line HAVING sum(weight) <> 0
    """


class PostingsEqualJournal(Invariant):
    name = "postings_equal_journal"
    sentence = "The postings table holds exactly the lines that the journal booked, up to its mark."

    def check(self, evidence: Evidence) -> Finding:
        mark = evidence.postings_mark
        if mark is None:
            missing = "there is no table of postings; the processor makes it when it starts"
            return self.finding(evidence, (), {"mark": None}, not_checked=missing)
        offenders = evidence.search(
            Doubt.POSTINGS,
            _UNEQUAL.format(merchant=MERCHANT_OF_LINE.format(lines="parsed")),
        )
        if mark > evidence.seq:
            ahead = {"problem": "postings are ahead of the journal", "mark": mark, "seq": evidence.seq}
            offenders = [ahead, *offenders][: evidence.sample_max]
        figures = {"mark": mark, "behind": max(0, evidence.seq - mark)}
        unknown = evidence.in_part("lines of earlier rows")
        return self.finding(evidence, offenders, figures, unknown)


class IndexEqualsJournal(Invariant):
    """Open items that another shard goes on with are forgotten when a processor opens the index (`Index.keep`): it has
    none of them, or all where none has opened it since the journal was divided.
    """

    name = "index_equals_journal"
    sentence = "The key index knows exactly the event keys, facts and open items of the journal, up to its mark."

    def check(self, evidence: Evidence) -> Finding:
        index, root = evidence.index, evidence.lake.index
        if index is None:
            missing = evidence.no_index or "there is no key index here; a start of the processor makes it"
            return self.finding(evidence, (), {"seq": None}, not_checked=missing)
        figures = {"seq": index.seq, "behind": evidence.seq - index.seq}
        if index.seq > evidence.seq:
            ahead = {"problem": "the index is ahead of the journal", "index_seq": index.seq, "seq": evidence.seq}
            return self.finding(evidence, (ahead,), figures)
        if not evidence.is_whole:
            found = look_up(evidence.session, root, evidence.sample_max, evidence.seq - evidence.base.seq)
            unknown = "keys of earlier rows, and keys without a row"
            return self.finding(evidence, found.offenders, figures, unknown)
        # Before the fast path, which other threads wait for meanwhile.
        keys = held(index, evidence.salt)
        if (counts := cleared(index, keys, evidence)) is not None:
            return self.finding(evidence, (), figures | counts)
        found = look_up(evidence.session, root, evidence.sample_max, evidence.seq)
        offenders = list(found.offenders)
        there = {"open": index.open_count(), "dead": index.dead_count()}
        if all(there[kind] == found.counts[kind] + found.counts[f"{kind}_elsewhere"] for kind in there):
            there = {kind: found.counts[kind] for kind in there}
        counted = {"event": _count(index.event_entries()), **there}
        for kind, count in (*counted.items(), ("fact", _count(index.fact_entries()))):
            if found.counts[kind] != count:
                problem = f"the index holds another number of {kind} keys or items"
                offenders.append({"problem": problem, "index": count, "journal": found.counts[kind]})
        return self.finding(evidence, offenders, figures | counted)


def _count(entries: Iterator[Entries]) -> int:
    return sum(len(keys) for keys, _ in entries)


HASH_BYTES = 16


@dataclass(frozen=True, slots=True)
class Held:
    """What the index's keys come to; None where an entry isn't of the form that the index writes."""

    events: KeyDigest | None
    facts: KeyDigest | None


def held(index: Index, salt: bytes) -> Held:
    """Reads all of the index's keys in their order."""
    events = _digest(index.event_entries(), layout.EVENT, salt)
    return Held(events, _digest(index.fact_entries(), layout.FACT, salt))


def cleared(index: Index, keys: Held, evidence: Evidence) -> dict[str, int] | None:
    """How many keys and items the index holds, if all are those of the journal; None: it must be looked at exactly."""
    fast = evidence.fast_path()
    if not fast.clears(Doubt.ITEMS) or keys.events is None or keys.facts != fast.facts:
        return None
    apart = _purged(index, evidence)
    if apart is None or keys.events - apart[0] != fast.events - apart[1]:
        return None
    others = fast.elsewhere_indexed
    counts = {"open": len(fast.open_indexed), "dead": fast.open_indexed.dead()}
    unkept = {"open": counts["open"] + len(others), "dead": counts["dead"] + others.dead()}
    if {"open": index.open_count(), "dead": index.dead_count()} not in (counts, unkept):
        return None
    if not all(_is_open(index, item, last) for item, last, _ in fast.open_indexed):
        return None
    if not all(map(index.is_reversed, fast.reversed_indexed)):
        return None
    if any(index.reopened_at(item) is None for item in fast.reopened_indexed):
        return None
    return {"event": fast.events.count, **counts}


def _purged(index: Index, evidence: Evidence) -> tuple[KeyDigest, KeyDigest] | None:
    """What the keys that people purged come to, as the index holds them and as the journal does; None: one is wrong.

    Once its holder is purged, a key may be another content's: each is looked up by itself.
    """
    there, here = KeyDigest(), KeyDigest()
    purged = evidence.fast_path().purged
    if not purged:
        return there, here
    rows = evidence.session.table("indexed").where(fn.col("holds") & fn.col("event_key").isin(*purged))
    for row in collect(rows.select("event_key", "content_sha256", "content_version")):
        key, content, version = row["event_key"], row["content_sha256"] or "", row["content_version"] or 0
        known = index.known_event(key)
        if known is None or event_problem(index, key, content, version) is not None:
            return None
        there += _of_one(key, known.content8, known.content_version, evidence.salt)
        here += _of_one(key, layout.content8(content), version, evidence.salt)
    return there, here


def _of_one(key: str, content: bytes, version: int, salt: bytes) -> KeyDigest:
    hashes = np.frombuffer(hash16(key), "<u8").reshape(1, 2)
    return key_digest(hashes, np.frombuffer(content, "<u8"), np.array([version], "u8"), salt)


def _is_open(index: Index, item_seq: int, last_seq: int) -> bool:
    found = index.open_item(item_seq)
    return found is not None and found.last_seq >= last_seq


def _digest(entries: Iterator[Entries], prefix: bytes, salt: bytes) -> KeyDigest | None:
    """Of all entries; None where one isn't of the form that the index writes."""
    found = KeyDigest()
    for keys, values in entries:
        if not keys:
            continue
        key_bytes, value_bytes = len(prefix) + HASH_BYTES, min(map(len, values))
        versioned = value_bytes == layout.CONTENT_BYTES + 1
        if set(map(len, keys)) != {key_bytes} or not (versioned or value_bytes == layout.CONTENT_BYTES):
            return None
        if max(map(len, values)) > value_bytes:
            if any(value[value_bytes:] not in (b"", layout.PURGED) for value in values):
                return None
            values = [value[:value_bytes] for value in values]
        hashes = np.frombuffer(b"".join(keys), "u1").reshape(len(keys), key_bytes)[:, len(prefix) :].tobytes()
        value = np.frombuffer(b"".join(values), "u1").reshape(len(keys), value_bytes)
        version = value[:, layout.CONTENT_BYTES] if versioned else np.zeros(len(keys), "u1")
        content = np.frombuffer(value[:, : layout.CONTENT_BYTES].tobytes(), "<u8")
        found += key_digest(np.frombuffer(hashes, "<u8").reshape(-1, 2), content, version.astype("u8"), salt)
    return found


NO_SEQ = -1
"""Stands for the seq of a record that names none: no dead row has it, so the record is an offender."""


class DlqEqualsOpenDead(Invariant):
    name = "dlq_equals_open_dead"
    sentence = (
        "Every dead row that counts as published is on the dead-letter topic with its bytes, and nothing else is."
    )

    def check(self, evidence: Evidence) -> Finding:
        figures = {"published_upto": evidence.state.published_upto}
        if _nothing_died(evidence):
            return self.finding(evidence, (), figures)
        _dead_rows(evidence).unionByName(_records(evidence)).createOrReplaceTempView("dead_letters")
        offenders = evidence.sample(
            """
            SELECT * FROM (
                SELECT seq, count_if(NOT is_record) AS dead_rows, count_if(is_record) AS records,
                       count(record_sha256) AS with_bytes, max(row_sha256) AS row_sha256,
                       min(record_sha256) AS record_sha256, max(record_sha256) AS other_sha256,
                       min(partition) AS partition, max(partition) AS other_partition, bool_or(expected) AS expected
                FROM dead_letters GROUP BY seq)
            WHERE dead_rows = 0 OR (expected AND records = 0) OR partition <> other_partition
               OR (with_bytes > 0 AND NOT (row_sha256 <=> record_sha256 AND row_sha256 <=> other_sha256))
            """
        )
        unknown = evidence.in_part("dead letters of earlier rows")
        return self.finding(evidence, offenders, figures, unknown)


def _nothing_died(evidence: Evidence) -> bool:
    """Nothing to compare: no row is dead, and the topic is empty."""
    fast = evidence.fast_path()
    empty = not any(high > low for low, high in evidence.dlq_ends.values())
    return empty and fast.clears(Doubt.READ) and fast.dead_rows == 0


def _dead_rows(evidence: Evidence) -> DataFrame:
    """Those that a journal has from another one are on that one's topic."""
    rows = evidence.session.table("journal").where(f"decision = 'dead' AND seq > {evidence.own_after}")
    expected = (fn.col("seq") <= evidence.state.published_upto) & _retained(evidence)
    return rows.select(
        "seq",
        "partition",
        fn.lit(False).alias("is_record"),
        fn.col("body_sha256").alias("row_sha256"),
        fn.lit(None).cast("string").alias("record_sha256"),
        expected.alias("expected"),
    )


def _records(evidence: Evidence) -> DataFrame:
    """What the topic holds of dead rows up to the pinned seq; later ones belong to a later verification."""
    session = evidence.session
    if not any(high > low for low, high in evidence.dlq_ends.values()):
        topic = session.createDataFrame([], "partition int, seq bigint, record_sha256 string")
    else:
        topic = evidence.kafka.frame(session, evidence.lake.dlq_topic).selectExpr(
            "partition",
            f"coalesce(TRY_CAST({_header(SEQ_HEADER)} AS bigint), {NO_SEQ}) AS seq",
            f"TRY_CAST({_header(DECIDED_HEADER)} AS timestamp) AS decided_at",
            "sha2(value, 256) AS record_sha256",
        )
        # Of rows that the journal gave up when it went on from an older copy.
        for after, at in cuts(evidence.state.notes):
            given_up = (fn.col("seq") > after) & (fn.col("decided_at") < fn.lit(at))
            topic = topic.where(~fn.coalesce(given_up, fn.lit(False)))
    looked_at = fn.col("seq").between(evidence.since, evidence.seq) | (fn.col("seq") == NO_SEQ)
    return topic.where(looked_at).select(
        "seq",
        "partition",
        fn.lit(True).alias("is_record"),
        fn.lit(None).cast("string").alias("row_sha256"),
        "record_sha256",
        fn.lit(False).alias("expected"),
    )


def _header(name: str) -> str:
    return f"CAST(get(filter(headers, h -> h.key = '{name}'), 0).value AS string)"


def _retained(evidence: Evidence) -> Column:
    """Whether a row is young enough for its partition still to hold its record."""
    retained = fn.lit(True)
    for partition, (low, high) in evidence.dlq_ends.items():
        if low > 0:
            since = _held_since(evidence, partition, low, high)
            retained &= ~((fn.col("partition") == partition) & (fn.col("decided_at") < fn.lit(since)))
    return retained


def _held_since(evidence: Evidence, partition: int, low: int, high: int) -> datetime:
    oldest = evidence.kafka.timestamp(evidence.lake.dlq_topic, partition, low) if high > low else None
    return oldest or evidence.now
