"""One work stream's dead letters, put together: its board and its selections."""

from __future__ import annotations

from dataclasses import dataclass

from dlq.index import DeadLetterIndex, ItemStory
from dlq.recorder import READ_PAYLOAD, Recorder
from dlq.selection import Asked, DryRuns, Run, Selections


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
