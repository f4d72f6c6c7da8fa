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
