"""A process that runs selections and appends its commands to a file: ``python -m … DATA SPOOL``. Tests kill it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from core.clock import ManualClock
from core.layout import Layout
from dlq.selection import Outcomes, Runner, SelectionFile
from dlq.selection.live import Load
from tests.unit.dlq.selection.bench import SETTINGS, Acknowledged
from tests.unit.processor.harness import CONTROL, NOW


class Spool:
    """A Kafka that is a file of lines."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Callable[[Any, Any], None]) -> None:
        with self._path.open("ab") as file:
            file.write(value + b"\n")
        on_delivery(None, Acknowledged(0))

    def flush(self, timeout: float) -> int:
        return 0


class Idle:
    def read(self, now: datetime) -> Load:
        return Load(0.0, None, now.isoformat())


def main(data: Path, spool: Path) -> None:
    places = Layout(data).ledger()
    file = SelectionFile(places.selections)
    outcomes = Outcomes(file, places.journal, CONTROL)
    kafka = Spool(spool)
    Runner("ledger", file, outcomes, kafka, CONTROL, Idle(), SETTINGS, ManualClock(NOW), "console-1").step()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
