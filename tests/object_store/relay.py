"""A piece of network between a client and a server: it carries bytes, delays or loses answers, or is down.

In a process of its own: delta-rs holds Python's lock while it waits for some answers, so that no thread beside it runs.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import select
import selectors
import socket
import threading
from dataclasses import dataclass
from typing import Any

from stack.servers.ports import LOOPBACK

OPEN, LOSES_ANSWERS, DELAYS_ANSWERS, DOWN = range(4)
BYTES = 1 << 16
LOOK_S = 0.02
ENDS_S = 10.0


class Relay:
    """Carries connections to a host's port while a ``with`` lasts.

    `lose`: requests reach the server; the connection ends before a byte of the answer comes back. `delay`: answers
    come so many seconds late, sooner if the client has given up by then. `cut`: connections end at once, those under
    way too.
    """

    def __init__(self, to: tuple[str, int]) -> None:
        self._way, self._left = _SPAWN.Value("i", OPEN), _SPAWN.Value("i", 0)
        self._listening = socket.create_server((LOOPBACK, 0))
        self._delay_s = _SPAWN.Value("d", 0.0)
        carrier = _Carrier(to, self._way, self._left, self._delay_s)
        self._process = _SPAWN.Process(target=_accept, args=(self._listening, carrier), daemon=True)
        self.endpoint = f"http://{LOOPBACK}:{self._listening.getsockname()[1]}"

    def lose(self, answers: int) -> None:
        """The next ``answers`` get lost; then it is open again."""
        self._left.value, self._way.value = answers, LOSES_ANSWERS

    def delay(self, seconds: float, answers: int) -> None:
        """The next ``answers`` come late; then it is open again."""
        self._delay_s.value, self._left.value, self._way.value = seconds, answers, DELAYS_ANSWERS

    def cut(self) -> None:
        self._way.value = DOWN

    def open(self) -> None:
        self._way.value = OPEN

    @property
    def to_be_lost(self) -> int:
        """How many answers are still to be lost or delayed."""
        return int(self._left.value)

    def __enter__(self) -> Relay:
        self._process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.join(ENDS_S)
        self._listening.close()


_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class _Carrier:
    """Carries one connection after the other, as the shared numbers say."""

    to: tuple[str, int]
    way: Any
    left: Any
    delay_s: Any

    def carry(self, client: socket.socket) -> None:
        with contextlib.ExitStack() as ended:
            ended.enter_context(client)
            ended.enter_context(contextlib.suppress(OSError))
            if self.way.value == DOWN:
                return
            server = ended.enter_context(socket.create_connection(self.to))
            both = ended.enter_context(selectors.DefaultSelector())
            both.register(client, selectors.EVENT_READ, server)
            both.register(server, selectors.EVENT_READ, client)
            while self.way.value != DOWN:
                for ready, _ in both.select(LOOK_S):
                    data = ready.fileobj.recv(BYTES)  # type: ignore[union-attr]
                    if not data or (ready.data is client and self._takes_one(LOSES_ANSWERS)):
                        return
                    if ready.data is client and self._takes_one(DELAYS_ANSWERS):
                        select.select([client], [], [], self.delay_s.value)
                    ready.data.sendall(data)

    def _takes_one(self, way: int) -> bool:
        with self.left.get_lock():
            if self.way.value != way or not self.left.value:
                return False
            self.left.value -= 1
        return True


def _accept(listening: socket.socket, carrier: _Carrier) -> None:
    while True:
        client, _ = listening.accept()
        threading.Thread(target=carrier.carry, args=(client,), daemon=True).start()
