"""A booking by hand as people ask for it: the chart's accounts only, and as much debit as credit."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from core.errors import PayhookError
from core.work import Posting
from dlq.entry import Entry, check_booking
from ledger.accounts import is_account

_CHUNK_BYTES = 1 << 20


class EntryUnfit(PayhookError):
    """Nothing was sent."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"{problem}; nothing was sent")


def entry_of(entity_key: str, occurred_at: datetime, evidence_sha256: str, postings: Sequence[Posting]) -> Entry:
    """An entry that can be proposed.

    :raises EntryUnfit: an account isn't one of the chart
    :raises CommandInvalid: it doesn't balance, or has a wrong amount or number of lines
    """
    for line in postings:
        if not is_account(line.account):
            raise EntryUnfit(
                f"{line.account!r} isn't an account of the ledger: `payhook ledger balances` lists those that are in "
                "use, docs/finance.md what each is for"
            )
    check_booking(postings)
    return Entry(entity_key, occurred_at, evidence_sha256, tuple(postings))


def evidence_sha256(path: Path) -> str:
    """The SHA-256 of a document, in hex.

    :raises EntryUnfit: it can't be read, or is empty
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as document:
            size = 0
            while chunk := document.read(_CHUNK_BYTES):
                digest.update(chunk)
                size += len(chunk)
    except OSError as wrong:
        raise EntryUnfit(f"the evidence can't be read: {wrong}") from wrong
    if size == 0:
        raise EntryUnfit(f"the evidence {path} is empty")
    return digest.hexdigest()
