"""A warm-up ends, whatever its query is at when it is stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from processor.source.sources import WARM_BATCHES, warm_up

STUCK_S = 5.0


class Query:
    """Stops as Spark's does: it waits for the batch under way, and one more has just begun."""

    def __init__(self, batch: Callable[[object, int], None]) -> None:
        self.ended: bool | None = None
        self._batch = batch
        threading.Thread(target=self._run).start()

    def _run(self) -> None:
        for number in range(WARM_BATCHES):
            self._batch(None, number)

    def stop(self) -> None:
        under_way = threading.Thread(target=self._batch, args=(None, WARM_BATCHES), daemon=True)
        under_way.start()
        under_way.join(STUCK_S)
        self.ended = not under_way.is_alive()


class StreamWriter:
    """Spark's writer of a stream, and the frame that it is of."""

    def __init__(self) -> None:
        self.query: Query | None = None
        self._batch: Any = None

    @property
    def writeStream(self) -> StreamWriter:  # noqa: N802 - Spark's name
        return self

    def foreachBatch(self, batch: Any) -> StreamWriter:  # noqa: N802 - Spark's name
        self._batch = batch
        return self

    def option(self, _name: str, _value: str) -> StreamWriter:
        return self

    def options(self, **_options: str) -> StreamWriter:
        return self

    def start(self) -> Query:
        self.query = Query(self._batch)
        return self.query


class Source:
    def __init__(self) -> None:
        self.writer = StreamWriter()
        self.collected = 0

    def idle_frame(self) -> Any:
        return self.writer

    def collect(self, frame: object, expected: int) -> None:
        self.collected += 1


def test_a_batch_that_begins_while_the_query_is_stopped_holds_nothing_up(tmp_path: Path) -> None:
    source = Source()
    warm_up(source, tmp_path / "checkpoint")
    assert source.writer.query is not None
    assert source.writer.query.ended
    assert 1 <= source.collected <= WARM_BATCHES
