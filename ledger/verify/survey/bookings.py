"""The bookings of a batch of rows, line by line, and whether each balances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

AMOUNT_MINOR_SURE = 1 << 53
"""Sums of amounts up to here can't leave 64 bits; a greater one is looked at exactly."""

_LINE = pa.struct(
    [
        pa.field("account", pa.string()),
        pa.field("side", pa.string()),
        pa.field("amount_minor", pa.int64()),
        pa.field("currency", pa.string()),
    ]
)
_PARSE = pj.ParseOptions(
    explicit_schema=pa.schema([pa.field("lines", pa.list_(_LINE))]), unexpected_field_behavior="error"
)
MERCHANT = "merchant:"


@dataclass(frozen=True, slots=True)
class Lines:
    """``row`` is each line's row among those that were given, ``number`` its place in the booking."""

    row: np.ndarray
    number: np.ndarray
    account: pa.Array
    side: pa.Array
    amount_minor: pa.Array
    currency: pa.Array

    def merchants(self) -> pa.Array:
        """Of each line, the merchant whose account its booking names first (`ledger.accounts.merchant_of`)."""
        accounts = self.account.dictionary_encode()
        names = [name.split(":")[1] if name.startswith(MERCHANT) else None for name in accounts.dictionary.to_pylist()]
        code = np.array([at if name is not None else -1 for at, name in enumerate(names)], "i4")
        of_line = code[accounts.indices.to_numpy()] if len(self.row) else np.empty(0, "i4")
        named = np.flatnonzero(of_line >= 0)
        rows, at = np.unique(self.row[named], return_index=True)
        of_row = np.full(int(self.row[-1]) + 1 if len(self.row) else 0, -1, "i4")
        of_row[rows] = of_line[named[at]]
        found = of_row[self.row]
        return pa.DictionaryArray.from_arrays(
            pa.array(found, mask=found < 0), pa.array(names, pa.string())
        ).dictionary_decode()


def lines_of(postings: pa.Array) -> Lines | None:
    """The lines of bookings, none of which is NULL; None where one isn't of the kind that `core.work` writes."""
    if len(postings) == 0:
        return _nothing()
    text = pc.binary_join_element_wise('{"lines":', postings, "}\n", "")
    try:
        _, ends, data = text.buffers()
        size = int(np.frombuffer(ends, "<i4", count=1, offset=4 * len(text))[0])
        whole = pj.ReadOptions(use_threads=False, block_size=size + 1)
        parsed = pj.read_json(pa.BufferReader(data.slice(0, size)), whole, _PARSE)["lines"].combine_chunks()
    except pa.ArrowInvalid:
        return None
    if len(parsed) != len(postings) or parsed.null_count:
        return None
    line, sizes = parsed.flatten(), np.diff(parsed.offsets.to_numpy())
    if line.null_count or any(line.field(at).null_count for at in range(4)) or (sizes < 1).any():
        return None
    number = np.arange(len(line), dtype="i4") - np.repeat(np.cumsum(sizes) - sizes, sizes).astype("i4")
    return Lines(np.repeat(np.arange(len(sizes)), sizes), number, *(line.field(at) for at in range(4)))


def are_balanced(lines: Lines) -> bool:
    """Whether each booking has two lines at least, and as much debit as credit in each currency."""
    if len(lines.row) == 0:
        return True
    amount = lines.amount_minor.to_numpy()
    if amount.min() <= 0 or amount.max() > AMOUNT_MINOR_SURE or np.bincount(lines.row).min() < 2:
        return False
    debit = pc.equal(lines.side, "debit").to_numpy(zero_copy_only=False)
    if not (debit | pc.equal(lines.side, "credit").to_numpy(zero_copy_only=False)).all():
        return False
    currency = lines.currency.dictionary_encode()
    place = lines.row * len(currency.dictionary) + currency.indices.to_numpy()
    order = np.argsort(place, kind="stable")
    begins = np.flatnonzero(np.concatenate([[True], np.diff(place[order]) != 0]))
    return not np.add.reduceat(np.where(debit, amount, -amount)[order], begins).any()


def _nothing() -> Lines:
    none = np.empty(0, "i8")
    return Lines(none, none.astype("i4"), *(pa.array([], field.type) for field in _LINE))
