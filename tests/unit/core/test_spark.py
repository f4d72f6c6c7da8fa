"""Jars on Spark's class path."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from core.spark import ARCHIVE, _on_cluster, is_local, jars_conf
from stack import paths
from stack.jars import spark_jars
from stack.machine import find_java

ARCHIVED = paths.JARS / "spark" / ARCHIVE


def test_a_local_master_has_the_jars_as_its_own(tmp_path: Path) -> None:
    jars = [tmp_path / "a.jar", tmp_path / "b.jar"]
    assert jars_conf(jars, "local[2]") == {"spark.driver.extraClassPath": f"{jars[0]}:{jars[1]}"}


def test_where_an_archive_lies_beside_them_the_jvm_is_reported(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE).touch()
    conf = jars_conf([tmp_path / "a.jar"], "local[*]")
    assert f'"-XX:SharedArchiveFile={tmp_path / ARCHIVE}"' in conf["spark.driver.defaultJavaOptions"]


@pytest.mark.skipif(not ARCHIVED.is_file(), reason="the JVM couldn't make the archive of classes")
def test_a_jvm_that_can_not_use_the_archive_says_nothing_where_commands_print_json() -> None:
    options = shlex.split(jars_conf(spark_jars(), "local[*]")["spark.driver.defaultJavaOptions"])
    command = [str(find_java().executable), "-cp", str(ARCHIVED.parent), *options, "-version"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == ""


def test_executors_elsewhere_are_sent_the_jars(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE).touch()
    jars = [tmp_path / "a.jar", tmp_path / "b.jar"]
    assert jars_conf(jars, "spark://there:7077") == {"spark.jars": f"{jars[0]},{jars[1]}"}


def test_executors_elsewhere_are_given_the_code_and_the_keys_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    conf = _on_cluster(tmp_path / "code.tar.gz")
    assert conf["spark.archives"] == f"{tmp_path}/code.tar.gz#environment"
    assert conf["spark.hadoop.fs.s3a.access.key"] == "key"
    assert conf["spark.hadoop.fs.s3a.secret.key"] == "secret"
    assert (conf["spark.dynamicAllocation.enabled"], conf["spark.speculation"]) == ("false", "false")


def test_only_threads_of_the_driver_are_local() -> None:
    masters = ("local", "local[2]", "local[*]", "spark://there:7077", "yarn", "k8s://https://there:6443")
    assert [is_local(master) for master in masters] == [True, True, True, False, False, False]
