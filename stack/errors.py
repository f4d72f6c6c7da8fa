"""Errors of the machine under the stack; each message says what to do."""

from __future__ import annotations

from pathlib import Path

from core.errors import PayhookError

TAIL_LINES = 15
"""The last lines of a server's log that a message shows."""


class JavaMissing(PayhookError):
    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(
            f"{problem}: payhook needs Java 17 or 21 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
            "Fedora: dnf install java-21-openjdk-headless; macOS: brew install openjdk@21), on PATH or in JAVA_HOME"
        )


class RedisMissing(PayhookError):
    def __init__(self) -> None:
        super().__init__(
            "no redis-server or valkey-server on PATH and no fall-back installed: run `make setup`, or install one "
            "(Debian, Ubuntu: apt-get install redis-server; Fedora: dnf install valkey; macOS: brew install redis)"
        )


class JarsMissing(PayhookError):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"{folder} doesn't hold the jars of its lock: run `make setup`")


class StoreJarsMissing(PayhookError):
    def __init__(self, lake: str) -> None:
        self.lake = lake
        super().__init__(
            f"the lake is {lake}, and Spark has no jars to read an object store: run `make setup OBJECT_STORE=1`"
        )


class StoreUnreadBySpark(PayhookError):
    def __init__(self, lake: str) -> None:
        self.lake = lake
        super().__init__(
            f"the lake is {lake}, which Spark can't read here: only an S3-compatible store. See docs/storage.md"
        )


class JarsUnresolved(PayhookError):
    def __init__(self, problem: str, log: Path) -> None:
        self.problem = problem
        self.log = log
        super().__init__(
            f"the JVM libraries couldn't be fetched: {problem} (the resolver's log is {log}); "
            "check that a Maven repository can be reached, then run `make setup` again"
        )


class JarTampered(PayhookError):
    def __init__(self, jar: str, wanted: str, found: str) -> None:
        self.jar = jar
        super().__init__(
            f"{jar}: sha256 {found} isn't the lock's {wanted}; it was changed on its way, nothing is installed"
        )


class ServerLeft(PayhookError):
    """A process was killed, and is there still: the kernel ends none that waits for a disk which doesn't answer."""

    def __init__(self, name: str, pid: int) -> None:
        self.name = name
        self.pid = pid
        super().__init__(
            f"{name} (process {pid}) was killed but doesn't end: check that the disks it works on answer, then run "
            "`payhook down` again"
        )


class ServerNotUp(PayhookError):
    """A server ended, or didn't answer in time. ``log_from``: where in its log this start's own lines begin."""

    def __init__(self, name: str, problem: str, log: Path, log_from: int = 0) -> None:
        self.name = name
        self.problem = problem
        self.log = log
        wrote = _read_tail(log, log_from)
        what = f"the end of {log}:\n{wrote}" if wrote else f"it wrote nothing into {log}"
        super().__init__(f"{name} {problem}; {what}")


def _read_tail(log: Path, log_from: int) -> str:
    try:
        lines = log.read_bytes()[log_from:].decode("utf-8", "replace").splitlines()
    except OSError:
        return "  (no log)"
    return "\n".join(f"  {line[:300]}" for line in lines[-TAIL_LINES:])


class StackNotUp(PayhookError):
    def __init__(self, said: str, log: Path) -> None:
        self.said = said
        self.log = log
        super().__init__(said or f"the supervisor ended without a message; see {log}")


class SetupFailed(PayhookError):
    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem}: {remedy}")


class AlreadyUp(PayhookError):
    def __init__(self, data_dir: Path, pid: int | None) -> None:
        self.data_dir = data_dir
        self.pid = pid
        which = "" if pid is None else f" (process {pid})"
        super().__init__(f"a stack already runs on {data_dir}{which}: `payhook down --data {data_dir}` stops it")


class HeldUnseen(PayhookError):
    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        super().__init__(
            f"a stack runs on {data_dir}, and its process can't be seen from here, as in another container: run "
            "`payhook down` there"
        )


class RestoreUnfinished(PayhookError):
    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        super().__init__(
            f"a restore of {data_dir} was interrupted, and its tables are in place in part: run the same "
            "`payhook restore` again, which continues where it stopped"
        )


class NotUp(PayhookError):
    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        super().__init__(f"no stack runs on {data_dir}: start it with `payhook up --detach --data {data_dir}`")


class KafkaNotUp(PayhookError):
    def __init__(self, address: str, problem: str) -> None:
        self.address = address
        self.problem = problem
        super().__init__(
            f"Kafka at {address} can't be used: {problem}. kafka.bootstrap_servers and kafka.security name it; where "
            "they aren't set, `payhook up` starts a broker of its own"
        )
