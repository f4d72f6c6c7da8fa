"""How a Spark session is opened: what one that decides and one that reads have in common.

Its JVM is given jars, a shared archive of its classes, and the address of an object store.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

ARCHIVE = "classes.jsa"
"""Beside the jars: their classes, and Spark's, as a JVM had loaded them (`stack.class_archive`). A JVM that is another
one, or finds other jars, leaves it alone."""

QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""A JVM tells of an archive that it can't use on standard output, where a command prints its JSON."""

STORE_CLIENT = "hadoop-aws-"
"""The jar by which Spark reads an object store begins so."""


def open_spark(
    name: str,
    master: str,
    driver_memory: str,
    jars: Sequence[Path],
    scratch: Path,
    conf: Mapping[str, str],
    jvm_options: str = "",
) -> SparkSession:
    """A session whose Python workers run this interpreter, on loopback, without a web page.

    ``scratch`` is the folder of Spark's own files; ``conf`` is what this session has beside the common settings.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    scratch.mkdir(parents=True, exist_ok=True)
    jvm = f"-Dderby.system.home={scratch} -Djava.io.tmpdir={scratch} {jvm_options}".strip()
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**jars_conf(jars, master), **_common(driver_memory, scratch, jvm), **conf}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _common(driver_memory: str, scratch: Path, jvm: str) -> dict[str, str]:
    return {
        "spark.driver.memory": driver_memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": jvm,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }


def jars_conf(jars: Sequence[Path], master: str) -> dict[str, str]:
    """The settings that put ``jars`` onto Spark's class path.

    Under a local master they are the JVM's own, so that it can take classes from the archive: 5 s less at a start on
    two cores. Executors elsewhere get them sent.
    """
    store = _store_conf(os.environ) if any(jar.name.startswith(STORE_CLIENT) for jar in jars) else {}
    if not jars or not master.startswith("local"):
        return {"spark.jars": ",".join(map(str, jars)), **store}
    conf = {"spark.driver.extraClassPath": os.pathsep.join(map(str, jars)), **store}
    archive = jars[0].parent / ARCHIVE
    if archive.is_file():
        conf["spark.driver.defaultJavaOptions"] = f'-Xshare:auto "-XX:SharedArchiveFile={archive}" {QUIET}'
    return conf


def _store_conf(env: Mapping[str, str]) -> dict[str, str]:
    """What the process's own ``AWS_…`` variables say of the store, in Hadoop's words; keys it takes from them itself.

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
