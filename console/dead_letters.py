"""One work stream's dead letters, put together: its index, its selections and their runners."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import StringConstraints

from dlq.index import DeadLetterIndex, ItemStory
from dlq.recorder import READ_PAYLOAD, Recorder
from dlq.selection import Asked, DryRuns, Run, Runner, Selections
from ingest.idempotency import Problem

RUNNER_STOP_S_MAX = 5.0


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """What may be asked and done about one stream's dead events. ``stream``: ``ledger``, or ``ledger-test``."""

    stream: str
    board: DeadLetterIndex
    selections: Selections
    dry_runs: DryRuns
    dead_head: str
    reading: Recorder
    replays_max: int = 5

    def item(self, item_seq: int, actor: str) -> ItemStory:
        """Everything that is known of one item. That its bytes were read is on record before they are handed out.

        :raises AuditLogUnwritable: it can't be put on record
        """
        story = self.board.item(item_seq)
        if story.payload.raw is not None:
            self.reading.record(actor, READ_PAYLOAD, f"{self.stream} item {item_seq}")
        return story

    def asked(self, run: Run) -> Asked:
        """How a dry run of this run is meant."""
        return Asked(run.mode, self.dead_head, run.in_place, run.force, self.replays_max)


@contextmanager
def running(runners: Mapping[str, Runner]) -> Iterator[None]:
    """A thread each, until this is left; then their runs may go on elsewhere at once."""
    stop = threading.Event()
    threads = [
        threading.Thread(target=runner.run, args=(stop,), name=f"runs-{stream}", daemon=True)
        for stream, runner in runners.items()
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(RUNNER_STOP_S_MAX)


StreamWanted: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=60)]


@dataclass(frozen=True, slots=True)
class Streams:
    """Dead letters by the name of their stream: ``ledger``, ``ledger-test``, ``notify``."""

    by_name: Mapping[str, DeadLetters]

    def of(self, stream: str) -> DeadLetters:
        """
        :raises Problem: there is no such stream
        """
        try:
            return self.by_name[stream]
        except KeyError:
            known = ", ".join(sorted(self.by_name)) or "none"
            raise Problem(404, "stream-unknown", "No such stream", f"streams are: {known}") from None
