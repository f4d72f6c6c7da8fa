"""The hash chain over commits: a row changed, removed or put in afterwards breaks it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

GENESIS = "0" * 64


def commit_digest(row_hashes: Iterable[str]) -> str:
    """Hex SHA-256 over a commit's row hashes, joined in seq order."""
    return hashlib.sha256("".join(row_hashes).encode("ascii")).hexdigest()


def extend(head: str, digest: str) -> str:
    """The chain's head after one more commit."""
    return hashlib.sha256((head + digest).encode("ascii")).hexdigest()


class ChainHead:
    """The chain's head after rows that come in seq order, whatever portions they are read in."""

    def __init__(self) -> None:
        self._head = GENESIS
        self._batch_seq: int | None = None
        self._digest = hashlib.sha256()

    def add(self, batch_seq: int, row_hash: str) -> None:
        """One more row; a new ``batch_seq`` begins the next commit."""
        if batch_seq != self._batch_seq:
            self._head = self.head
            self._batch_seq, self._digest = batch_seq, hashlib.sha256()
        self._digest.update(row_hash.encode("ascii"))

    @property
    def head(self) -> str:
        """The head with every row so far, the last commit's taken as whole."""
        return self._head if self._batch_seq is None else extend(self._head, self._digest.hexdigest())
