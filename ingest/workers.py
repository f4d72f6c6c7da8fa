"""Several processes on one port: each takes webhooks by itself, and all of them share Redis, Kafka and the promises.

The parent opens the port, forks, and starts again what ends. It runs no thread and opens no client, so that it may
fork at any time.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

log = logging.getLogger(__name__)

BACKLOG = 2_048
START_AGAIN_S = 1.0
"""A worker that ends sooner than that waits for so long before it is started again."""
LOOK_FOR_PARENT_S = 1.0


def listening(host: str, port: int) -> socket.socket:
    """The socket that every worker accepts on.

    :raises OSError: the address is taken, or isn't this machine's
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    opened = socket.socket(found[0], socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.bind(found[4])
    opened.listen(BACKLOG)
    return opened


class Workers:
    """``serve(number)`` runs in each of ``count`` forked processes until SIGTERM, which the parent hands on."""

    def __init__(self, count: int, serve: Callable[[int], None]) -> None:
        self._count = count
        self._serve = serve
        self._numbers: dict[int, int] = {}
        self._began: dict[int, float] = {}
        self._stopping = False

    def run(self) -> None:
        """Returns when every worker has ended after SIGTERM or SIGINT."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        for worker in range(self._count):
            self._fork(worker)
        while self._numbers:
            pid, status = os.wait()
            worker = self._numbers.pop(pid)
            if not self._stopping:
                code = os.waitstatus_to_exitcode(status)
                log.error("worker %d ended with code %d and is started again", worker, code)
                time.sleep(max(0.0, START_AGAIN_S - (time.monotonic() - self._began[worker])))
            # SIGTERM may have come while this one slept.
            if not self._stopping:
                self._fork(worker)

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._stopping = True
        for pid in list(self._numbers):
            os.kill(pid, signal.SIGTERM)

    def _fork(self, worker: int) -> None:
        self._began[worker] = time.monotonic()
        # A signal between the fork and the child's own handlers would call the parent's.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        pid = os.fork()
        if pid == 0:
            self._be_worker(worker)
        self._numbers[pid] = worker
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})

    def _be_worker(self, worker: int) -> NoReturn:
        code = 1
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
            self._serve(worker)
            code = 0
        except Exception:
            log.exception("worker %d", worker)
        finally:
            logging.shutdown()
            sys.stdout.flush()
            os._exit(code)
