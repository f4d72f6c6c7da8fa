"""Who held which key, as numbers that are sorted: by them a key that took effect twice shows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ledger.verify.survey.texts import sha256_of

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

    :param whole: that nothing holds a key is said only of a journal that is looked at from its start
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
