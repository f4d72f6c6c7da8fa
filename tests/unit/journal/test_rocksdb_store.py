"""Who owns an index folder, and what becomes of it when its owner dies, pauses, or finds it damaged."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from rocksdict import WriteBatch

from journal.errors import IndexBroken, IndexHeld
from journal.rocksdb_store import BLOCK_CACHE_BYTES, BLOOM_BITS_PER_KEY, RocksDbStore, is_held

CHECKOUT = Path(__file__).parents[3]


def put(store: RocksDbStore, **pairs: str) -> None:
    batch = WriteBatch(raw_mode=True)
    for key, value in pairs.items():
        batch.put(key.encode(), value.encode())
    store.write(batch)


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


OWNER = """
import sys
from pathlib import Path
from rocksdict import WriteBatch
from journal.rocksdb_store import BLOCK_CACHE_BYTES, BLOOM_BITS_PER_KEY, RocksDbStore
store = RocksDbStore.take_over(Path(sys.argv[1]), int(sys.argv[2]))

def put(key, value):
    batch = WriteBatch(raw_mode=True)
    batch.put(key, value)
    store.write(batch)

put(b"k", b"from the other process")
print("ready", flush=True)
sys.stdin.readline()
put(b"late", b"x")
print((store.get(b"k") or b"").decode(), flush=True)
"""


@contextmanager
def owner_process(root: Path, epoch: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", OWNER, str(root), str(epoch)]
    with subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def test_the_folder_of_a_dead_owner_is_taken_over_with_what_is_in_it(tmp_path: Path) -> None:
    with owner_process(tmp_path, 1) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        store = RocksDbStore.take_over(tmp_path, 2)
    assert store.get(b"k") == b"from the other process"
    assert names(tmp_path) == ["epoch-00000002"]


def test_a_paused_owner_keeps_its_folder_and_finds_it_whole_when_it_wakes(tmp_path: Path) -> None:
    with owner_process(tmp_path, 1) as process:
        process.send_signal(signal.SIGSTOP)
        successor = RocksDbStore.take_over(tmp_path, 2)
        assert successor.get(b"k") is None
        assert names(tmp_path) == ["epoch-00000001", "epoch-00000002"]
        process.send_signal(signal.SIGCONT)
        reported, _ = process.communicate("go\n", timeout=30)
    assert reported == "from the other process\n"
    assert successor.get(b"late") is None
    successor.close()
    RocksDbStore.take_over(tmp_path, 3)
    assert names(tmp_path) == ["epoch-00000003"]


def test_of_two_owners_in_one_process_too_only_a_closed_one_gives_its_folder_away(tmp_path: Path) -> None:
    first = RocksDbStore.take_over(tmp_path, 1)
    put(first, k="first")
    second = RocksDbStore.take_over(tmp_path, 2)
    assert second.get(b"k") is None
    first.close()
    second.close()
    third = RocksDbStore.take_over(tmp_path, 3)
    assert third.get(b"k") is None, "the newest folder is taken, not the older one"
    assert names(tmp_path) == ["epoch-00000003"]


def test_an_epoch_that_is_owned_already_is_refused(tmp_path: Path) -> None:
    first = RocksDbStore.take_over(tmp_path, 1)
    put(first, k="first")
    with pytest.raises(IndexHeld):
        RocksDbStore.take_over(tmp_path, 1)
    assert first.get(b"k") == b"first"


def test_a_folder_that_cannot_be_opened_is_free_for_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a full disk: the same process tries again, and nothing is begun beside it."""
    RocksDbStore.take_over(tmp_path, 1).close()

    def full(_folder: Path) -> None:
        raise IndexBroken(str(tmp_path), "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("journal.rocksdb_store._open_or_begin", full)
        with pytest.raises(IndexBroken):
            RocksDbStore.take_over(tmp_path, 2)
    assert not is_held(tmp_path)
    RocksDbStore.take_over(tmp_path, 3).close()
    assert [folder.name for folder in tmp_path.iterdir()] == ["epoch-00000003"]


def test_a_folder_of_a_later_epoch_is_taken_over_when_its_owner_is_dead(tmp_path: Path) -> None:
    """The journal was made again and counts its epochs from 1 again: a reader must not find the old folder newest."""
    old = RocksDbStore.take_over(tmp_path, 9)
    put(old, k="old")
    old.close()
    assert RocksDbStore.take_over(tmp_path, 1).get(b"k") == b"old"
    assert names(tmp_path) == ["epoch-00000001"]


def test_a_folder_removed_under_its_owner_is_not_taken_for_owned(tmp_path: Path) -> None:
    first = RocksDbStore.take_over(tmp_path, 1)
    shutil.rmtree(tmp_path)
    second = RocksDbStore.take_over(tmp_path, 2)
    assert second.get(b"k") is None
    first.close()


def test_a_folder_that_is_renamed_while_it_is_being_locked_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two starters look at the folder of one dead owner."""
    RocksDbStore.take_over(tmp_path, 1).close()
    flock = fcntl.flock
    others: list[RocksDbStore] = []

    def slow_flock(descriptor: int, operation: int) -> None:
        if not others:
            monkeypatch.setattr(fcntl, "flock", flock)
            others.append(RocksDbStore.take_over(tmp_path, 3))
            put(others[0], k="theirs")
            others[0].close()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", slow_flock)
    mine = RocksDbStore.take_over(tmp_path, 2)
    assert mine.get(b"k") is None
    assert names(tmp_path) == ["epoch-00000002", "epoch-00000003"]


def test_what_was_written_is_read_again_after_a_close_and_keys_come_in_order(tmp_path: Path) -> None:
    store = RocksDbStore.take_over(tmp_path, 1)
    put(store, ab="1", aa="2", b="3", a="4")
    store.close()
    again = RocksDbStore.take_over(tmp_path, 2)
    assert list(again.read_keys(b"a")) == [b"a", b"aa", b"ab"]
    again.begin_again()
    assert list(again.read_keys(b"")) == []


def test_a_reader_beside_the_owner_sees_what_was_written(tmp_path: Path) -> None:
    store = RocksDbStore.take_over(tmp_path, 1)
    put(store, k="v")
    beside = RocksDbStore.read_only(tmp_path)
    assert beside.get(b"k") == b"v"
    beside.close()
    put(store, k="w")
    assert store.get(b"k") == b"w"
    assert RocksDbStore.take_over(tmp_path, 2).get(b"k") is None, "the reader didn't give the owner's folder away"


def test_there_is_nothing_to_read_where_there_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError):
        RocksDbStore.read_only(tmp_path)


# a copy that it begins with


def test_it_begins_with_a_copy_and_what_completes_it_or_is_empty(tmp_path: Path) -> None:
    store = RocksDbStore.take_over(tmp_path / "root", 1)
    put(store, k="copied")
    copied = store.copy(tmp_path / "copy")
    copied.close()

    def fill(folder: Path) -> None:
        for file in copied.files():
            shutil.copy(file, folder)

    def fail() -> None:
        put(store, more="x")
        raise ValueError

    store.begin_again(fill, lambda: put(store, more="x"))
    assert list(store.read_keys(b"")) == [b"k", b"more"]
    with pytest.raises(ValueError):
        store.begin_again(fill, fail)
    assert list(store.read_keys(b"")) == []
    put(store, k="v")
    store.close()
    assert RocksDbStore.take_over(tmp_path / "root", 2).get(b"k") == b"v", "what it began is whole"


def test_a_copy_that_cannot_be_opened_is_an_error_of_the_index_and_leaves_an_empty_one(tmp_path: Path) -> None:
    store = RocksDbStore.take_over(tmp_path / "root", 1)
    put(store, k="before")

    def fill(folder: Path) -> None:
        (folder / "CURRENT").write_text("no manifest")

    with pytest.raises(IndexBroken, match="made again from the journal"):
        store.begin_again(fill)
    put(store, k="v")
    assert store.get(b"k") == b"v"


# damage


KILLED = """
import os, signal, sys
from pathlib import Path
from journal.rocksdb_store import RocksDbStore
left, listed = int(sys.argv[2]), os.listdir
os.listdir = lambda folder: sorted(listed(folder), key="BROKEN".__ne__)  # a folder may list its names in any order

def look(event, args):
    global left
    if event == "os.remove":
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(look)
RocksDbStore.take_over(Path(sys.argv[1]), 2).close()
"""


def test_a_marked_folder_ends_up_empty_though_who_empties_it_is_killed(tmp_path: Path) -> None:
    removals, status = 0, -signal.SIGKILL
    while status == -signal.SIGKILL:
        removals += 1
        root = tmp_path / f"{removals}"
        filled(root)
        (root / "epoch-00000001" / "BROKEN").touch()
        status = subprocess.run([sys.executable, "-c", KILLED, str(root), str(removals)], cwd=CHECKOUT).returncode
        store = RocksDbStore.take_over(root, 3)
        assert list(store.read_keys(b"")) == [], f"killed at removal {removals}"
        store.close()
    assert status == 0 and removals > 5


def remove(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def garble(path: Path) -> None:
    path.write_bytes(random.Random(5).randbytes(path.stat().st_size))


def filled(root: Path) -> None:
    """One sorted file on disk, with more than one block."""
    store = RocksDbStore.take_over(root, 1)
    for chunk in range(20):
        put(store, **{f"key-{chunk:03}-{n:03}": f"{n}" * 40 for n in range(100)})
    store._db.flush()
    store.close()


@pytest.mark.parametrize("damage", [remove, truncate, garble])
@pytest.mark.parametrize("files", ["*.sst", "MANIFEST-*", "CURRENT"])
def test_a_damaged_folder_ends_up_empty_or_whole_never_in_between(
    tmp_path: Path, files: str, damage: Callable[[Path], None]
) -> None:
    """At the start where it shows at the start; else a read marks it, and the next start makes it again."""
    filled(tmp_path)
    for path in tmp_path.rglob(files):
        damage(path)
    store = RocksDbStore.take_over(tmp_path, 2)
    try:
        held = len(list(store.read_keys(b"key")))
    except IndexBroken:
        store.close()
        store = RocksDbStore.take_over(tmp_path, 3)
        held = len(list(store.read_keys(b"key")))
    assert held in (0, 2000)
    put(store, k="v")
    assert store.get(b"k") == b"v"


def test_damage_found_by_a_look_up_is_an_error_and_not_an_unknown_key(tmp_path: Path) -> None:
    filled(tmp_path)
    for path in tmp_path.rglob("*.sst"):
        content = bytearray(path.read_bytes())
        content[: len(content) // 2] = random.Random(5).randbytes(len(content) // 2)
        path.write_bytes(content)
    store = RocksDbStore.take_over(tmp_path, 2)
    with pytest.raises(IndexBroken):
        store.get(b"key-000-000")
    with pytest.raises(IndexBroken):
        list(store.read_keys(b"key-000"))
    store.close()
    assert RocksDbStore.take_over(tmp_path, 3).get(b"key-000-000") is None


def filters(folder: Path) -> str:
    """As RocksDB wrote it into its own log when it was opened last."""
    lines = [line.strip() for line in (folder / "LOG").read_text("utf-8").splitlines() if " filter_policy:" in line]
    return lines[-1].rpartition(" ")[2]


def test_a_store_that_is_there_already_is_opened_with_the_same_filters_and_cache_as_a_new_one(tmp_path: Path) -> None:
    """RocksDB's own are no filters and 8 MiB: look-ups of new keys would read blocks, and those never stay."""
    reported = []
    for epoch in (1, 2, 3):
        store = RocksDbStore.take_over(tmp_path, epoch)
        put(store, k="v")
        if epoch == 3:
            store.begin_again()
        folder = tmp_path / f"epoch-{epoch:08}"
        capacity = store._db.property_int_value("rocksdb.block-cache-capacity")
        reported.append((capacity, filters(folder)))
        store.close()
    reader = RocksDbStore.read_only(tmp_path)
    assert reader._db.property_int_value("rocksdb.block-cache-capacity") == BLOCK_CACHE_BYTES
    reader.close()
    assert reported == [(BLOCK_CACHE_BYTES, "bloomfilter")] * 3


def test_the_filter_of_a_large_file_stays_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one piece it is more than a shard of the cache takes, and would be read again for each key."""
    monkeypatch.setattr("journal.rocksdb_store.BLOCK_CACHE_BYTES", 16 << 20)
    chance, keys = Random(5), 600_000
    store = RocksDbStore.take_over(tmp_path, 1)
    batch = WriteBatch(raw_mode=True)
    for _ in range(keys):
        batch.put(chance.randbytes(16), b"")
    store.write(batch)
    store.close()
    store = RocksDbStore.take_over(tmp_path, 2)
    assert store.get_many([chance.randbytes(16) for _ in range(2_000)]) == [None] * 2_000
    used = store._db.property_int_value("rocksdb.block-cache-usage") or 0
    assert used > 0.8 * keys * BLOOM_BITS_PER_KEY / 8
    assert used <= store.memory_bytes() <= used + (1 << 20), "nothing is written yet"
    more = WriteBatch(raw_mode=True)
    for _ in range(10_000):
        more.put(chance.randbytes(16), b"")
    store.write(more)
    assert store.memory_bytes() > used + 10_000 * 16
    store.close()
