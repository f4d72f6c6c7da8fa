"""In which commit of the log a batch of rows became true, for as long as the log remembers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from core.clock import EPOCH
from journal.errors import JournalBroken
from journal.log import numbers
from journal.state import commit_info
from journal.storage import open_storage


@dataclass(frozen=True, slots=True)
class Commit:
    """One Delta commit, and when its writer made it (UTC, milliseconds)."""

    version: int
    committed_at: datetime


def commits_of(path: str, batch_seqs: Collection[int]) -> dict[int, Commit]:
    """The commits by their ``batch_seq``; without those whose entries were cleaned up.

    A log of an hour has thousands of entries: the right one is found by halves, because seqs grow with versions.

    :raises JournalBroken: an entry isn't whole, or the log can't be listed
    """
    log = _Log(path)
    found = ((batch_seq, log.commit_of(batch_seq)) for batch_seq in batch_seqs)
    return {batch_seq: commit for batch_seq, commit in found if commit is not None}


class _Log:
    """The entries that are there now, read at most once each."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read: dict[int, dict[str, Any]] = {}
        try:
            self._storage = open_storage(path)
            self._versions = numbers(self._storage)
        except OSError as failed:
            raise JournalBroken(path, f"its log can't be listed: {failed}") from failed

    def commit_of(self, batch_seq: int) -> Commit | None:
        low, high = 0, len(self._versions)
        while low < high:
            middle = (low + high) // 2
            if self._last_seq(middle) < batch_seq:
                low = middle + 1
            else:
                high = middle
        if low == len(self._versions):
            return None
        info = self._info(low)
        if info.get("payhook.batch_seq") != str(batch_seq):
            return None
        at = EPOCH + timedelta(milliseconds=int(info["timestamp"]))
        return Commit(self._versions[low], at)

    def _last_seq(self, place: int) -> int:
        """The journal's last seq after an entry; maintenance doesn't tell it, and changes none."""
        for before in range(place, -1, -1):
            told = self._info(before).get("payhook.seq")
            if told is not None:
                return int(told)
        return -1

    def _info(self, place: int) -> dict[str, Any]:
        """What an entry says of itself; nothing of one that has gone meanwhile."""
        version = self._versions[place]
        if version not in self._read:
            self._read[version] = commit_info(self._path, self._storage, version) or {}
        return self._read[version]
