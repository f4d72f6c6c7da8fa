"""JVM libraries: a locked list of coordinates, fetched by Spark's own resolver and checked by hash.

``python -m stack.jars`` installs lists under ``.payhook/jars``; it is a step of `make setup`. Lists are named by their
folders: ``python -m stack.jars spark spark-store`` is what an image needs, which runs no broker.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from core.errors import PayhookError
from core.location import LakeUrl, Location
from stack import machine
from stack.errors import JarsMissing, JarsUnresolved, JarTampered, StoreJarsMissing, StoreUnreadBySpark
from stack.machine import find_java

RESOLVER_MEMORY = "512m"
END_TIMEOUT_S = 30.0
LOG = "resolver.log"
STAMP = ".lock.sha256"
LISTS = ((machine.SPARK_LOCK, machine.JARS / "spark"), (machine.KAFKA_LOCK, machine.JARS / "kafka"))
"""Each lock, and the folder that its jars are installed into."""

STORE_LIST = (machine.SPARK_STORE_LOCK, machine.JARS / "spark-store")
"""Only for a lake on an object store."""

Fetch: TypeAlias = Callable[[Sequence[str], Path], None]
"""Fetches coordinates into ``jars`` under a cache folder."""


@dataclass(frozen=True, slots=True)
class Jar:
    """A jar, as a line of a lock names it: ``group:artifact:version sha256:<hex>``."""

    coordinate: str
    sha256: str

    @property
    def file_name(self) -> str:
        _, artifact, version = self.coordinate.split(":")
        return f"{artifact}-{version}.jar"

    @property
    def resolved_name(self) -> str:
        group, _, _ = self.coordinate.split(":")
        return f"{group}_{self.file_name}"


def read_lock(lock: Path) -> list[Jar]:
    jars = []
    for line in lock.read_text("utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            coordinate, digest = line.split()
            jars.append(Jar(coordinate, digest.removeprefix("sha256:")))
    return jars


def spark_jars(lake: Location | None = None) -> list[Path]:
    """Finds the jars that Spark is given beside its own, to read a lake that is there.

    :raises JarsMissing: set-up hasn't run, or ran with another lock
    :raises StoreJarsMissing: the lake is on an object store, and set-up wasn't asked for its jars
    :raises StoreUnreadBySpark: it is on one that isn't S3's kind
    """
    jars = find_installed_jars(machine.SPARK_LOCK, machine.JARS / "spark")
    if not isinstance(lake, LakeUrl):
        return jars
    if not str(lake).startswith("s3"):
        raise StoreUnreadBySpark(str(lake))
    if not is_installed(*STORE_LIST):
        raise StoreJarsMissing(str(lake))
    return [*jars, *find_installed_jars(*STORE_LIST)]


def kafka_jars() -> list[Path]:
    return [*find_installed_jars(machine.KAFKA_LOCK, machine.JARS / "kafka"), _scala_library()]


def find_installed_jars(lock: Path, folder: Path) -> list[Path]:
    if not is_installed(lock, folder):
        raise JarsMissing(folder)
    return [folder / jar.file_name for jar in read_lock(lock)]


def is_installed(lock: Path, folder: Path) -> bool:
    stamp = folder / STAMP
    if not stamp.is_file() or stamp.read_text("utf-8") != file_sha256(lock):
        return False
    return all((folder / jar.file_name).is_file() for jar in read_lock(lock))


def install_locked_jars(lock: Path, folder: Path, cache: Path, fetch: Fetch) -> None:
    """Fetches the lock's jars, checks each hash, and puts them into ``folder`` as one step.

    :raises JarsUnresolved: no repository brought them
    :raises JarTampered: one isn't what the lock names
    """
    jars = read_lock(lock)
    fetch([jar.coordinate for jar in jars], cache)
    fresh = folder.with_name(folder.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    for jar in jars:
        jar_file = cache / "jars" / jar.resolved_name
        if not jar_file.is_file():
            raise JarsUnresolved(f"{jar.coordinate} is missing from what was fetched", cache.parent / LOG)
        digest = file_sha256(jar_file)
        if digest != jar.sha256:
            raise JarTampered(jar.coordinate, jar.sha256, digest)
        shutil.copyfile(jar_file, fresh / jar.file_name)
    (fresh / STAMP).write_text(file_sha256(lock), "utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    fresh.rename(folder)


@contextlib.contextmanager
def open_resolver(log: Path) -> Iterator[Fetch]:
    """Opens the resolver behind ``spark.jars.packages``, in a JVM of its own; what it says goes to ``log``.

    Not transitive: the lists are whole, and what they leave out is in pyspark's own jars.
    """
    from pyspark import java_gateway

    launch: Any = java_gateway.launch_gateway
    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--conf spark.driver.memory={RESOLVER_MEMORY} pyspark-shell"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as sink:
        gateway = launch(popen_kwargs={"stdout": sink, "stderr": sink})
        try:
            yield lambda coordinates, cache: _resolve(gateway.jvm, coordinates, cache, log)
        finally:
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(timeout=END_TIMEOUT_S)


def _resolve(jvm: Any, coordinates: Sequence[str], cache: Path, log: Path) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    maven = jvm.org.apache.spark.util.MavenUtils
    reported, none = jvm.java.lang.System.err, jvm.scala.Option.empty()
    try:
        settings = maven.buildIvySettings(none, jvm.scala.Option.apply(str(cache)), False, reported)
        nothing = maven.IVY_DEFAULT_EXCLUDES().take(0)
        maven.resolveMavenCoordinates(",".join(coordinates), settings, none, False, nothing, False, reported)
    except Exception as failed:
        raise JarsUnresolved(_first_line(failed), log) from failed


def _first_line(error: Exception) -> str:
    cause = getattr(error, "java_exception", None)
    return str(cause if cause is not None else error).splitlines()[0][:300]


def _scala_library() -> Path:
    """Finds Scala's library in pyspark: Spark's resolver leaves it out of everything that it fetches."""
    import pyspark

    jars = sorted((Path(pyspark.__file__).parent / "jars").glob("scala-library-2.13.*.jar"))
    if not jars:
        raise JarsMissing(Path(pyspark.__file__).parent / "jars")
    return jars[-1]


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main(names: Sequence[str] = ()) -> int:
    """Installs the lists' jars. ``names``: the folders of the lists to install; none: `LISTS`."""
    by_name = {folder.name: (lock, folder) for lock, folder in (*LISTS, STORE_LIST)}
    lists = [by_name[name] for name in names] or LISTS
    wanted = [(lock, folder) for lock, folder in lists if not is_installed(lock, folder)]
    cache = machine.STATE / "resolver"
    try:
        with open_resolver(cache / LOG) as fetch:
            for lock, folder in wanted:
                print(f"fetching {len(read_lock(lock))} jars for {folder.name} …", flush=True)
                install_locked_jars(lock, folder, cache / folder.name, fetch)
    except PayhookError as problem:
        print(problem, file=sys.stderr)
        return 1
    shutil.rmtree(cache)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
