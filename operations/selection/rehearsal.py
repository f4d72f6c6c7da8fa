"""Asks what would come of events if they ran now: their adapter and their handler, within a bounded time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

from journal.schema import JournalRow

ASK_S_MAX = 10.0
"""A person waits for the page. What isn't asked by then is said."""
EVENTS_PER_LOOK = 200


class Expected(StrEnum):
    APPLIED = "applied"
    DIES = "dies"
    IGNORED = "ignored"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ExpectedAnswer:
    """The answer of an event's adapter and handler now. ``why``: of what isn't applied, the error or the reason."""

    expected: Expected
    why: str = ""


class Rehearsal(Protocol):
    """Asks about the events of one stream as they are installed here; a processor with other code decides by its own.

    ``left_out``: whom it doesn't ask, and why; empty where it asks everybody.
    """

    @property
    def left_out(self) -> str: ...
    def answer(self, row: JournalRow, body: bytes) -> ExpectedAnswer | None:
        """Asks about an event; None: nobody may be asked about it."""


OpenRehearsal: TypeAlias = Callable[[], Rehearsal]
ReadEvents: TypeAlias = Callable[[Sequence[int]], Mapping[int, tuple[JournalRow, bytes]]]
"""Rows with their bodies, by the seqs of the rows; those that aren't kept are left out."""


@dataclass(slots=True)
class RehearsalResult:
    """The answers of a rehearsal, by the seq of the row. ``problem``: why it ended before all were asked."""

    answers: dict[int, ExpectedAnswer] = field(default_factory=dict)
    left_out: str = ""
    problem: str = ""


def ask_events(open_rehearsal: OpenRehearsal, read: ReadEvents, seqs: Sequence[int], seconds: float) -> RehearsalResult:
    """Asks about one event after the other, in a thread of its own: a call that hangs is left behind."""
    asked, stop = RehearsalResult(), threading.Event()

    def ask() -> None:
        try:
            rehearsal = open_rehearsal()
            asked.left_out = rehearsal.left_out
            for start in range(0, len(seqs), EVENTS_PER_LOOK):
                for seq, (row, body) in read(seqs[start : start + EVENTS_PER_LOOK]).items():
                    if stop.is_set():
                        return
                    if (answer := rehearsal.answer(row, body)) is not None:
                        asked.answers[seq] = answer
        except BaseException as failed:  # a handler's module is a stranger's code
            asked.problem = f"the handler couldn't be asked: {type(failed).__name__}: {failed}"

    thread = threading.Thread(target=ask, name="rehearsal", daemon=True)
    thread.start()
    thread.join(seconds)
    stop.set()
    late = f"the time of {seconds:g} s was over" if thread.is_alive() else ""
    return RehearsalResult(asked.answers.copy(), asked.left_out, asked.problem or late)
