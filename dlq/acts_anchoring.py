"""Anchors of the record of acts: whoever can write the lake could cut its end off, or write all of it anew.

The listener says, beside the journals' anchors and under the same keys, where the record's chain stands. It looks for
what other processes wrote, too: a command line has no connection to Kafka to say it with.
"""

from __future__ import annotations

import logging
import threading

from deltalake.exceptions import DeltaError

from core.errors import PayhookError
from dlq.acts import Acts
from journal.anchors import Anchoring, Head

log = logging.getLogger(__name__)

STREAM = "@acts"
"""What an anchor of acts calls its stream, and its key on the anchors' topic: no work stream can be called so."""

LOOK_EVERY_S = 2.0
CLOSE_S_MAX = 5.0


class ActsAnchors:
    """Follows the record in a thread of its own until it is closed."""

    def __init__(self, acts: Acts, anchoring: Anchoring) -> None:
        self._acts = acts
        self._anchoring = anchoring
        self._seen = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="acts-anchors", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Anchors the newest head, if Kafka takes it in time."""
        self._stop.set()
        self._thread.join()
        self.look()
        self._anchoring.close(CLOSE_S_MAX)

    def look(self) -> None:
        """Anchors the head if it is new, and it is time."""
        try:
            self._see()
        except (PayhookError, DeltaError, OSError) as failed:
            log.error("the record of acts can't be anchored: %s", failed)
        self._anchoring.poll()

    def _see(self) -> None:
        stamp = self._acts.stamp()
        if stamp == self._seen:
            return
        head = self._acts.head()
        if head.number:
            self._anchoring.committed(Head(0, head.number, head.chain))
        self._seen = stamp

    def _follow(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            self.look()
