"""Live traffic at one rate for as long as something else takes."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

import uvloop

from load.wire import open_loop

ROUND_S = 5.0
"""One open loop after the other: what goes on ends that soon."""


class SteadyLoad:
    """Sends in a thread of its own. ``sent`` and ``statuses`` are of finished rounds, so of all once it stopped.

    ``make``: so many requests, each asked for when it is due.
    """

    def __init__(self, address: str, rate_per_s: float, make: Callable[[int], Sequence[bytes]]) -> None:
        place = urlsplit(address)
        assert place.hostname is not None and place.port is not None
        self._host, self._port = place.hostname, place.port
        self._rate_per_s = rate_per_s
        self._make = make
        self._stop = threading.Event()
        self._failed: Exception | None = None
        self.statuses: Counter[int] = Counter()

    @property
    def sent(self) -> int:
        return sum(self.statuses.values())

    @contextmanager
    def going(self) -> Iterator[None]:
        """
        :raises ConnectionError: the receiver closed a connection
        """
        thread = threading.Thread(target=self._run, name="live traffic", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
        if self._failed is not None:
            raise self._failed

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                while not self._stop.is_set():
                    requests = self._make(int(self._rate_per_s * ROUND_S))
                    load = runner.run(open_loop(self._host, self._port, requests, self._rate_per_s))
                    self.statuses += load.statuses
        except (OSError, TimeoutError) as failed:
            self._failed = failed
