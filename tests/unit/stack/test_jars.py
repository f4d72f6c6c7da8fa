"""Jars are those of the lock, all of them, with the lock's hashes; anything else is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from stack import jars, machine
from stack.errors import JarsMissing, JarsUnresolved, JarTampered

CONTENT = {"org.one:first:1.0": b"first", "org.two:second_2.13:2.0-rc1": b"second"}


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    lines = [f"{name} sha256:{hashlib.sha256(jar).hexdigest()}" for name, jar in CONTENT.items()]
    path = tmp_path / "some.lock"
    path.write_text("# what it is\n" + "\n".join(lines) + "\n")
    return path


class Repository:
    """Brings what it holds; a test may change that."""

    def __init__(self) -> None:
        self.held = dict(CONTENT)

    def fetch(self, coordinates: Sequence[str], cache: Path) -> None:
        (cache / "jars").mkdir(parents=True, exist_ok=True)
        for jar in (jars.Jar(coordinate, "") for coordinate in coordinates):
            if jar.coordinate in self.held:
                (cache / "jars" / jar.resolved_name).write_bytes(self.held[jar.coordinate])


@pytest.fixture
def repository() -> Repository:
    return Repository()


def test_an_installed_list_is_exactly_the_lock(tmp_path: Path, lock: Path, repository: Repository) -> None:
    jars.install_locked_jars(lock, tmp_path / "jars", tmp_path / "cache", repository.fetch)
    found = jars.find_installed_jars(lock, tmp_path / "jars")
    assert [jar.name for jar in found] == ["first-1.0.jar", "second_2.13-2.0-rc1.jar"]
    assert [jar.read_bytes() for jar in found] == [b"first", b"second"]


def test_a_jar_with_another_hash_is_refused_and_nothing_installed(
    tmp_path: Path, lock: Path, repository: Repository
) -> None:
    repository.held["org.two:second_2.13:2.0-rc1"] = b"changed"
    with pytest.raises(JarTampered, match=r"org\.two:second_2\.13:2\.0-rc1: sha256 .* isn't the lock's"):
        jars.install_locked_jars(lock, tmp_path / "jars", tmp_path / "cache", repository.fetch)
    assert not jars.is_installed(lock, tmp_path / "jars")


def test_a_jar_that_no_repository_has_is_named(tmp_path: Path, lock: Path, repository: Repository) -> None:
    del repository.held["org.one:first:1.0"]
    with pytest.raises(JarsUnresolved, match=r"org\.one:first:1\.0 is missing"):
        jars.install_locked_jars(lock, tmp_path / "jars", tmp_path / "cache", repository.fetch)


def test_a_changed_lock_or_a_lost_jar_wants_the_set_up_again(
    tmp_path: Path, lock: Path, repository: Repository
) -> None:
    folder = tmp_path / "jars"
    with pytest.raises(JarsMissing, match="run `make setup`"):
        jars.find_installed_jars(lock, folder)
    jars.install_locked_jars(lock, folder, tmp_path / "cache", repository.fetch)
    (folder / "first-1.0.jar").rename(folder / "kept")
    assert not jars.is_installed(lock, folder)
    (folder / "kept").rename(folder / "first-1.0.jar")
    assert jars.is_installed(lock, folder)
    lock.write_text(lock.read_text() + "# changed\n")
    assert not jars.is_installed(lock, folder)


@pytest.mark.parametrize("lock", [machine.SPARK_LOCK, machine.KAFKA_LOCK])
def test_the_project_s_locks_name_each_artifact_once_with_a_whole_hash(lock: Path) -> None:
    read = jars.read_lock(lock)
    names = [jar.coordinate.rsplit(":", 1)[0] for jar in read]
    assert len(names) == len(set(names))
    assert all(len(jar.sha256) == 64 for jar in read)


def test_spark_gets_no_jar_that_pyspark_brings() -> None:
    """What shadows one of Spark's own jars breaks it in odd ways."""
    import pyspark

    own = {jar.name.rsplit("-", 1)[0] for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    added = {jar.file_name.rsplit("-", 1)[0] for jar in jars.read_lock(machine.SPARK_LOCK)}
    assert added & own == set()
