"""On a standalone cluster executors come when the load asks for them, and idle ones go."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from processor.backlog.sizing import AdaptiveExecutors, SparkCluster
from processor.spark import open_session
from stack.machine import find_java
from stack.servers.ports import free_ports
from tests.hosts import until
from tests.own_jvm import end_jvm
from tests.processes import dies_with_the_test

pytestmark = [pytest.mark.more("a Spark cluster of its own"), pytest.mark.row("D5")]

SPARK = Path(pyspark.__file__).parent
COME_S, GO_S = 60.0, 30.0


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A master and a worker with four cores, which take nobody without the secret."""
    folder = tmp_path_factory.mktemp("spark")
    (folder / "spark-defaults.conf").write_text(
        f"spark.authenticate true\nspark.authenticate.secret {secrets.token_hex(16)}\n"
        "spark.network.crypto.enabled true\nspark.executor.cores 1\nspark.executor.memory 512m\nspark.cores.max 4\n"
    )
    port, web, own = free_ports(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(folder))
        where = ("--host", "127.0.0.1")
        started = [daemon(folder, "master.Master", *where, "--port", str(port), "--webui-port", str(web))]
        try:
            until(lambda: "ALIVE" in said(folder, "master.Master"), COME_S, "Spark's master answers")
            words = (*where, "--cores", "4", "--memory", "3g", "--work-dir", str(folder / "work"))
            started.append(
                daemon(folder, "worker.Worker", *words, "--webui-port", str(own), f"spark://127.0.0.1:{port}")
            )
            yield f"spark://127.0.0.1:{port}"
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait(COME_S)


def daemon(folder: Path, name: str, *words: str) -> subprocess.Popen[bytes]:
    own = {"JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    command = [*dies_with_the_test(), str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *words]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(command, env={**os.environ, **own}, stdout=log, stderr=log)


def said(folder: Path, name: str) -> str:
    return (folder / f"{name}.log").read_text("utf-8", "replace")


@pytest.fixture(scope="module")
def session(master: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    end_jvm()
    opened = open_session("sizing", master, "512m", (), tmp_path_factory.mktemp("driver"))
    yield opened
    opened.stop()
    end_jvm()


class LongTask(threading.Thread):
    """A job of one task, which lasts for some seconds."""

    def __init__(self, session: SparkSession, seconds: int) -> None:
        super().__init__(daemon=True)
        self._session = session
        self._seconds = seconds
        self.rows = 0
        self.start()

    def run(self) -> None:
        waits = f"java_method('java.lang.Thread', 'sleep', {self._seconds * 1_000}L)"
        self.rows = len(self._session.range(1, numPartitions=1).selectExpr(f"coalesce({waits}, 'slept') s").collect())


def test_executors_come_with_the_load_and_go_once_they_are_idle(session: SparkSession) -> None:
    cluster = SparkCluster(session)
    executors = AdaptiveExecutors(cluster, 1, least=1, most=3)
    executors.request_executors("ledger", 1)
    until(lambda: len(cluster.list_running()) == 1, COME_S, "one executor is left")
    executors.request_executors("ledger", 9)
    took_s = until(lambda: len(cluster.list_running()) == 3, COME_S, "as many as are allowed")
    busy = LongTask(session, 15)
    time.sleep(3.0)
    executors.request_executors("ledger", 1)
    gone_s = until(lambda: len(cluster.list_running()) == 1, GO_S, "the idle ones are gone")
    busy.join(COME_S)
    assert busy.rows == 1, "the one with a task ended it"
    sys.stdout.write(f"two more executors after {took_s:.1f} s, gone again after {gone_s:.1f} s\n")
