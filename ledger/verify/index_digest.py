"""Holds the key index against the journal as a whole: digests are compared, instead of millions of keys looked up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from pyspark.sql import functions as fn

from core.keys import hash16
from journal import index_layout as layout
from journal.index import Entries
from ledger.verify.evidence import Evidence, KeyIndex, collect
from ledger.verify.index_lookup import content8, event_problem
from ledger.verify.survey import Doubt
from ledger.verify.survey.digests import KeyDigest, key_digest

HASH_BYTES = 16


@dataclass(frozen=True, slots=True)
class Held:
    """What the index's keys come to; None where an entry isn't of the form that the index writes."""

    events: KeyDigest | None
    facts: KeyDigest | None


def held(index: KeyIndex, salt: bytes) -> Held:
    """Reads all of the index's keys in their order."""
    events = _digest(index.event_entries(), layout.EVENT, salt)
    return Held(events, _digest(index.fact_entries(), layout.FACT, salt))


def cleared(index: KeyIndex, keys: Held, evidence: Evidence) -> dict[str, int] | None:
    """How many keys and items the index holds, if all are those of the journal; None: it must be looked at exactly."""
    survey = evidence.survey()
    if not survey.clears(Doubt.ITEMS) or keys.events is None or keys.facts != survey.facts:
        return None
    apart = _purged(index, evidence)
    if apart is None or keys.events - apart[0] != survey.events - apart[1]:
        return None
    counts = {"open": len(survey.open_indexed), "dead": survey.open_indexed.dead()}
    if counts != {"open": index.open_count(), "dead": index.dead_count()}:
        return None
    if not all(_is_open(index, item, last) for item, last, _ in survey.open_indexed):
        return None
    if not all(map(index.is_reversed, survey.reversed_indexed)):
        return None
    if any(index.reopened_at(item) is None for item in survey.reopened_indexed):
        return None
    return {"event": survey.events.count, **counts}


def _purged(index: KeyIndex, evidence: Evidence) -> tuple[KeyDigest, KeyDigest] | None:
    """What the keys that people purged come to, as the index holds them and as the journal does; None: one is wrong.

    Once its holder is purged, a key may be another content's: each is looked up by itself.
    """
    there, here = KeyDigest(), KeyDigest()
    purged = evidence.survey().purged
    if not purged:
        return there, here
    rows = evidence.session.table("indexed").where(fn.col("holds") & fn.col("event_key").isin(*purged))
    for row in collect(rows.select("event_key", "content_sha256", "content_version")):
        key, content, version = row["event_key"], row["content_sha256"] or "", row["content_version"] or 0
        known = index.known_event(key)
        if known is None or event_problem(index, key, content, version) is not None:
            return None
        there += _of_one(key, known.content8, known.content_version, evidence.salt)
        here += _of_one(key, content8(content), version, evidence.salt)
    return there, here


def _of_one(key: str, content: bytes, version: int, salt: bytes) -> KeyDigest:
    hashes = np.frombuffer(hash16(key), "<u8").reshape(1, 2)
    return key_digest(hashes, np.frombuffer(content, "<u8"), np.array([version], "u8"), salt)


def _is_open(index: KeyIndex, item_seq: int, last_seq: int) -> bool:
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
