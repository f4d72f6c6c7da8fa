"""A Delta log's own files, by their names."""

from __future__ import annotations

import json
import re

from journal.storage import Storage

LOG = "_delta_log"
_ENTRY = re.compile(r"(\d{20})\.json")


def place(number: int) -> str:
    """Where a commit's entry is, in the table's folder."""
    return f"{LOG}/{number:020}.json"


def numbers(storage: Storage, since: int = 0) -> list[int]:
    """The commits from ``since`` on whose entries are there, in order."""
    after = f"{since - 1:020}.json" if since > 0 else ""
    found = (_ENTRY.fullmatch(one.name) for one in storage.files(LOG, after))
    return sorted(int(entry[1]) for entry in found if entry)


def last_checkpoint(storage: Storage) -> int:
    """The version of the last checkpoint; entries before it may be gone. -1: there is none.

    :raises ValueError: it isn't told
    :raises OSError: the place can't be reached
    """
    try:
        return int(json.loads(storage.read(f"{LOG}/_last_checkpoint"))["version"])
    except FileNotFoundError:
        return -1
    except (ValueError, KeyError, TypeError) as torn:
        raise ValueError(f"its last checkpoint isn't told ({torn})") from torn


def last_number(storage: Storage) -> int:
    """The last commit's number; -1 where no table is.

    :raises OSError: the place can't be reached
    """
    try:
        since = max(0, last_checkpoint(storage))
    except ValueError:
        since = 0
    return max(numbers(storage, since), default=-1)
