"""Every commit by its rows: what the chain is made of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import overload

import numpy as np
import pyarrow as pa

from core.clock import from_micros
from journal.schema import TIMESTAMP
from ledger.verify.fast_path.hashes import HASH_CHARS, fixed_chars

COMMIT = np.dtype(
    [
        *((name, "<i8") for name in ("batch_seq", "rows", "first_seq", "last_seq", "epoch_first", "epoch_last")),
        *((name, "<i8") for name in ("decided_at", "wrong_hashes", "wrong_seq")),
        ("digest", f"S{HASH_CHARS}"),
    ]
)


@dataclass(frozen=True, slots=True)
class CommitDigest:
    """One commit by its rows. ``wrong_hashes``: rows that don't match their hash, the first of which is ``wrong_seq``.

    ``decided_at``: its last row's.
    """

    batch_seq: int
    rows: int
    distinct_seqs: int
    first_seq: int
    last_seq: int
    epoch_first: int
    epoch_last: int
    decided_at: datetime
    digest: str
    wrong_hashes: int
    wrong_seq: int | None


class Commits(Sequence[CommitDigest]):
    """All commits in order, at 136 bytes each."""

    def __init__(self, found: np.ndarray) -> None:
        self._found = found[np.argsort(found["batch_seq"], kind="stable")]

    def are_whole(self) -> bool:
        """Whether none came in pieces that were looked at apart."""
        return bool((np.diff(self._found["batch_seq"]) > 0).all())

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, at: int) -> CommitDigest: ...
    @overload
    def __getitem__(self, at: slice) -> Commits: ...
    def __getitem__(self, at: int | slice) -> CommitDigest | Commits:
        return Commits(self._found[at]) if isinstance(at, slice) else _digest(self._found[at])

    def __iter__(self) -> Iterator[CommitDigest]:
        return map(_digest, self._found)


def _digest(one: np.void) -> CommitDigest:
    return CommitDigest(
        batch_seq=int(one["batch_seq"]),
        rows=int(one["rows"]),
        distinct_seqs=int(one["rows"]),
        first_seq=int(one["first_seq"]),
        last_seq=int(one["last_seq"]),
        epoch_first=int(one["epoch_first"]),
        epoch_last=int(one["epoch_last"]),
        decided_at=from_micros(int(one["decided_at"])),
        digest=one["digest"].decode("ascii"),
        wrong_hashes=int(one["wrong_hashes"]),
        wrong_seq=int(one["wrong_seq"]) or None,
    )


class CommitReader:
    """Puts commits together from batches of rows in seq order. ``disordered``: they weren't in that order."""

    def __init__(self) -> None:
        self.disordered = False
        self._done: list[tuple[int | bytes, ...]] = []
        self._open: list[int] | None = None
        self._hash = hashlib.sha256()
        self._seq = 0

    def add(self, rows: pa.RecordBatch, wrong: np.ndarray) -> None:
        """
        :raises ValueError: a row's hash isn't one
        """
        batch_seq, seq, epoch = (rows[name].to_numpy() for name in ("batch_seq", "seq", "epoch"))
        decided = rows["decided_at"].cast(TIMESTAMP).cast(pa.int64()).to_numpy()
        if seq[0] <= self._seq or (np.diff(seq) <= 0).any():
            self.disordered = True
        self._seq = int(seq[-1])
        hashes = fixed_chars(rows["row_hash"], HASH_CHARS)
        begins = np.flatnonzero(np.concatenate([[True], batch_seq[1:] != batch_seq[:-1]]))
        epochs = np.minimum.reduceat(epoch, begins), np.maximum.reduceat(epoch, begins)
        last_decided = np.maximum.reduceat(decided, begins)
        wrongs = np.add.reduceat(wrong.astype("i8"), begins)
        ends = np.append(begins[1:], len(seq))
        for at, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
            number = int(batch_seq[begin])
            if self._open is None or self._open[0] != number:
                self._close()
                self._open = [number, 0, int(seq[begin]), 0, int(epochs[0][at]), 0, 0, 0, 0]
            one = self._open
            one[1] += end - begin
            one[3] = int(seq[end - 1])
            one[4] = min(one[4], int(epochs[0][at]))
            one[5] = max(one[5], int(epochs[1][at]))
            one[6] = max(one[6], int(last_decided[at]))
            if wrongs[at]:
                one[8] = one[8] or int(seq[begin + int(np.argmax(wrong[begin:end]))])
                one[7] += int(wrongs[at])
            self._hash.update(hashes[HASH_CHARS * begin : HASH_CHARS * end])

    def found(self) -> np.ndarray:
        """All of them, as `COMMIT`."""
        self._close()
        return np.array(self._done, COMMIT)

    def _close(self) -> None:
        if self._open is not None:
            self._done.append((*self._open, self._hash.hexdigest().encode("ascii")))
            self._open, self._hash = None, hashlib.sha256()
