"""The bookings of a batch of rows line by line: whether each balances, and what was moved of each payment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ledger.accounts import Role, merchant_of
from ledger.verify.fast_path.hashes import sha256_of
from ledger.verify.fast_path.results import Doubt

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
        """`ledger.accounts.merchants_of` of each line."""
        accounts = self.account.dictionary_encode()
        names = [merchant_of(name) for name in accounts.dictionary.to_pylist()]
        code = np.array([at if name is not None else -1 for at, name in enumerate(names)], "i4")
        of_line = code[accounts.indices.to_numpy()] if len(self.row) else np.empty(0, "i4")
        named = np.flatnonzero(of_line >= 0)
        rows, at = np.unique(self.row[named], return_index=True)
        of_row = np.full(int(self.row[-1]) + 1 if len(self.row) else 0, -1, "i4")
        of_row[rows] = of_line[named[at]]
        found = np.where(of_line >= 0, of_line, of_row[self.row])
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


MOVED = np.dtype([("key", "<u8"), ("merchant", "<u8"), ("currency", "<u8"), ("role", "u1"), ("minor", "<i8")])
"""One line of a merchant's account. ``key``, ``merchant`` and ``currency`` are of hashes; ``merchant`` is 0 where the
entity is a merchant account as a whole. ``minor``: debit less credit, in the currency's minor unit."""

NO_MERCHANT = 0
_ROLES = {role.value: number for number, role in enumerate(Role)}
_PAYOUT_FAILED = len(_ROLES)
"""As a role: a line of ``payouts`` whose fact is a payout that failed."""

PAYOUT_FAILED_SUFFIX = ":payout_failed"
"""Ends the fact key of a payout that failed. Its accounts alone may be those of a payout below zero."""


def moved(lines: Lines, rows: pa.RecordBatch, own: np.ndarray) -> np.ndarray:
    """One `MOVED` for each line of a merchant's account, of rows that name their entity.

    :param rows: the booking rows that the lines are of
    :param own: of each whether its entity is the shard's
    """
    accounts = lines.account.dictionary_encode()
    owners = [name.split(":") for name in accounts.dictionary.to_pylist()]
    known = [len(name) == 3 and name[0] == "merchant" and name[2] in _ROLES for name in owners]
    of_line = accounts.indices.to_numpy()
    there = rows["entity_key"].is_valid().to_numpy(zero_copy_only=False) & own
    at = np.flatnonzero(np.array(known, "?")[of_line] & there[lines.row]) if len(of_line) else np.empty(0, "i8")
    found = np.empty(len(at), MOVED)
    if not len(at):
        return found
    few, row = of_line[at], lines.row[at]
    entities = pc.fill_null(rows["entity_key"].cast(pa.string()), "")
    found["key"] = _hashes(entities)[row]
    roles = [_ROLES[name[2]] if is_known else 0 for name, is_known in zip(owners, known, strict=True)]
    found["role"] = np.array(roles, "u1")[few]
    payout = found["role"] == _ROLES[Role.PAYOUTS]
    if payout.any():
        failed = pc.fill_null(pc.ends_with(rows["fact_key"].cast(pa.string()), PAYOUT_FAILED_SUFFIX), False)
        found["role"][payout & failed.to_numpy(zero_copy_only=False)[row]] = _PAYOUT_FAILED
    merchants = _hashes(pa.array([name[1] if len(name) == 3 else "" for name in owners], pa.string())) | np.uint64(1)
    found["merchant"] = np.where(names_a_payment(entities)[row], merchants[few], np.uint64(NO_MERCHANT))
    currencies = lines.currency.dictionary_encode()
    found["currency"] = _hashes(currencies.dictionary.cast(pa.string()))[currencies.indices.to_numpy()[at]]
    debit = pc.equal(lines.side, "debit").to_numpy(zero_copy_only=False)[at]
    amount = lines.amount_minor.to_numpy()[at]
    found["minor"] = np.where(debit, amount, -amount)
    return found


def names_a_payment(entities: pa.Array) -> np.ndarray:
    """Of each entity key whether it is ``provider:account:payment``, not ``provider:account``."""
    found: np.ndarray = pc.greater_equal(pc.count_substring(entities, ":"), 2).to_numpy(zero_copy_only=False)
    return found


def taken_back(found: np.ndarray) -> int:
    """Lines of other movements than captures and payouts."""
    forward = (found["role"] == _ROLES[Role.PAYABLE]) & (found["minor"] < 0)
    return int(np.count_nonzero(~(forward | (found["role"] == _ROLES[Role.PAYOUTS]))))


def doubts_of(parts: Sequence[np.ndarray]) -> set[Doubt]:
    """What is doubted of payments all of whose lines are given, in any order."""
    found = np.concatenate(parts) if parts else np.empty(0, MOVED)
    if not len(found):
        return set()
    found = found[np.lexsort((found["currency"], found["key"]))]
    other_key = found["key"][1:] != found["key"][:-1]
    other_sum = other_key | (found["currency"][1:] != found["currency"][:-1])
    merchants = found["merchant"]
    several = (merchants[1:] != merchants[:-1]) & ~other_key
    doubts = {Doubt.MERCHANTS} if several.any() else set()
    begins = np.flatnonzero(np.concatenate([[True], other_sum]))
    sums = [
        np.add.reduceat(np.where(found["role"] == role, found["minor"], 0), begins)
        for role in range(_PAYOUT_FAILED + 1)
    ]
    by_role = dict(zip(Role, sums, strict=False))
    captured, refunded, disputed = -by_role[Role.PAYABLE], by_role[Role.REFUNDS], by_role[Role.DISPUTES]
    paid, failed = by_role[Role.PAYOUTS], -sums[_PAYOUT_FAILED]
    kept = (failed == 0) | ((failed > 0) & (failed <= paid)) | ((failed < 0) & (failed >= paid))
    if (captured < 0).any() or (refunded < 0).any() or (disputed < 0).any() or not kept.all():
        doubts.add(Doubt.UNDONE)
    given_back = refunded + disputed + by_role[Role.DISPUTE_LOSSES]
    if ((given_back > 0) & (given_back > captured)).any():
        doubts.add(Doubt.GIVEN_BACK)
    return doubts


def _hashes(texts: pa.Array) -> np.ndarray:
    """The first eight bytes of each text's SHA-256, as a number."""
    return np.frombuffer(sha256_of(texts), "<u8").reshape(-1, 4)[:, 0]
