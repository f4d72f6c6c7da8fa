"""What another user of the machine can try: bytes on loopback ports, sent under another uid where the tests may."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import struct
from collections.abc import Callable
from typing import Any, TypeVar

import psutil

from tests.processes import sockets_of

NOBODY = 65534
SILENT_S = 2.0
OBJECT = b"a foreign object"
"""The text of the Java object that is sent: an answer that quotes it says that it was deserialised."""

T = TypeVar("T")


def as_another_user(call: Callable[..., T], *args: Any) -> T:
    """The result of a call in a process of the user nobody; of this user where the tests don't run as root."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            result: object = call(*args)
        except BaseException as failed:
            result = failed
        os.write(writing, pickle.dumps(result))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        result = pickle.loads(answer.read())
    os.waitpid(child, 0)
    if isinstance(result, BaseException):
        raise result
    return result  # type: ignore[return-value]


def listeners(pid: int) -> dict[int, str]:
    """The TCP ports on which a process and its children listen, each with its address."""
    listening = (held for held in sockets_of(pid, "inet") if held.status == psutil.CONN_LISTEN)
    return {held.laddr.port: held.laddr.ip for held in listening}


def send(port: int, data: bytes) -> bytes:
    """What is answered until the other side is silent or ends the connection."""
    answered = b""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), SILENT_S) as connection:
        connection.sendall(data)
        while some := connection.recv(65_536):
            answered += some
    return answered


def spark_rpc() -> bytes:
    """A request of Spark's RPC whose content is a Java object, to an endpoint that each driver has."""
    name = b"endpoint-verifier"
    receiver = b"\x00" + struct.pack(">H", len(name)) + name
    java_object = b"\xac\xed\x00\x05t" + struct.pack(">H", len(OBJECT)) + OBJECT
    body = b"\x00" + receiver + java_object
    request = b"\x03" + struct.pack(">qI", 7, len(body)) + body
    return struct.pack(">q", 8 + len(request)) + request


def py4j_command() -> bytes:
    """A command of Py4J without its token: how many processors the JVM has."""
    return b"c\nz:java.lang.Runtime\ngetRuntime\ne\n"


def python_worker_secret() -> bytes:
    """A guessed secret, as Spark sends it to the daemon of its Python workers."""
    return struct.pack(">i", 7) + b"guessed"
