"""Index, postings, dead letters and anchors follow the committed rows by seq."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from core.crash import crash_point
from core.decision import Decision
from core.errors import PayhookError
from journal.anchors import Anchoring, Head, Unanchored
from journal.index import Index
from journal.snapshots import Snapshots
from processor.decide.item import BatchItem
from processor.decide.ports import DeadLetterPublisher, DerivedTable

CLOSE_S_MAX = 5.0


class IndexBehind(PayhookError):
    """The index doesn't reflect the last committed row: deciding by it could decide twice."""

    def __init__(self, index_seq: int, journal_seq: int) -> None:
        self.index_seq = index_seq
        self.journal_seq = journal_seq
        super().__init__(f"the index is at seq {index_seq}, the journal at {journal_seq}; restart to let it catch up")


class Derived:
    """All that is made of a stream's rows. ``followers`` are tables; ``on_decided`` is shown what each commit decided,
    for metrics and traces.
    """

    def __init__(
        self,
        index: Index,
        followers: Sequence[DerivedTable],
        dead_letters: DeadLetterPublisher,
        anchors: Anchoring | None = None,
        on_decided: Callable[[Sequence[BatchItem]], None] = lambda items: None,
        snapshots: Snapshots | None = None,
    ) -> None:
        self.index = index
        self._snapshots = snapshots
        self.dead_letters = dead_letters
        self.anchors = anchors or Unanchored()
        self._followers = followers
        self._on_decided = on_decided

    def check(self, seq: int) -> None:
        """
        :raises IndexBehind: the index isn't where the journal is
        """
        if self.index.seq != seq:
            raise IndexBehind(self.index.seq, seq)

    def follow(self, items: Sequence[BatchItem], bodies: Mapping[str, bytes], head: Head) -> None:
        rows = [item.row for item in items]
        self.index.apply_rows(rows, bodies)
        crash_point("processor.after_index")
        for follower in self._followers:
            follower.follow(rows)
        crash_point("processor.after_postings")
        dead = [(row, bodies.get(row.body_sha256 or "", b"")) for row in rows if row.decision is Decision.DEAD]
        self.dead_letters.publish(dead)
        self.dead_letters.on_passed(head.seq)
        crash_point("processor.after_dlq")
        self._on_decided(items)
        self.anchors.on_commit(head)

    def poll(self) -> None:
        """Takes note of what Kafka has acknowledged since."""
        self.dead_letters.poll()
        self.anchors.poll()

    def close(self, timeout_s: float) -> None:
        """Gives dead letters and anchors so long to be sent, then frees the index for the next writer."""
        self.dead_letters.close(timeout_s)
        self.anchors.close(timeout_s)
        if self._snapshots is not None:
            self._snapshots.close()
        self.index.close()
