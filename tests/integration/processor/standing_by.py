"""One of several processes with the same stream: ``python -m tests.integration.processor.standing_by FOLDER OWNER``.

Prints ``begins`` and ``stands by`` as it turns from the one to the other; SIGTERM ends it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from core.clock import SystemClock
from journal import lease
from journal.lease import Holder
from processor import application
from processor.application import Application
from tests.integration.processor.stored import Loop, Stored, StoredStream

LAPSES_S, RENEW_S, LOOK_S = 3.0, 0.3, 0.1
"""Of the leases here: a test needn't wait for the real ones."""

RECORDS_PER_BATCH = 100


class Telling(StoredStream):
    """Says what it turns to."""

    _said = ""

    def begin(self) -> Loop:
        self._say("begins")
        return super().begin()

    def report_standby(self, holder: Holder) -> None:
        self._say("stands by")

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()


def main(folder: Path, owner: str) -> None:
    lease.LAPSES_S, lease.RENEW_S, application.STANDBY_LOOK_S = LAPSES_S, RENEW_S, LOOK_S
    stored = Stored(folder)
    stored.kafka.batch_max = RECORDS_PER_BATCH
    stored.index = folder / f"index-{owner}"
    stream = Telling(stored, owner)
    running = Application([(stream, stream)], SystemClock())
    signal.signal(signal.SIGTERM, lambda *_: running.stop())
    ended = running.run()
    # As a processor ends: native threads may hang an interpreter that takes itself apart beneath them.
    os._exit(0 if ended else 1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
