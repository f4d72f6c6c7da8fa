"""The store of bodies."""

from __future__ import annotations

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
    with pytest.raises(JournalBroken):
        store.fetch([sha("old")])


def test_which_bodies_are_there_is_reported_without_them(tmp_path: Path) -> None:
    store = BodyStore(str(tmp_path / "bodies"))
    store.append([(sha("a"), b"a"), (sha("b"), b"b")])
    store.append([(sha("c"), b"c")])
    assert store.held([sha("a"), sha("c"), sha("d")]) == {sha("a"), sha("c")}
    assert store.held([]) == set()
