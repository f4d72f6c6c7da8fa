"""Free ports on loopback: any, or the next one from a number that people know."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Collection

LOOPBACK = "127.0.0.1"
FREE = range(15_000, 32_768)
"""Where free ports are looked for: below those that Linux and macOS give to connections, which come and go."""
ROWS_TRIED = 32
NEXT_TRIED_MAX = 200


def free_ports(count: int) -> list[int]:
    """Returns ``count`` different ports that are free now, of `FREE` in a random order.

    A connection that is opened before a server listens there gets none of them. Another process that looks for a free
    port gets the same one by a rare chance: a server that is started on one may not come up.

    :raises OSError: so many aren't free
    """
    found: list[int] = []
    for port in secrets.SystemRandom().sample(FREE, len(FREE)):
        if is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"no {count} free ports from {FREE[0]} to {FREE[-1]}")


def next_free(first: int, taken: Collection[int] = ()) -> int:
    """Returns the first port from this one on that nobody listens on, and that isn't ``taken``.

    :raises OSError: `NEXT_TRIED_MAX` aren't free
    """
    for port in range(first, first + NEXT_TRIED_MAX):
        if port not in taken and is_free(port):
            return port
    raise OSError(f"no free port from {first} to {first + NEXT_TRIED_MAX - 1}")


def is_free(port: int) -> bool:
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
    """Returns the first of ``count`` ports in a row that are free now.

    :raises OSError: there is no such row
    """
    if count == 1:
        return free_ports(1)[0]
    for first in free_ports(ROWS_TRIED):
        if all(is_free(port) for port in range(first, first + count)):
            return first
    raise OSError(f"no {count} free ports in a row")


def is_listening(port: int, timeout_s: float = 0.5) -> bool:
    try:
        with socket.create_connection((LOOPBACK, port), timeout_s):
            return True
    except OSError:
        return False
