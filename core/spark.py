"""How a Spark session is opened: what one that decides and one that reads have in common.

Its JVM is given jars and the address of an object store.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from core.errors import SettingError
from core.sockets import make_socket_folder, socket_folder

COMPILED_ONCE = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Code is compiled once and quickly, and what was compiled has room to stay: C1 alone is given 48 MB by the JVM, and
once they are full nothing more is compiled (docs/decisions/0019)."""

STORE_CLIENT = "hadoop-aws-"
"""The jar by which Spark reads an object store begins so."""


ENVIRONMENT = "environment"
"""Where an executor unpacks the archive of code, below its own working folder (`stack.package`)."""


DIRECT_RESULT = "100m"
"""Below Spark's bound of a message, 128 MB."""

SOCKET_NAME_BYTES = len(".01234567-89ab-cdef-0123-456789abcdef.sock")
"""Spark's own names for the sockets of Python's workers and accumulators."""


class SparkUnauthenticated(SettingError):
    """Raised when a cluster would reach the driver without a secret: whoever reaches its ports could run code in it."""

    def __init__(self, master: str) -> None:
        self.master = master
        super().__init__(
            "spark.authenticate",
            f"{master} is a cluster, and whoever reaches the driver's or an executor's port could run code there. "
            "Write `spark.authenticate true` into spark-defaults.conf in the folder that SPARK_CONF_DIR names "
            "(docs/cluster.md says what else a cluster needs)",
        )


def is_local(master: str) -> bool:
    return master.startswith("local")


def open_spark(
    name: str,
    master: str,
    driver_memory: str,
    jars: Sequence[Path],
    scratch: Path,
    conf: Mapping[str, str],
    jvm_options: str = "",
    archive: Path | None = None,
) -> SparkSession:
    """Opens a session without a web page. Nobody talks to it without a secret (docs/decisions/0098).

    Under a local master all of it is on loopback, and its Python workers run this interpreter; executors elsewhere run
    what is in the ``archive``. ``scratch`` is the folder of Spark's own files. ``conf`` is added to the common
    settings; what only the cluster's operator knows stands in ``spark-defaults.conf`` (docs/cluster.md).

    :raises SparkUnauthenticated: the cluster's settings ask for no secret
    :raises SocketFolderUnsafe: another user may get at the sockets of Python's workers
    """
    scratch.mkdir(parents=True, exist_ok=True)
    jvm = f"-Dderby.system.home={scratch} -Djava.io.tmpdir={scratch} {jvm_options}".strip()
    if archive is None:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:
        os.environ["PYSPARK_PYTHON"] = f"./{ENVIRONMENT}/bin/python"
    place = _on_loopback(scratch) if is_local(master) else _on_cluster(archive)
    names = {"spark.app.name": name, "spark.master": master}
    all_conf = {**names, **jars_conf(jars, master), **_common_conf(driver_memory, scratch, jvm), **place, **conf}
    _start_jvm(all_conf)
    if not is_local(master) and SparkConf().get("spark.authenticate") != "true":
        raise SparkUnauthenticated(master)
    builder = SparkSession.builder
    for key, value in all_conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _start_jvm(conf: Mapping[str, str]) -> None:
    """Starts the JVM unless it runs. Pass it no keys: everybody can read its command line."""
    public = [(key, value) for key, value in conf.items() if key not in _store_keys(os.environ)]
    # Whoever builds a session has all of its settings there.
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll(public))  # noqa: SLF001


def _common_conf(driver_memory: str, scratch: Path, jvm: str) -> dict[str, str]:
    return {
        "spark.driver.memory": driver_memory,
        "spark.driver.extraJavaOptions": jvm,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Hadoop sets each file's mode by itself, and doesn't ask the process's umask.
        "spark.hadoop.fs.permissions.umask-mode": f"{_read_umask():03o}",
    }


def _read_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _on_loopback(scratch: Path) -> dict[str, str]:
    """Spark makes the secret itself, within the JVM; Python's workers are reached by sockets of this user's.

    A task's result of more than `DIRECT_RESULT` would be fetched over an encrypted connection of the JVM to itself.
    """
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    sockets = socket_folder(scratch, SOCKET_NAME_BYTES)
    make_socket_folder(sockets, scratch)
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.saslFallback": "false",
        "spark.task.maxDirectResultSize": DIRECT_RESULT,
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(sockets),
    }


def _on_cluster(archive: Path | None) -> dict[str, str]:
    """Reasons: docs/decisions/0085."""
    return {
        "spark.submit.deployMode": "client",
        "spark.dynamicAllocation.enabled": "false",
        "spark.speculation": "false",
        "spark.locality.wait": "0s",
        "spark.executor.heartbeatInterval": "3s",
        "spark.executor.heartbeat.maxFailures": "10",
        "spark.network.timeout": "30s",
        "spark.network.timeoutInterval": "5s",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "30s",
        **({} if archive is None else {"spark.archives": f"{archive}#{ENVIRONMENT}"}),
        **_store_keys(os.environ),
    }


def _store_keys(env: Mapping[str, str]) -> dict[str, str]:
    keys = {
        "fs.s3a.access.key": env.get("AWS_ACCESS_KEY_ID"),
        "fs.s3a.secret.key": env.get("AWS_SECRET_ACCESS_KEY"),
        "fs.s3a.session.token": env.get("AWS_SESSION_TOKEN"),
    }
    return {f"spark.hadoop.{name}": value for name, value in keys.items() if value}


def jars_conf(jars: Sequence[Path], master: str) -> dict[str, str]:
    """Returns the settings that put ``jars`` onto Spark's class path.

    A local master reads them in place; executors elsewhere get them sent.
    """
    store = _store_conf(os.environ) if any(jar.name.startswith(STORE_CLIENT) for jar in jars) else {}
    if not jars or not is_local(master):
        return {"spark.jars": ",".join(map(str, jars)), **store}
    return {"spark.driver.extraClassPath": os.pathsep.join(map(str, jars)), **store}


def _store_conf(env: Mapping[str, str]) -> dict[str, str]:
    """Translates this process's ``AWS_…`` variables for Hadoop, which reads the keys from them itself.

    A store that doesn't answer fails a query within a minute, not within Hadoop's half an hour.
    """
    conf = {
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "fs.s3a.endpoint": env.get("AWS_ENDPOINT_URL", ""),
        "fs.s3a.endpoint.region": env.get("AWS_REGION", ""),
        "fs.s3a.path.style.access": str(env.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST") == "false").lower(),
        "fs.s3a.connection.ssl.enabled": str(env.get("AWS_ALLOW_HTTP") != "true").lower(),
        "fs.s3a.attempts.maximum": "3",
        "fs.s3a.retry.limit": "3",
    }
    return {f"spark.hadoop.{name}": value for name, value in conf.items() if value}
