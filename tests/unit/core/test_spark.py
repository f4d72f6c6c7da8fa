"""What a Spark session is given: jars, where it listens, and what nobody else may read."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext

from core import spark
from core.spark import SparkUnauthenticated, _on_cluster, is_local, jars_conf, open_spark


class Launched(Exception):
    """The JVM isn't started here."""


class Defaults:
    """Spark's own ``spark-defaults.conf``."""

    def __init__(self, **conf: str) -> None:
        self._conf = conf

    def setAll(self, pairs: list[tuple[str, str]]) -> Defaults:  # noqa: N802 - Spark's name
        self._conf |= dict(pairs)
        return self

    def get(self, key: str, default: str | None = None) -> str | None:
        return self._conf.get(key, default)

    def getAll(self) -> list[tuple[str, str]]:  # noqa: N802 - Spark's name
        return list(self._conf.items())


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


def test_the_keys_of_the_store_are_on_no_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    given: dict[str, str] = {}

    def launch(conf: Defaults) -> None:
        given.update(conf.getAll())
        raise Launched

    monkeypatch.setattr(SparkContext, "_ensure_initialized", launch)
    with pytest.raises(Launched):
        open_spark("x", "spark://there:7077", "1g", [], tmp_path, {})
    assert given["spark.master"] == "spark://there:7077"
    assert "very-secret" not in str(given)


@pytest.mark.parametrize("said", [{}, {"spark.authenticate": "false"}])
def test_a_cluster_that_asks_for_no_secret_is_refused(
    said: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda conf: None)
    monkeypatch.setattr(spark, "SparkConf", lambda **_: Defaults(**said))
    with pytest.raises(SparkUnauthenticated, match=r"spark-defaults\.conf.*SPARK_CONF_DIR"):
        open_spark("x", "spark://there:7077", "1g", [], tmp_path, {})


def test_a_local_session_takes_nothing_without_a_secret_and_listens_on_loopback(tmp_path: Path) -> None:
    conf = spark._on_loopback(tmp_path)
    assert (conf["spark.authenticate"], conf["spark.network.crypto.saslFallback"]) == ("true", "false")
    assert {conf["spark.driver.host"], conf["spark.driver.bindAddress"]} == {"127.0.0.1"}
