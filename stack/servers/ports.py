"""Free ports on loopback: any, or the next one from a number that people know."""

from __future__ import annotations

import socket
from collections.abc import Collection

LOOPBACK = "127.0.0.1"
ROWS_TRIED = 32
ROW_TIMEOUT_S = 0.1
NEXT_TRIED_MAX = 200


def free_ports(count: int) -> list[int]:
    """``count`` different ports that are free now.

    All are held while they are looked for, so that they differ. Another process may still take one before it
    is used: a server that is started on one may not come up.
    """
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for sock in sockets:
            sock.bind((LOOPBACK, 0))
        return [int(sock.getsockname()[1]) for sock in sockets]
    finally:
        for sock in sockets:
            sock.close()


def next_free(first: int, taken: Collection[int] = ()) -> int:
    """The first port from this one on that nobody listens on, and that isn't ``taken``.

    :raises OSError: `NEXT_TRIED_MAX` aren't free
    """
    for port in range(first, first + NEXT_TRIED_MAX):
        if port not in taken and _is_free(port):
            return port
    raise OSError(f"no free port from {first} to {first + NEXT_TRIED_MAX - 1}")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
        # As servers do: connections that a stopped one had don't count.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((LOOPBACK, port))
            tried.listen()
        except OSError:
            return False
        return True


def free_row(count: int) -> int:
    """The first of ``count`` ports in a row that are free now.

    :raises OSError: there is no such row
    """
    if count == 1:
        return free_ports(1)[0]
    for first in free_ports(ROWS_TRIED):
        if not any(is_listening(port, ROW_TIMEOUT_S) for port in range(first, first + count)):
            return first
    raise OSError(f"no {count} free ports in a row")


def is_listening(port: int, timeout_s: float = 0.5) -> bool:
    """Whether something accepts connections there."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout_s):
            return True
    except OSError:
        return False
