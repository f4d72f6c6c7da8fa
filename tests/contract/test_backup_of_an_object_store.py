"""Backups of a lake on a disk or an object store, to a disk or a store: the same promises each way."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cli.main import main
from core.clock import SystemClock, to_rfc3339
from core.decision import Decision
from core.errors import SettingError
from core.location import LakeUrl, Location, location_of
from journal.histories import is_given_up, read_abandoned
from journal.objects import ObjectStorage
from journal.reader import JournalReader
from journal.storage import open_storage
from operations.audit_log import AuditLog
from stack.backup import restore as restoring
from stack.backup.make import check_backup
from stack.backup.manifest import (
    MANIFEST,
    BackupImpossible,
    NewerRows,
    RestoreRefused,
    choose_backup,
    list_backups,
    list_complete_backups,
)
from stack.backup.restore import RestoreReport, finish, restore
from stack.backup.trees import LOCK, LOCK_H_MAX, tree_at
from stack.settings import Settings
from stack.settings import prepare_store as reach_place
from tests.backed_up import SmallLake
from tests.object_store import BUCKET, ObjectStore, Relay, with_bucket
from tests.object_store.fixtures import reach
from tests.object_store.server import PREFIXES, SCHEME
from tests.processes import Killed

LAKES = {
    "from store to store": ("store", "store"),
    "from disk to disk": ("", ""),
    "to a disk": ("store", ""),
    "from a disk": ("", "store"),
}
ON_A_STORE = pytest.mark.more(reason="seconds on an object store each; a lake on a disk has most of it")
EVERY_WAY = "PAYHOOK_TEST_OBJECT_STORE" in os.environ
"""Where a real store is named, `make test-faults`: each way there is. Else those that don't mix disks and stores."""


WAYS = list(LAKES) if EVERY_WAY else list(LAKES)[:2]


@pytest.fixture(params=[pytest.param(way, marks=ON_A_STORE if "store" in LAKES[way] else ()) for way in WAYS])
def lake(request: pytest.FixtureRequest, tmp_path: Path, store_folder: str) -> SmallLake:
    return lake_of(request.param, tmp_path, store_folder)


@pytest.fixture
def stored(tmp_path: Path, store_folder: str) -> SmallLake:
    """Its lake and its backups are on a store."""
    return lake_of("from store to store", tmp_path, store_folder)


def lake_of(kind: str, tmp_path: Path, store_folder: str) -> SmallLake:
    lake, backups = LAKES[kind]
    return SmallLake(tmp_path, f"{store_folder}/lake" if lake else "", f"{store_folder}-backups" if backups else "")


def put_back(lake: SmallLake, **options: Any) -> RestoreReport:
    lake.clock.advance(60)
    given: dict[str, Any] = {"actor": "ada", "replace_newer": True, "reason": "test", **options}
    restored = restore(lake.settings, lake.backups_at, lake.clock, **given)
    assert restored is not None
    return restored


def data_of(place: Location) -> dict[str, bytes]:
    """Every file under a location, and what is in it."""
    if isinstance(place, Path):
        found = (one for one in place.rglob("*") if one.is_file())
        return {str(one.relative_to(place)): one.read_bytes() for one in found}
    storage = ObjectStorage(str(place))
    return {name: storage.read(name) for name in storage.tree()}


def test_a_backup_is_whole_and_a_second_one_copies_what_is_new(lake: SmallLake) -> None:
    lake.commit(3)
    lake.commit(1, Decision.DEAD, blocking=True)
    lake.act("item 4")
    first = lake.back_up()
    lake.commit(2)
    second = lake.back_up()
    assert (first.problems, second.problems) == ((), ())
    assert (first.journals, second.journals) == ({"ledger": 4}, {"ledger": 6})
    assert second.copied_bytes < second.bytes
    for made in (first, second):
        assert check_backup(lake.settings, lake.backups_at / made.name) == []


@ON_A_STORE
def test_the_newest_are_kept_and_what_was_never_completed_goes(stored: SmallLake) -> None:
    stored.commit()
    open_storage(stored.backups_at).put_file("20250101T000000Z/lake/half", b"x")
    open_storage(stored.backups_at).put_file("20250101T000000Z.partial", b"")
    made = [stored.back_up(keep=2).name for _ in range(3)]
    assert list_backups(tree_at(stored.backups_at)) == list_complete_backups(tree_at(stored.backups_at)) == made[1:]


def test_a_restore_puts_the_older_lake_in_place_and_sets_the_newer_one_aside(lake: SmallLake) -> None:
    before = lake.begin()
    lake.commit(3)
    lake.act("before")
    lake.back_up()
    lake.commit(2)
    lake.act("after")
    removed = lake.redacted(2)
    newer = data_of(lake.settings.layout.lake)
    ahead = lake.state()
    with pytest.raises(NewerRows, match=r"2 of ledger.*--replace-newer"):
        put_back(lake, replace_newer=False)
    assert data_of(lake.settings.layout.lake) == newer
    restored = put_back(lake)
    assert (restored.journals, restored.set_aside) == ({"ledger": 3}, {"ledger": 2})
    assert set(restored.kept) == {"acts", "redactions"} and restored.redacted_again == 1
    state = lake.state()
    assert state.next_seq == 4 and state.lineage not in ("", before.lineage) and state.epoch == ahead.epoch + 1
    assert is_given_up(state.notes, before.lineage, 4) and not is_given_up(state.notes, before.lineage, 3)
    assert [one.reason for one in read_abandoned(state.notes)] == ["test"]
    assert lake.held(1, 2, 3) == [1, 3], removed
    assert [one.what for one in AuditLog(lake.settings.layout.audit_log).read(10)][1:] == ["after", "before"]
    aside = restored.replaced if isinstance(restored.replaced, LakeUrl) else restored.replaced / "lake"
    assert data_of(aside) == newer
    lake.begin()
    lake.commit(2)
    assert lake.back_up().journals == {"ledger": 5}
    assert not lake.settings.layout.restoring_folder.exists()
    there = data_of(lake.settings.layout.lake)
    assert not [one for one in there if one.startswith(("_restoring", "_kept"))], sorted(there)


@pytest.mark.parametrize("to", ["store", "disk"] if EVERY_WAY else ["store"])
def test_a_new_site_begins_from_the_backup_alone(lake: SmallLake, tmp_path: Path, store_folder: str, to: str) -> None:
    lake.settings.layout.users.parent.mkdir(parents=True)
    lake.settings.layout.users.write_text('{"ada": 1}')
    lake.commit(3)
    lake.act("item 1")
    lake.back_up()
    new = SmallLake.unbegun(tmp_path / "new", f"{store_folder}-new/lake" if to == "store" else "", lake)
    restored = put_back(new, replace_newer=False)
    assert (restored.journals, restored.set_aside, restored.kept) == ({"ledger": 3}, {}, ())
    assert restored.files == ("console/users.json",)
    assert new.settings.layout.users.read_text() == '{"ada": 1}'
    assert new.settings.layout.users.stat().st_mode & 0o777 == 0o600
    assert AuditLog(new.settings.layout.audit_log).head().seq == 2
    new.begin()
    new.commit(2)
    assert JournalReader(str(new.places.journal)).last_seq == 5


@ON_A_STORE
def test_damage_on_the_store_is_found_and_is_not_put_back(stored: SmallLake) -> None:
    stored.commit(5)
    backup = stored.backups_at / stored.back_up().name
    storage = ObjectStorage(str(backup))
    [name] = [one for one in storage.tree("lake/bodies") if one.endswith(".parquet")]
    whole = storage.read(name)
    for damaged, said in ((whole[:-1], "bytes, "), (whole[:-1] + b"x", "its hash differs")):
        storage.put_file(name, damaged)
        [problem] = check_backup(stored.settings, backup)
        assert said in problem
        before = data_of(stored.places.journal)
        with pytest.raises(RestoreRefused, match="its hash differs"):
            put_back(stored)
        assert data_of(stored.places.journal) == before
    storage.delete([name])
    [problem] = check_backup(stored.settings, backup)
    assert "can't be read" in problem


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0, 1.3] if EVERY_WAY else [0.5, 1.3])
@ON_A_STORE
def test_an_interrupted_restore_on_a_store_is_gone_on_with(
    stored: SmallLake, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    """``share``: how many files were moved when it died, in times of what is set aside; then it puts in place."""
    stored.commit(3)
    stored.back_up()
    stored.commit(2)
    newer = data_of(stored.settings.layout.lake)
    left = [int(share * len(newer))]
    copy = ObjectStorage.copy

    def dying(storage: ObjectStorage, name: str, to: str) -> None:
        if stored.settings.layout.restore_moves.exists():
            left[0] -= 1
            if left[0] < 0:
                raise Killed
        copy(storage, name, to)

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStorage, "copy", dying)
        with pytest.raises(Killed):
            put_back(stored)
    stored.clock.advance(60)
    assert restore(stored.settings, stored.backups_at, stored.clock, actor="bob", reason="again") is None
    assert stored.state().next_seq == 4
    assert [one.actor for one in AuditLog(stored.settings.layout.audit_log).read(10)] == ["ada"]
    lake = stored.settings.layout.lake
    [aside] = [name for name in tree_at(lake).names() if name.startswith(restoring.REPLACED)]
    assert data_of(lake / aside) == newer
    assert not finish(stored.settings.layout)


@ON_A_STORE
def test_one_backup_at_a_time_on_one_machine_and_on_several(stored: SmallLake) -> None:
    stored.commit()
    backups, now = tree_at(stored.backups_at), SystemClock().now()
    with backups.hold_lock(stored.settings.layout.run), pytest.raises(BackupImpossible, match="another backup"):
        stored.back_up()
    lock = open_storage(stored.backups_at)
    lock.put_file(LOCK, json.dumps({"holder": "another machine", "at": to_rfc3339(now)}).encode())
    with pytest.raises(BackupImpossible, match="another backup"):
        stored.back_up()
    late = now - timedelta(hours=LOCK_H_MAX, minutes=1)
    lock.put_file(LOCK, json.dumps({"holder": "another machine", "at": to_rfc3339(late)}).encode())
    assert stored.back_up().ok, "of a machine that died"
    assert not backups.has_file(LOCK)


@ON_A_STORE
def test_a_store_that_fails_while_it_is_copied_makes_no_backup(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Relay(object_store.address) as relay:
        folder = reach(object_store, monkeypatch, relay.endpoint, timeout_s=5.0)
        lake = SmallLake(tmp_path, backups_url=f"{folder}-backups")
        lake.commit(3)
        lake.back_up()
        take, taken = ObjectStorage.writer, []

        def cut_after_two(storage: ObjectStorage, name: str) -> Any:
            taken.append(name)
            if len(taken) == 3:
                relay.cut()
            return take(storage, name)

        lake.commit(2)
        with monkeypatch.context() as patch:
            patch.setattr(ObjectStorage, "writer", cut_after_two)
            with pytest.raises(BackupImpossible, match=f"{folder}-backups"):
                lake.back_up()
        relay.open()
        assert len(list_complete_backups(tree_at(lake.backups_at))) == 1
        assert lake.back_up().journals == {"ledger": 5}, "the lock that was left is its own"
        assert len(list_backups(tree_at(lake.backups_at))) == 2


@pytest.mark.skipif(SCHEME != "s3", reason="the store that is named isn't S3: no second bucket is made there")
@ON_A_STORE
def test_backups_have_a_store_of_their_own(
    object_store: ObjectStore, store_folder: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another address and other keys than this process's variables hold."""
    elsewhere = f"s3://{BUCKET}-elsewhere/{store_folder[-32:]}"
    with_bucket(object_store, f"{BUCKET}-elsewhere")
    monkeypatch.setattr("core.store._OWN", {})
    keys = tmp_path / "keys"
    keys.write_text("\n".join(object_store.keys.values()))
    lake = SmallLake(tmp_path, backups_url=elsewhere)
    lake.commit(3)
    with Relay(object_store.address) as relay:
        own = {"endpoint": relay.endpoint, "allow_http": True, "credentials_file": str(keys)}
        reach_place(Settings(backup={"folder": elsewhere, "store": own}), elsewhere)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the lake's")
        relay.cut()
        with pytest.raises(BackupImpossible, match=elsewhere):
            lake.back_up()
        relay.open()
        made = lake.back_up()
        assert made.ok and check_backup(lake.settings, lake.backups_at / made.name) == []
        lake.commit()
        assert put_back(lake).set_aside == {"ledger": 1}


def test_backups_of_another_kind_of_store_say_how_it_is_reached(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, storage={"url": "s3://lake/x"}, backup={"folder": "az://backups/x"})
    with pytest.raises(SettingError, match="backup.store"):
        reach_place(settings, "az://backups/x")


@ON_A_STORE
def test_the_lakes_own_folder_is_no_place_for_its_backups(stored: SmallLake) -> None:
    stored.commit()
    stored.backups_at = location_of(f"{stored.settings.storage.url}/backups")
    with pytest.raises(BackupImpossible, match="another bucket"):
        stored.back_up()


@ON_A_STORE
def test_commands_take_a_url(stored: SmallLake, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new site's keys are in a file, its store's address in its settings; nothing is in the environment."""
    stored.commit(3)
    monkeypatch.setenv("PAYHOOK_STORAGE__ENDPOINT", object_store.endpoint)
    monkeypatch.setenv("PAYHOOK_STORAGE__ALLOW_HTTP", "true")
    monkeypatch.chdir(stored.root)
    url, data = str(stored.backups_at), str(stored.settings.data_dir)
    lake = {"PAYHOOK_STORAGE__URL": stored.lake_url}
    made = CliRunner().invoke(main, ["backup", "--to", url, "--data", data], env=lake)
    assert made.exit_code == 0 and f"{url}/2" in made.output, made.output
    checked = CliRunner().invoke(main, ["backup", "--to", url, "--check", "--data", data], env=lake)
    assert checked.exit_code == 0 and "is valid" in checked.stdout, checked.output
    new = stored.root / "new"
    (new / "secrets").mkdir(parents=True)
    (new / "secrets" / "object-store").write_text("\n".join(object_store.keys.values()))
    for name in [name for name in os.environ if name.startswith(PREFIXES[object_store.scheme])]:
        monkeypatch.delenv(name)
    given = CliRunner().invoke(main, ["restore", url, "--reason", "site lost", "--data", str(new)])
    assert given.exit_code == 0 and "ledger: 3 rows" in given.stdout, given.output
    assert JournalReader(str(new / "lake" / "journal" / "ledger")).last_seq == 3
    wrong = CliRunner().invoke(main, ["restore", "s3://UPPER/x", "--reason", "x", "--data", str(new)])
    assert wrong.exit_code == 2 and "s3://bucket/folder" in wrong.stderr
    assert MANIFEST in str(data_of(choose_backup(stored.backups_at, None)).keys())
