"""How a Spark session is opened: what one that decides and one that reads have in common."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from core.jvm import jars_conf


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
