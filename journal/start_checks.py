"""Checks at a start, before anything is decided, that the journal is all there."""

from __future__ import annotations

import logging
from pathlib import Path

from journal.entity_queue import open_beside_its_writer
from journal.errors import JournalBroken
from journal.histories import may_follow
from journal.index import INDEX
from journal.reader import JournalReader
from journal.state import JournalState

log = logging.getLogger(__name__)


def check_index(root: Path, path: str) -> None:
    """Checks, before an epoch begins, whether the index that is there knows more than the journal at ``path``.

    :raises JournalOlder: it does
    """
    if not any(root.glob("epoch-*")):
        return
    try:
        index = open_beside_its_writer(root)
    except Exception:
        log.warning("the index in %s can't be looked at beside its writer", root, exc_info=True)
        return
    position = index.position
    index.close()
    # Opened after the index: a processor that is still at work may only have taken the journal on.
    reader = JournalReader(path)
    if reader.last_seq:
        may_follow(INDEX, position, reader)


def check_whole(path: str, reader: JournalReader, state: JournalState, index_seq: int) -> None:
    """Checks that rows and commits end alike. ``reader`` stands at the version of ``state``; ``index_seq`` is the last
    row that the index reflects.

    :raises JournalBroken: the rows end elsewhere than the commits say, the last of them can't be read, or a journal
        without rows stands where the index knows one
    """
    last = state.next_seq - 1
    if reader.last_seq != last:
        raise JournalBroken(path, f"its commits say that seq {last} is the last, its rows end with {reader.last_seq}")
    if last:
        reader.row_hash_at(last)
    elif index_seq:
        problem = (
            f"it holds nothing, but the index knows {index_seq} rows: is the disk with the lake there? If the journal "
            "was deleted on purpose, delete the index too"
        )
        raise JournalBroken(path, problem)
