"""Errors of a journal."""

from __future__ import annotations

import re

from core.decision import ErrorKind
from core.errors import PayhookError

PROBLEM_CHARS_MAX = 500
"""delta-rs puts rows, colours and its own stack into some of its messages."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_OWN_STACK = re.compile(r"\n\s*0: .*", re.DOTALL)


def problem_of(failed: Exception) -> str:
    words = _OWN_STACK.sub("", _COLOURS.sub("", str(failed))).split()
    return " ".join(words)[:PROBLEM_CHARS_MAX]


class StreamRefused(PayhookError):
    """Positions of another history: the stream decides nothing and commits no epoch until a person decides."""


class Fenced(PayhookError):
    """Another writer began an epoch: this one must end, and nothing of its batch was written."""

    def __init__(self, stream: str, epoch: int, problem: str) -> None:
        self.stream = stream
        self.epoch = epoch
        self.problem = problem
        super().__init__(
            f"stream {stream}: the commit of epoch {epoch} was refused ({problem}). Another processor has taken over; "
            "this one stands by."
        )


class CommitUnknown(PayhookError):
    """A commit failed and may have been written all the same; the next epoch's writer reads whether it was."""

    kind = ErrorKind.SBE

    def __init__(self, stream: str, problem: str) -> None:
        self.stream = stream
        self.problem = problem
        super().__init__(
            f"stream {stream}: it is unknown whether the commit was written ({problem}). "
            "The stream continues by itself from what the journal then holds"
        )


class StorageDown(PayhookError):
    kind = ErrorKind.SBE

    def __init__(self, what: str, path: str, problem: str) -> None:
        self.what = what
        self.path = path
        self.problem = problem
        super().__init__(
            f"{what} at {path} can't be written or reached ({problem}). Nothing is lost: Kafka keeps what comes. "
            "Make room, or make the folder reachable and writable. The stream continues by itself."
        )


class JournalBroken(PayhookError):
    remedy = "Nothing is skipped. Restore the journal before you start its processor again."

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"journal {path}: {problem}. {self.remedy}")


class JournalOutdated(JournalBroken):
    remedy = "No release reads it, and nothing was changed: move its data folder away and begin with an empty one."

    def __init__(self, path: str, lacks: str) -> None:
        super().__init__(path, f"the table lacks {lacks}, so code from before release 0.1.0 made it")


class BatchInvalid(PayhookError):
    """Rows that don't account for the offsets they claim: a bug of the engine, caught before the commit."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"the batch must not be committed: {problem}")


class BodyMissing(PayhookError):
    def __init__(self, body_sha256: str, lost: str = "") -> None:
        self.body_sha256 = body_sha256
        self.lost = lost
        files = f", and a file of bodies that may hold it can't be read: {lost}" if lost else ""
        super().__init__(f"the body {body_sha256} of an open event is missing{files}; restore the table of bodies")


class RowsOutOfOrder(PayhookError):
    def __init__(self, seq: int, first_seq: int) -> None:
        self.seq = seq
        self.first_seq = first_seq
        super().__init__(
            f"rows from seq {first_seq} don't follow seq {seq}: the stream begins again by itself, and catches up first"
        )


class IndexHeld(PayhookError):
    def __init__(self, folder: str) -> None:
        self.folder = folder
        super().__init__(f"index {folder} belongs to a living process; give each journal a folder of its own")


class IndexUnreadable(PayhookError):
    def __init__(self, folder: str, problem: str) -> None:
        self.folder = folder
        self.problem = problem
        super().__init__(f"no index can be read in {folder}: {problem}")


class IndexBroken(PayhookError):
    kind = ErrorKind.SBE

    def __init__(self, folder: str, problem: str) -> None:
        self.folder = folder
        self.problem = problem
        super().__init__(
            f"index {folder}: {problem}. The stream continues by itself: a damaged index is made again from the journal"
        )
