"""Another user of the machine gets nothing out of Spark's ports, and nothing into its JVM."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pyspark.sql import DataFrame, SparkSession

from processor.spark import open_session
from stack.jars import spark_jars
from tests import local_attacker
from tests.local_attacker import OBJECT, as_another_user, listeners, send
from tests.own_jvm import end_jvm
from tests.processes import name_of, sockets_of, with_children

pytestmark = pytest.mark.more(reason="a JVM of its own with every door of Spark open")

WAIT_S = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[SparkSession]:
    """A processor's session, with Python workers, a callback from Java and a stream that runs."""
    end_jvm()
    before = os.umask(0o077)
    opened = open_session("doors", "local[2]", "512m", spark_jars(), folder)
    opened.range(10).mapInArrow(lambda batches: batches, "id long").collect()
    stream = opened.readStream.format("rate").load().writeStream.foreachBatch(count)
    query = stream.option("checkpointLocation", str(folder / "checkpoint")).start()
    while query.lastProgress is None:
        query.awaitTermination(1)
    yield opened
    query.stop()
    opened.stop()
    os.umask(before)


def count(frame: DataFrame, _number: int) -> None:
    frame.count()


def test_every_port_is_on_loopback(session: SparkSession) -> None:
    found = listeners(os.getpid())
    assert found
    assert {address.removeprefix("::ffff:") for address in found.values()} == {"127.0.0.1"}


@pytest.mark.row("G11")
@pytest.mark.parametrize("attack", ["spark_rpc", "py4j_command", "python_worker_secret"])
def test_no_port_does_what_it_is_sent_without_a_secret(session: SparkSession, attack: str) -> None:
    data = getattr(local_attacker, attack)()
    for port in listeners(os.getpid()):
        answered = as_another_user(send, port, data)
        assert OBJECT not in answered, f"port {port} deserialised what a stranger sent"
        assert not answered.startswith(b"!y"), f"port {port} ran a command without its token"
    assert session.range(10).count() == 10


def _is_spark(process: psutil.Process) -> bool:
    """Whether it is the session's JVM; a child that ended meanwhile isn't."""
    try:
        return "org.apache.spark.deploy.SparkSubmit" in process.cmdline()
    except psutil.Error:
        return False


def test_only_the_gateway_and_the_authenticated_ports_of_spark_listen(session: SparkSession) -> None:
    """Python's workers and accumulators are reached by sockets in a folder of the owner alone."""
    _, *children = with_children(os.getpid())
    [spark] = [child for child in children if _is_spark(child)]
    assert len(listeners(spark.pid)) == 3, "the gateway, the RPC and the block manager"
    pythons = [child for child in children if name_of(child).startswith("python")]
    assert pythons
    assert [listeners(python.pid) for python in pythons] == [{} for _ in pythons]


def test_sockets_are_where_nobody_else_gets_to(session: SparkSession) -> None:
    places = {Path(held.laddr) for held in sockets_of(os.getpid(), "unix") if held.laddr}
    sockets = [place for place in places if place.suffix == ".sock"]
    assert sockets
    for place in sockets:
        assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
        if os.geteuid() == 0:
            with pytest.raises(PermissionError):
                as_another_user(connect, str(place))


def connect(path: str) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)


def test_no_file_of_sparks_is_another_users_to_read(session: SparkSession, folder: Path) -> None:
    assert list((folder / "checkpoint").rglob("*"))
    for path in folder.rglob("*"):
        if not path.is_symlink() and path.exists():
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_no_secret_is_on_the_command_line(session: SparkSession) -> None:
    """Everybody on the machine reads it."""
    java = next(process for process in with_children(os.getpid()) if name_of(process) == "java")
    assert "secret" not in " ".join(java.cmdline())
