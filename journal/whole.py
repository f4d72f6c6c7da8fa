"""What a start looks at before it decides anything: is the journal all there?"""

from __future__ import annotations

from journal.errors import JournalBroken
from journal.reader import JournalReader
from journal.state import JournalState


def check_whole(path: str, reader: JournalReader, state: JournalState, index_seq: int) -> None:
    """``reader`` stands at the version of ``state``; ``index_seq`` is the last row that the index reflects.

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
