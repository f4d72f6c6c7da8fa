"""What one work stream says of itself while it runs, waits or fails: its status file, its gauges, its claims."""

from __future__ import annotations

import itertools
from typing import Any

from processor.backlog.catch_up import CatchUp
from processor.decide.batch import Batches
from processor.lasting import Outage
from processor.tell.generation import GenerationWriter
from processor.tell.metrics import ProcessorMetrics
from processor.tell.status import StatusFile

WARM_BATCHES = 2
"""Ready is said after so many: the first ones load what every later one finds loaded."""

FAILURE_CHARS_MAX = 2_000


class Telling:
    """``state`` in the status is ``running``, ``refused``, ``failed`` or ``off``; ``restarts`` counts those here.

    ``generations``: of the stream that decides what receivers publish; None for every other one.
    """

    def __init__(
        self,
        stream: str,
        status: StatusFile,
        metrics: ProcessorMetrics,
        generations: GenerationWriter | None = None,
    ) -> None:
        self._stream = stream
        self._status = status
        self._metrics = metrics
        self._generations = generations
        self._batches = itertools.count(1)
        self._restarts = 0
        self._last_failure: str | None = None

    def generation(self, generation: int, *, refused: bool = False) -> None:
        """The journal's generation of claims, as soon as it is known that the stream goes on, or refuses to."""
        if self._generations is not None:
            self._generations.publish(generation, refused=refused)

    def batch(self, batches: Batches, catch_up: CatchUp) -> None:
        """After each batch, and while it waits for what blocks it."""
        warm = next(self._batches) >= WARM_BATCHES
        self._metrics.block(batches.progress.blocked_reason)
        self._metrics.refused.set(0)
        self._metrics.batch_done(batches.progress)
        self._metrics.line(batches.heads, batches.progress.hung_calls)
        if warm and self._status.due():
            told = batches.status()
            self._metrics.dead(told)
            self._metrics.lag(catch_up)
            self._say("running", ready=True, **told, catch_up=catch_up.status())

    def outage(self, outage: Outage) -> None:
        """While it waits for its storage."""
        self._metrics.block(outage.reason)
        if self._status.due():
            self._status.write_over({"ready": False, "blocked": outage.reason, "tries": outage.tries})

    def refused(self, why: str) -> None:
        """While it waits for a person: what there is to read is of another history."""
        if self._generations is not None:
            self._generations.refuse()
        self._metrics.block(why)
        self._metrics.refused.set(1)
        if self._status.due():
            self._say("refused", ready=False, why=why)

    def off(self, why: str) -> None:
        """While there is nothing for it to do."""
        self._say("off", ready=True, why=why)

    def failed(self, failure: BaseException) -> None:
        """It ended by itself."""
        if self._generations is not None:
            self._generations.withdraw()
        self._last_failure = f"{type(failure).__name__}: {failure}"[:FAILURE_CHARS_MAX]
        self._batches = itertools.count(1)
        self._say("failed", ready=False)

    def begun_again(self) -> None:
        self._restarts += 1

    def _say(self, state: str, *, ready: bool, **figures: Any) -> None:
        whole = {"ready": ready, "stream": self._stream, "state": state, "restarts": self._restarts}
        self._status.write({**whole, "last_failure": self._last_failure, **figures})
