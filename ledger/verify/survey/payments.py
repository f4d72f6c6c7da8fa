"""What was moved of each payment, as numbers that are sorted: by them a payment that doesn't add up shows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledger.accounts import Role
from ledger.verify.survey.bookings import MERCHANT, Lines
from ledger.verify.survey.facts import Doubt
from ledger.verify.survey.texts import sha256_of

MOVED = np.dtype([("key", "<u8"), ("merchant", "<u8"), ("currency", "<u8"), ("role", "u1"), ("minor", "<i8")])
"""One line of a merchant's account. ``key``, ``merchant`` and ``currency`` are of hashes; ``merchant`` is 0 where the
entity is a merchant account as a whole. ``minor``: debit less credit, in the currency's minor unit."""

NO_MERCHANT = 0
_ROLES = {role.value: number for number, role in enumerate(Role)}
_PAYOUT_FAILED = len(_ROLES)
"""As a role: a line of ``payouts`` whose fact is a payout that failed."""

PAYOUT_FAILED_SUFFIX = ":payout_failed"
"""Ends the fact key of a payout that failed. Its accounts alone may be those of a payout below zero."""


def moved(lines: Lines, rows: pa.RecordBatch) -> np.ndarray:
    """One `MOVED` for each line of a merchant's account, of rows that name their entity.

    :param rows: the booking rows that the lines are of
    """
    accounts = lines.account.dictionary_encode()
    owners = [name.split(":") for name in accounts.dictionary.to_pylist()]
    known = [len(name) == 3 and name[0] == MERCHANT[:-1] and name[2] in _ROLES for name in owners]
    of_line = accounts.indices.to_numpy()
    there = rows["entity_key"].is_valid().to_numpy(zero_copy_only=False)
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
