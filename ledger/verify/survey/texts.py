"""The hash of every row of a batch, from the text that `journal.schema.row_hash` hashes."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from journal.schema import HASHED_COLUMNS, LATER_COLUMNS

SEPARATOR, NULL = "\x1f", "\x00"
HASH_CHARS = 64


def wrong_hashes(rows: pa.RecordBatch) -> np.ndarray:
    """For each row whether ``row_hash`` isn't the hash of the others."""
    computed = sha256_of(row_texts(rows)).hex()
    told = rows["row_hash"]
    try:
        recorded = fixed_chars(told, HASH_CHARS)
    except ValueError:
        hashes = [computed[at : at + HASH_CHARS] for at in range(0, len(computed), HASH_CHARS)]
        return np.array([one != hashed for one, hashed in zip(told.to_pylist(), hashes, strict=True)], "?")
    width = (len(told), HASH_CHARS // 8)
    differ = np.frombuffer(computed.encode("ascii"), "u8").reshape(width) != np.frombuffer(recorded, "u8").reshape(
        width
    )
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
