"""Jars on Spark's class path."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.spark import _on_cluster, is_local, jars_conf


def test_a_local_master_has_the_jars_as_its_own(tmp_path: Path) -> None:
    jars = [tmp_path / "a.jar", tmp_path / "b.jar"]
    assert jars_conf(jars, "local[2]") == {"spark.driver.extraClassPath": f"{jars[0]}:{jars[1]}"}


def test_executors_elsewhere_are_sent_the_jars(tmp_path: Path) -> None:
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
