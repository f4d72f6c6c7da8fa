"""Free ports on loopback."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"
ROWS_TRIED = 32
ROW_TIMEOUT_S = 0.1


def free_ports(count: int) -> list[int]:
    """``count`` different ports that are free now.

    All are held while they are looked for, so that they differ. Another process may still take one before it
    is used: a server that is started on one may not come up.
    """
    held = [socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(count)]
    try:
        for one in held:
            one.bind((LOOPBACK, 0))
        return [int(one.getsockname()[1]) for one in held]
    finally:
        for one in held:
            one.close()


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
