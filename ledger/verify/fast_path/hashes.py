"""Hashes of rows and of keys as numbers: they show a wrong row, another set of keys, a key that took effect twice."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from journal.schema import HASHED_COLUMNS, LATER_COLUMNS

SEPARATOR, NULL = "\x1f", "\x00"
HASH_CHARS = 64


def wrong_hashes(rows: pa.RecordBatch) -> np.ndarray:
    """For each row whether ``row_hash`` isn't the hash of the others."""
    computed = sha256_of(row_texts(rows)).hex()
    recorded = rows["row_hash"]
    try:
        chars = fixed_chars(recorded, HASH_CHARS)
    except ValueError:
        hashes = [computed[at : at + HASH_CHARS] for at in range(0, len(computed), HASH_CHARS)]
        return np.array([one != hashed for one, hashed in zip(recorded.to_pylist(), hashes, strict=True)], "?")
    width = (len(recorded), HASH_CHARS // 8)
    differ = np.frombuffer(computed.encode("ascii"), "u8").reshape(width) != np.frombuffer(chars, "u8").reshape(width)
    found: np.ndarray = differ.any(axis=1)
    return found


def row_texts(rows: pa.RecordBatch) -> pa.Array:
    """What is hashed of each row. Columns that hold one value throughout are put together beforehand."""
    parts: list[pa.Array | str] = []
    for name in HASHED_COLUMNS:
        part = _constant(rows[name])
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += SEPARATOR + part
        else:
            parts.append(part)
    joined = pc.binary_join_element_wise(*parts, SEPARATOR, null_handling="replace", null_replacement=NULL)
    there = [rows[name] for name in LATER_COLUMNS if name in rows.schema.names]
    if all(column.null_count == len(column) for column in there):
        return _repeated(joined, len(rows))
    names = [name for name in LATER_COLUMNS if name in rows.schema.names]
    later = [pc.binary_join_element_wise(f"{name}=", rows[name].cast(pa.string()), "") for name in names]
    return pc.binary_join_element_wise(_repeated(joined, len(rows)), *later, SEPARATOR, null_handling="skip")


def sha256_of(texts: pa.Array) -> bytes:
    """The SHA-256 of each text, one after the other; no text is NULL."""
    sha256 = hashlib.sha256
    return b"".join([sha256(text).digest() for text in texts.cast(pa.binary()).to_pylist()])


def fixed_chars(texts: pa.Array, chars: int) -> bytes:
    """The bytes of all texts, one after the other.

    :raises ValueError: one is NULL, or has another length
    """
    lengths = pc.binary_length(texts)
    if texts.null_count or not pc.all(pc.equal(lengths, chars), min_count=0).as_py():
        raise ValueError(f"not every text has {chars} bytes")
    raw = texts.cast(pa.binary())
    _, ends, data = raw.buffers()
    if data is None:
        return b""
    start = int(np.frombuffer(ends, "<i4", count=1, offset=4 * raw.offset)[0])
    return bytes(data.slice(start, chars * len(raw)))


def _constant(column: pa.Array) -> pa.Array | str:
    """The column as texts; its one value where it has no other."""
    if column.null_count == len(column):
        return NULL
    if pa.types.is_dictionary(column.type):
        if column.null_count == 0 and len(column.dictionary) == 1:
            return str(column.dictionary[0].as_py())
        return column.cast(pa.string())
    values = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    if column.null_count or values[0] != values[-1] or not pc.all(pc.equal(values, values[0])).as_py():
        return values.cast(pa.string())
    return str(values[:1].cast(pa.string())[0].as_py())


def _repeated(joined: pa.Array | pa.Scalar, count: int) -> pa.Array:
    return pa.repeat(joined, count) if isinstance(joined, pa.Scalar) else joined


SALT_BYTES = 32
"""Drawn for each verification: an index with other keys can't be prepared to have the same digest."""


@dataclass(frozen=True, slots=True)
class KeyDigest:
    """How many, and their hashes' sum and exclusive or."""

    count: int = 0
    sum: int = 0
    xor: int = 0

    def __add__(self, other: KeyDigest) -> KeyDigest:
        return KeyDigest(self.count + other.count, (self.sum + other.sum) & _ALL, self.xor ^ other.xor)

    def __sub__(self, other: KeyDigest) -> KeyDigest:
        return KeyDigest(self.count - other.count, (self.sum - other.sum) & _ALL, self.xor ^ other.xor)


def key_digest(hashes: np.ndarray, values: np.ndarray, versions: np.ndarray, salt: bytes) -> KeyDigest:
    """
    :param hashes: two numbers a key
    :param values: what is held of it, as a number
    :param versions: and which version of that
    """
    if len(hashes) == 0:
        return KeyDigest()
    salts = np.frombuffer(salt, "<u8")
    found = np.zeros(len(hashes), "u8")
    for part, by in zip((hashes[:, 0], hashes[:, 1], values, versions), salts, strict=True):
        found = _mixed((found ^ part.astype("u8")) + by)
    return KeyDigest(len(hashes), int(np.add.reduce(found)), int(np.bitwise_xor.reduce(found)))


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = numbers ^ (numbers >> np.uint64(31))
    return mixed


_ALL = (1 << 64) - 1


KEY = np.dtype([("key", "<u8"), ("at", "<i8"), ("is", "u1")])
"""``key``: of its hash. ``at``: in which order it came. ``is``: `TOOK`, `HELD`, `COPY` or several of them."""

TOOK, HELD, COPY = 1, 2, 4
"""It took effect, it holds the key, it is a copy of what holds it."""

_NEVER = np.iinfo("i8").max


def key_hashes(keys: pa.Array) -> np.ndarray:
    """The first 16 bytes of each key's SHA-256 (`core.keys.hash16`), as two numbers a row; no key is NULL."""
    return np.frombuffer(sha256_of(keys), "<u8").reshape(-1, 4)[:, :2]


def entries(hashes: np.ndarray, at: np.ndarray, roles: np.ndarray) -> np.ndarray:
    """One `KEY` each."""
    found = np.empty(len(hashes), KEY)
    found["key"], found["at"], found["is"] = hashes[:, 0], at, roles
    return found


def shares(found: np.ndarray, by: np.ndarray, count: int) -> list[np.ndarray]:
    """Split into ``count`` buckets by a number that is the same for what belongs together."""
    if count == 1:
        return [found]
    # Numbers of 16 bits are sorted by their digits, at a tenth of what it takes to compare them.
    bucket = (by % np.uint64(count)).astype("u2")
    order = np.argsort(bucket, kind="stable")
    ends = np.searchsorted(bucket[order], np.arange(1, count))
    return np.split(found[order], ends)


def is_doubtful(parts: Sequence[np.ndarray], *, whole: bool) -> bool:
    """Whether a key took effect twice, is held by none or two, or has a copy from before it was held.

    Different keys share a number once in 10^5 journals of ten million: then in doubt though all is well, no harm.

    :param whole: that nothing holds a key counts only in a journal that is looked at from its start
    """
    found = np.concatenate(parts) if parts else np.empty(0, KEY)
    several = _of_several_rows(found["key"])
    if whole and not (found["is"][~several] & HELD).all():
        return True
    return _are_doubtful(found[several], whole=whole)


def _of_several_rows(numbers: np.ndarray) -> np.ndarray:
    """Of each number whether it is there more than once: hardly any is, and numbers alone are sorted at once."""
    in_order = np.sort(numbers)
    again = np.unique(in_order[1:][in_order[1:] == in_order[:-1]])
    if not len(again):
        return np.zeros(len(numbers), "?")
    at = np.minimum(np.searchsorted(again, numbers), len(again) - 1)
    found: np.ndarray = again[at] == numbers
    return found


def _are_doubtful(found: np.ndarray, *, whole: bool) -> bool:
    if len(found) == 0:
        return False
    found = found[np.argsort(found["key"], kind="stable")]
    begins = np.flatnonzero(np.concatenate([[True], found["key"][1:] != found["key"][:-1]]))
    took, held, copy = ((found["is"] & role) > 0 for role in (TOOK, HELD, COPY))
    holders = np.add.reduceat(held.astype("i4"), begins)
    held_at = np.minimum.reduceat(np.where(held, found["at"], _NEVER), begins)
    copied_at = np.minimum.reduceat(np.where(copy, found["at"], _NEVER), begins)
    wrong = (np.add.reduceat(took.astype("i4"), begins) > 1) | (holders > 1)
    wrong |= (copied_at < held_at) & (holders > 0)
    if whole:
        wrong |= holders == 0
    return bool(wrong.any())
