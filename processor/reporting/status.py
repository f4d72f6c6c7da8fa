"""Reports one work stream while it runs, waits or fails.

It keeps its status file, its gauges, its generation, and the spans of its decisions.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.card_numbers import without_card_numbers
from core.clock import Clock, to_rfc3339
from core.decision import Decision
from core.generation import Announcement
from core.status_file import STANDBY
from core.tracing import Tracing, sampled_in, span_id_of
from journal.lease import Holder
from processor.backlog.catch_up import StreamCatchUp
from processor.claims import GenerationWriter
from processor.decide.batch import Batches
from processor.decide.item import BatchItem
from processor.reporting.metrics import ProcessorMetrics

WRITE_EVERY_S = 1.0

WARM_BATCHES = 2
"""A stream reports ready after so many: the first ones load what every later one finds loaded."""

FAILURE_CHARS_MAX = 2_000


class StatusFile:
    """The file that `payhook status` and the management listener show.

    It is rewritten whole, at most once a second, and never seen half written.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._written_at = -WRITE_EVERY_S
        self.last_written: dict[str, Any] = {}
        """What was last written, also where the file couldn't be; nothing before that."""
        path.parent.mkdir(parents=True, exist_ok=True)

    def is_due(self) -> bool:
        return self._clock.monotonic_s() - self._written_at >= WRITE_EVERY_S

    def write(self, status: dict[str, Any], *, in_memory: bool = False) -> None:
        """Replaces the file. One that can't be written is left as it is: a status never ends a stream.

        ``in_memory``: only `last_written` changes; the file is another process's.
        """
        of_now = {"pid": os.getpid(), "at": to_rfc3339(self._clock.now())}
        self.last_written = {**of_now, **status, **of_now}
        self._written_at = self._clock.monotonic_s()
        if in_memory:
            return
        text = json.dumps(self.last_written, indent=1)
        fresh = self._path.with_suffix(".new")
        try:
            # Somebody may have removed the folder since.
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_text(text, "utf-8")
            fresh.replace(self._path)
        except OSError:
            self._write_in_place(text)

    def _write_in_place(self, text: str) -> None:
        """Overwrites the file: on a full disk its own blocks are still there."""
        with contextlib.suppress(OSError), self._path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            file.write(text.encode().ljust(size))

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


class StreamStatus:
    """``state`` in the status is ``running``, ``standby``, ``refused``, ``failed`` or ``off``; ``restarts`` counts
    those here. ``begun``: where it began, in words, if that was in this process.

    ``generations``: of the stream that decides what receivers publish; None for every other one. ``spans``: where
    traces are on.
    """

    def __init__(
        self,
        stream: str,
        file: StatusFile,
        metrics: ProcessorMetrics,
        generations: GenerationWriter | None = None,
        spans: DecisionSpans | None = None,
    ) -> None:
        self.metrics = metrics
        self._stream = stream
        self._file = file
        self._generations = generations
        self._spans = spans
        self._batches = itertools.count(1)
        self._restarts = 0
        self._last_failure: str | None = None
        self.begun: str | None = None

    def announce_generation(self, announced: Announcement) -> None:
        if self._generations is not None:
            self._generations.publish(announced)

    def report_batch(self, batches: Batches, catch_up: StreamCatchUp) -> None:
        warm = next(self._batches) >= WARM_BATCHES
        self.metrics.set_blocked(batches.progress.blocked_reason)
        self.metrics.set_refused(0)
        self.metrics.batch_done(batches.progress)
        self.metrics.set_line(batches.head_figures, batches.progress.hung_calls)
        if warm and self._file.is_due():
            figures = batches.status()
            self.metrics.set_dead(figures)
            self.metrics.set_downstream_waits(figures["downstreams"])
            self.metrics.set_lag(catch_up)
            self._write_state("running", ready=True, **figures, catch_up=catch_up.status())

    def report_decided(self, items: Sequence[BatchItem]) -> None:
        self.metrics.count_decisions(items)
        if self._spans is not None:
            self._spans(items)

    def report_outage(self, reason: str, tries: int) -> None:
        self.metrics.set_blocked(reason)
        if self._file.is_due():
            self._file.write({**self._file.last_written, "ready": False, "blocked": reason, "tries": tries})

    def report_refused(self, why: str) -> None:
        if self._generations is not None:
            self._generations.refuse()
        self.metrics.set_blocked(why)
        self.metrics.set_refused(1)
        if self._file.is_due():
            self._write_state("refused", ready=False, why=why)

    def report_off(self, why: str) -> None:
        self._write_state("off", ready=True, why=why)

    def report_standby(self, holder: Holder) -> None:
        if self._generations is not None:
            self._generations.withdraw_announcement()
        self._batches = itertools.count(1)
        self.metrics.set_blocked(None)
        self.metrics.set_refused(0)
        if self._file.is_due():
            why = f"waits for the lease of {holder.host} since {to_rfc3339(holder.since)}"
            self._write_state(STANDBY, ready=True, why=why, in_memory=holder.here)

    def report_failed(self, failure: BaseException) -> None:
        if self._generations is not None:
            self._generations.withdraw_announcement()
        self._last_failure = f"{type(failure).__name__}: {failure}"[:FAILURE_CHARS_MAX]
        self._batches = itertools.count(1)
        self._write_state("failed", ready=False)

    def count_restart(self) -> None:
        self._restarts += 1

    def _write_state(self, state: str, *, ready: bool, in_memory: bool = False, **figures: Any) -> None:
        common = {"ready": ready, "stream": self._stream, "state": state, "restarts": self._restarts}
        if self.begun is not None:
            common["begun"] = self.begun
        self._file.write({**common, "last_failure": self._last_failure, **figures}, in_memory=in_memory)


TRIED = frozenset({Decision.APPLIED, Decision.IGNORED, Decision.UNKNOWN, Decision.RETRY, Decision.DEAD})


class DecisionSpans:
    def __init__(self, stream: str, tracing: Tracing) -> None:
        self._stream = stream
        self._tracing = tracing

    def __call__(self, items: Sequence[BatchItem]) -> None:
        for item in items:
            traceparent = sampled_in(item.headers)
            if traceparent is not None:
                self._make_span(item, traceparent)

    def _make_span(self, item: BatchItem, traceparent: str) -> None:
        row = item.row
        # The try's own number: a retry's row has the next one's.
        attempt = row.attempt - (row.decision is Decision.RETRY)
        event_key = row.event_key or ""
        self._tracing.record_decision(
            f"{self._stream} {row.decision.value}",
            traceparent,
            span_id_of(event_key, attempt) if row.decision in TRIED else None,
            row.decided_at,
            {
                "payhook.stream": self._stream,
                "payhook.event_key": without_card_numbers(event_key),
                "payhook.decision": row.decision.value,
                "payhook.seq": row.seq,
                "payhook.attempt": attempt,
                "messaging.kafka.offset": row.offset,
                "messaging.destination.name": row.topic,
                "messaging.destination.partition.id": str(row.partition),
            },
            failed=row.decision is Decision.DEAD,
        )
