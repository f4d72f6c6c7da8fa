"""The store of bodies."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

import journal.bodies
from journal.bodies import BodyStore
from journal.errors import JournalBroken
from tests.unit.journal.rows import sha


def body(name: str) -> tuple[str, bytes]:
    return sha(name), name.encode()


def test_bodies_come_back_by_hash_and_unknown_ones_are_left_out(tmp_path: Path) -> None:
    store = BodyStore(str(tmp_path / "bodies"))
    store.append([body("a"), body("b")])
    store.append([body("c"), (sha(""), b"")])
    assert store.fetch([sha("a"), sha("c"), sha(""), sha("unknown")]) == dict([body("a"), body("c"), (sha(""), b"")])


def test_a_body_written_twice_is_one_body(tmp_path: Path) -> None:
    store = BodyStore(str(tmp_path / "bodies"))
    for _ in range(2):
        store.append([body("a"), body("a")])
    assert store.fetch([sha("a")]) == dict([body("a")])


def test_nothing_to_write_makes_no_commit(tmp_path: Path) -> None:
    store = BodyStore(str(tmp_path / "bodies"))
    store.append([])
    assert DeltaTable(str(tmp_path / "bodies")).version() == 0
    assert store.fetch([sha("a")]) == {} == store.fetch([])


def test_two_stores_append_side_by_side(tmp_path: Path) -> None:
    """A stale processor's bodies are orphans, not an obstacle."""
    one, other = BodyStore(str(tmp_path / "bodies")), BodyStore(str(tmp_path / "bodies"))
    one.append([body("a")])
    other.append([body("b")])
    one.append([body("c")])
    assert len(one.fetch([sha("a"), sha("b"), sha("c")])) == 3


def test_the_search_ends_with_the_newest_files_that_hold_what_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal.bodies, "FILES_PER_READ", 2)
    path = tmp_path / "bodies"
    store = BodyStore(str(path))
    # Hashes from end to end, as in any file of more than a few: statistics rule none out.
    ends = [("0" * 64, b""), ("f" * 64, b"")]
    store.append([body("old"), *ends])
    for old in path.glob("*.parquet"):
        old.write_bytes(b"can't be read")
    for name in "abcd":
        store.append([body(name), *ends])
    assert store.fetch([sha("d"), sha("c")]) == dict([body("c"), body("d")])
    assert store.find_bodies([sha("old")]).lost != ()


def test_which_bodies_are_there_is_reported_without_them(tmp_path: Path) -> None:
    store = BodyStore(str(tmp_path / "bodies"))
    store.append([(sha("a"), b"a"), (sha("b"), b"b")])
    store.append([(sha("c"), b"c")])
    assert store.find_kept([sha("a"), sha("c"), sha("d")]) == {sha("a"), sha("c")}
    assert store.find_kept([]) == set()


def gone(file: Path) -> None:
    file.unlink()


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:20])


def overwritten(file: Path) -> None:
    file.write_bytes(b"\0" * file.stat().st_size)


def newest(path: Path) -> Path:
    return max(path.glob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)


@pytest.mark.parametrize("loss", [gone, cut, overwritten])
def test_a_lost_file_takes_no_body_of_another_file_along(tmp_path: Path, loss: Callable[[Path], None]) -> None:
    path = tmp_path / "bodies"
    store = BodyStore(str(path))
    store.append([body("a")])
    store.append([body("b")])
    lost = newest(path)
    loss(lost)
    assert store.fetch([sha("a"), sha("b")]) == dict([body("a")])
    assert store.find_kept([sha("a"), sha("b")]) == {sha("a")}
    found = store.find_bodies([sha("a"), sha("b")])
    assert (dict(found.bodies), found.hashes) == (dict([body("a")]), {sha("a")})
    [named] = found.lost
    assert named.startswith(lost.name)
    assert [one.partition(" ")[0] for one in store.lost_files()] == [lost.name]


def test_what_was_found_before_a_lost_file_names_none(tmp_path: Path) -> None:
    store = BodyStore(str(tmp_path / "bodies"))
    store.append([body("a")])
    gone(newest(tmp_path / "bodies"))
    store.append([body("b")])
    assert store.find_bodies([sha("b")]).lost == ()
    assert store.find_bodies([sha("a")]).lost != ()


def test_a_disk_that_answers_with_an_error_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine settles an event whose body is gone; not one whose disk is away for a moment."""
    store = BodyStore(str(tmp_path / "bodies"))
    store.append([body("a")])

    def away(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("journal.bodies._read_fragments", away)
    with pytest.raises(JournalBroken, match="Input/output error"):
        store.fetch([sha("a")])
