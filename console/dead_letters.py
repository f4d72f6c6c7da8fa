"""Puts one work stream's dead letters together: its index, its selections and their runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import StringConstraints

from dead_letters.dead_letter_index import DeadLetterIndex
from dead_letters.story import ItemStory
from ingest.idempotency.request import Problem
from operations.recorder import READ_PAYLOAD, Recorder
from operations.selection.dry_run import DryRuns, ForecastRequest
from operations.selection.model import RunRequest
from operations.selection.runs import RunOrders
from operations.selection.selections import Selections


@dataclass(frozen=True, slots=True)
class StreamDeadLetters:
    """Answers questions and takes orders about one stream's dead events. ``stream``: ``ledger``, or ``ledger-test``."""

    stream: str
    index: DeadLetterIndex
    selections: Selections
    runs: RunOrders
    dry_runs: DryRuns
    dead_head: str
    reading: Recorder
    replays_max: int = 5

    def item(self, item_seq: int, actor: str) -> ItemStory:
        """Returns all of one item. The audit log records the reading of its bytes before they are returned.

        :raises AuditLogUnwritable: it can't be put on record
        """
        story = self.index.item(item_seq)
        if story.payload.raw is not None:
            self.reading.record(actor, READ_PAYLOAD, f"{self.stream} item {item_seq}")
        return story

    def describe_dry_run(self, run: RunRequest) -> ForecastRequest:
        return ForecastRequest(run.mode, self.dead_head, run.force, self.replays_max)


StreamWanted: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=60)]


@dataclass(frozen=True, slots=True)
class Streams:
    by_name: Mapping[str, StreamDeadLetters]

    def find_stream(self, stream: str) -> StreamDeadLetters:
        try:
            return self.by_name[stream]
        except KeyError:
            stream_names = ", ".join(sorted(self.by_name)) or "none"
            raise Problem(404, "stream-unknown", "No such stream", f"streams are: {stream_names}") from None
