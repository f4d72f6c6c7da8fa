"""Jars on Spark's class path."""

from __future__ import annotations

from pathlib import Path

from core.jvm import ARCHIVE, jars_conf


def test_a_local_master_has_the_jars_as_its_own(tmp_path: Path) -> None:
    jars = [tmp_path / "a.jar", tmp_path / "b.jar"]
    assert jars_conf(jars, "local[2]") == {"spark.driver.extraClassPath": f"{jars[0]}:{jars[1]}"}


def test_where_an_archive_lies_beside_them_the_jvm_is_told(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE).touch()
    conf = jars_conf([tmp_path / "a.jar"], "local[*]")
    assert f'"-XX:SharedArchiveFile={tmp_path / ARCHIVE}"' in conf["spark.driver.defaultJavaOptions"]


def test_executors_elsewhere_are_sent_the_jars(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE).touch()
    jars = [tmp_path / "a.jar", tmp_path / "b.jar"]
    assert jars_conf(jars, "spark://there:7077") == {"spark.jars": f"{jars[0]},{jars[1]}"}
