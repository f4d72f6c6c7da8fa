"""A restore puts a backup in place whole, or changes nothing; what it replaces is set aside."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.decision import Decision
from core.routing import Shard
from journal.bodies import BodyStore
from journal.errors import BodyMissing
from journal.histories import is_given_up
from journal.index import Index
from journal.journals import is_item_of, own_after, shard_in
from journal.reader import JournalReader
from journal.writer import JournalWriter
from ledger.maintain.redact import EventOpen, RedactionOrder, purge_bodies
from ledger.redactions import Redactions
from operations.audit_log import AuditLog
from stack.backup import restore as restoring
from stack.backup.manifest import NewerRows, NoBackup, RestoreRefused
from stack.backup.restore import RestoreReport, finish, restore
from stack.errors import AlreadyUp, RestoreUnfinished
from stack.maintenance.job import redact_event
from stack.settings import Settings
from stack.supervisor import sole_supervisor
from stack.up import open_supervisor
from tests.backed_up import SmallLake
from tests.unit.journal.rows import sha

CHECKOUT = Path(__file__).parents[3]


def put_back(lake: SmallLake, **options: Any) -> RestoreReport:
    lake.clock.advance(60)
    given: dict[str, Any] = {"actor": "ada", "replace_newer": True, "reason": "test", **options}
    restored = restore(lake.settings, lake.backups, lake.clock, **given)
    assert restored is not None
    return restored


def caught_up(lake: SmallLake) -> Index:
    """An index that is made as by a processor's start."""
    index = Index.open(lake.places.index, 1)
    try:
        index.catch_up(JournalReader(str(lake.places.journal)), BodyStore(str(lake.places.bodies_table)))
    except BodyMissing:
        index.close()
        raise
    return index


def acts(lake: SmallLake) -> list[str]:
    """What is on record, the newest first."""
    return [one.what for one in AuditLog(lake.settings.layout.audit_log).read(10)]


def trees(folder: Path) -> dict[str, bytes]:
    """Every file under a folder but those of ``run`` and the lock, and what is in it."""
    found = {str(one.relative_to(folder)): one for one in folder.rglob("*") if one.is_file()}
    return {
        name: file.read_bytes()
        for name, file in found.items()
        if not name.startswith("run/") and name != "supervisor.lock"
    }


def test_the_next_start_goes_on_from_there(lake: SmallLake) -> None:
    lake.commit(2)
    lake.commit(1, Decision.DEAD, blocking=True)
    lake.back_up()
    lake.commit(5)
    index = Index.open(lake.places.index, 1)
    index.catch_up(JournalReader(str(lake.places.journal)), lake.bodies)
    index.close()
    put_back(lake)
    assert not lake.places.index.exists(), "an index that is ahead of its journal must not be found"
    state = lake.begin()
    index = Index.open(lake.places.index, state.epoch)
    index.catch_up(JournalReader(str(lake.places.journal)), lake.bodies)
    assert (index.seq, index.open_count()) == (3, 1)
    index.close()
    lake.commit(2)
    assert lake.state().next_seq == 6


class TestRestoreOfShards:
    """A backup of two shards, each with a journal and bodies of its own."""

    def test_both_are_put_back(self, lake: SmallLake) -> None:
        lake.commit(3)
        lake.divide()
        assert lake.back_up().journals == {"ledger": 3, "ledger.1": 3}
        second = lake.places.of_shard(1)
        before = JournalReader(str(second.journal)).state()
        shutil.rmtree(second.journal)
        shutil.rmtree(second.bodies_table)
        restored = put_back(lake)
        assert restored.journals == {"ledger": 3, "ledger.1": 3}
        state = JournalReader(str(second.journal)).state()
        assert (shard_in(state.notes), own_after(state.notes)) == (Shard(1, 2), 3)
        assert state.lineage != before.lineage and is_given_up(state.notes, before.lineage, 4)
        assert BodyStore(str(second.bodies_table)).find_kept([sha("body 0"), sha("body 2")]) == {
            sha("body 0"),
            sha("body 2"),
        }

    @pytest.mark.parametrize(("divided", "configured"), [(2, 1), (1, 2)])
    def test_of_another_number_than_is_configured_is_refused(
        self, lake: SmallLake, divided: int, configured: int
    ) -> None:
        lake.commit(3)
        one = lake.settings
        if divided == 2:
            lake.divide()
            lake.back_up()
            lake.settings = one
        else:
            lake.back_up()
            lake.divide()
        before = trees(lake.settings.data_dir)
        problem = f"processor.shards is {configured}, and its journal is one of {divided}. Set it to {divided}"
        with pytest.raises(RestoreRefused, match=problem):
            put_back(lake)
        assert trees(lake.settings.data_dir) == before

    def test_a_body_that_only_the_other_shard_needs_may_be_gone(self, lake: SmallLake) -> None:
        """An index that is made again keeps the items of its shard alone."""
        (row,) = lake.commit(1, Decision.DEAD, blocking=True)
        lake.divide()
        mine = next(number for number in (0, 1) if is_item_of(Shard(number, 2), row))
        other = lake.places.of_shard(1 - mine)
        purge_bodies(other.bodies_table, [row.body_sha256 or ""], lake.clock)
        assert lake.back_up().ok
        index = Index.open(other.index, 1)
        index.catch_up(JournalReader(str(other.journal)), BodyStore(str(other.bodies_table)))
        assert (index.seq, index.open_count(), index.known_event(row.event_key or "") is None) == (1, 0, False)
        index.close()
        purge_bodies(lake.places.of_shard(mine).bodies_table, [row.body_sha256 or ""], lake.clock)
        assert not lake.back_up().ok, "the shard that goes on with it needs it"

    def test_what_is_open_in_one_shard_keeps_its_body_in_both_until_it_is_closed(self, lake: SmallLake) -> None:
        (row,) = lake.commit(1, Decision.DEAD, blocking=True)
        lake.divide()
        order = RedactionOrder(row.event_key or "", "ada", "asked")
        with pytest.raises(EventOpen):
            redact_event(lake.settings, "ledger", order)
        places = next(lake.places.of_shard(n) for n in (0, 1) if is_item_of(Shard(n, 2), row))
        writer = JournalWriter.create_or_open(str(places.journal), places.stream)
        state = writer.begin_epoch({})
        writer.commit([replace(row, seq=2, first=False, decision=Decision.PURGED)], state.marks, 1)
        assert [one.stream for one in redact_event(lake.settings, "ledger", order).done] == ["ledger", "ledger.1"]

    def test_what_was_redacted_since_is_removed_from_each_again(self, lake: SmallLake) -> None:
        (row,) = lake.commit(1)
        lake.divide()
        lake.back_up()
        order = RedactionOrder(row.event_key or "", "ada", "asked")
        redacted = redact_event(lake.settings, "ledger", order)
        assert [one.stream for one in redacted.done] == ["ledger", "ledger.1"]
        stores = [BodyStore(str(lake.places.of_shard(number).bodies_table)) for number in (0, 1)]
        assert [store.find_kept([row.body_sha256 or ""]) for store in stores] == [set(), set()]
        assert put_back(lake).redacted_again == 2
        assert [store.find_kept([row.body_sha256 or ""]) for store in stores] == [set(), set()]


def test_what_it_replaces_is_set_aside_whole(lake: SmallLake) -> None:
    lake.commit(3)
    lake.back_up()
    lake.commit(4)
    for derived in ("index/ledger", "console/ledger", "lake/selections/ledger", "checkpoints/ledger"):
        (lake.settings.data_dir / derived).mkdir(parents=True)
        (lake.settings.data_dir / derived / "file").write_text(derived)
    (lake.settings.data_dir / "lake" / "postings").mkdir()
    (lake.settings.data_dir / "lake" / "postings" / "file").write_text("derived")
    before = trees(lake.settings.data_dir)
    restored = put_back(lake)
    assert isinstance(restored.replaced, Path) and trees(restored.replaced) == before
    left = {one.name for one in lake.settings.data_dir.iterdir()}
    assert left == {"lake", "console", "run", "supervisor.lock", restored.replaced.name}


def test_rows_that_were_decided_after_a_restore_are_newer_than_a_backup_with_as_many(lake: SmallLake) -> None:
    """They have the numbers of the rows that were given up, which the newest backup holds."""
    lake.commit(3)
    first = lake.back_up()
    lake.commit(7)
    lake.back_up()
    put_back(lake, name=first.name)
    assert put_back(lake, replace_newer=False).set_aside == {"ledger": 0}, "as of the first backup nothing is lost"
    put_back(lake, name=first.name)
    lake.begin()
    lake.commit(4)
    before = trees(lake.settings.data_dir)
    with pytest.raises(NewerRows, match=r"4 of ledger"):
        put_back(lake, replace_newer=False)
    assert trees(lake.settings.data_dir) == before
    assert put_back(lake).set_aside == {"ledger": 4}


def test_newer_rows_are_counted_where_a_file_of_the_present_journal_is_gone(lake: SmallLake) -> None:
    lake.commit(3)
    lake.back_up()
    for file in Path(str(lake.places.journal)).glob("*.parquet"):
        file.unlink()
    assert put_back(lake, replace_newer=False).set_aside == {"ledger": 0}
    lake.begin()
    lake.commit(2)
    for file in Path(str(lake.places.journal)).glob("*.parquet"):
        file.unlink()
    with pytest.raises(NewerRows, match=r"2 of ledger"):
        put_back(lake, replace_newer=False)


def test_a_user_who_was_removed_since_does_not_come_back(lake: SmallLake) -> None:
    lake.settings.layout.users.parent.mkdir(parents=True)
    lake.settings.layout.users.write_text('{"ada": 1, "bob": 1}')
    lake.commit()
    lake.back_up()
    lake.settings.layout.users.write_text('{"ada": 1}')
    assert put_back(lake).files == ()
    assert lake.settings.layout.users.read_text() == '{"ada": 1}'


def test_a_restore_brings_back_bodies_that_an_older_copy_of_their_table_lacks(lake: SmallLake) -> None:
    bodies = Path(str(lake.places.bodies_table))
    lake.commit(2)
    shutil.copytree(bodies, lake.root / "older")
    lake.commit(1, Decision.DEAD, blocking=True)
    lake.back_up()
    shutil.rmtree(bodies)
    (lake.root / "older").rename(bodies)
    with pytest.raises(BodyMissing):
        caught_up(lake).close()
    put_back(lake)
    index = caught_up(lake)
    assert (index.open_count(), lake.held(1, 2, 3)) == (1, [1, 2, 3])
    index.close()


def test_one_of_several_backups_is_put_back_by_its_name(lake: SmallLake) -> None:
    lake.commit(1)
    first = lake.back_up()
    lake.commit(1)
    lake.back_up()
    with pytest.raises(NoBackup, match="no complete backup 20200101T000000Z"):
        put_back(lake, name="20200101T000000Z")
    assert put_back(lake, name=first.name).journals == {"ledger": 1}


def test_twice_from_one_backup_gives_up_what_the_first_time_decided(lake: SmallLake) -> None:
    lake.commit(2)
    lake.back_up()
    put_back(lake)
    first = lake.begin()
    lake.commit(3)
    put_back(lake)
    state = lake.state()
    assert state.lineage != first.lineage and is_given_up(state.notes, first.lineage, 3)


# acts and redactions


def test_a_record_of_acts_that_does_not_go_on_from_the_backup_is_replaced(lake: SmallLake) -> None:
    lake.commit(2)
    lake.act("item 1")
    lake.back_up()
    shutil.rmtree(str(lake.settings.layout.audit_log))
    lake.act("another record")
    assert "acts" not in put_back(lake).kept
    assert acts(lake)[1:] == ["item 1"]


def test_a_body_that_was_redacted_after_the_backup_does_not_come_back(lake: SmallLake) -> None:
    lake.commit(3)
    lake.redacted(1)
    lake.back_up()
    act = lake.redacted(2)
    restored = put_back(lake)
    assert (restored.redacted_again, restored.redact) == (1, ())
    assert lake.held(1, 2, 3) == [1, 3], "row 1's came again before the backup; only what is newer is done again"
    [_, (last, done)] = Redactions(lake.places.derived_table("redactions")).list_orders("ledger")
    assert last.body_sha256 == act.body_sha256 and done is not None
    data = b"".join(one.read_bytes() for one in Path(str(lake.places.bodies_table)).rglob("*.parquet"))
    assert b"body 1" not in data, "no file of the restored table holds it"


def test_a_redacted_body_that_an_open_event_needs_again_is_named(lake: SmallLake) -> None:
    """It was closed after the backup, then redacted; as of the backup it is open, and can't go on without its body."""
    lake.commit(1, Decision.DEAD, blocking=True)
    lake.back_up()
    act = lake.redacted(1)
    restored = put_back(lake)
    assert (restored.redacted_again, restored.redact, lake.held(1)) == (0, (act.event_key,), [1])


def test_a_redacted_event_that_kafka_brings_again_is_named(lake: SmallLake) -> None:
    lake.commit(1)
    lake.back_up()
    lake.commit(1)
    act = lake.redacted(2)
    restored = put_back(lake)
    assert (restored.redacted_again, restored.redact) == (0, (act.event_key,))


# refusals


def test_nothing_changes_where_the_backup_is_damaged(lake: SmallLake) -> None:
    lake.commit(5)
    backup = lake.backups / lake.back_up().name
    lake.commit(1)
    before = trees(lake.settings.data_dir)
    [file] = (backup / "lake" / "bodies").glob("*.parquet")
    whole = file.read_bytes()
    for data in (whole[:-1], whole[:-1] + b"x"):
        file.write_bytes(data)
        with pytest.raises(RestoreRefused, match="its hash differs"):
            put_back(lake)
    file.unlink()
    with pytest.raises(RestoreRefused, match="No such file"):
        put_back(lake)
    shutil.rmtree(lake.settings.layout.restoring_folder)
    assert trees(lake.settings.data_dir) == before


@pytest.mark.parametrize("damaged", [b'{"mallory": 1}', b"\xff rot"])
def test_nothing_changes_where_a_file_beside_the_lake_is_not_what_was_backed_up(
    lake: SmallLake, damaged: bytes
) -> None:
    lake.settings.layout.users.parent.mkdir(parents=True)
    lake.settings.layout.users.write_text('{"ada": 1}')
    lake.commit(2)
    backup = lake.backups / lake.back_up().name
    (backup / "console" / "users.json").write_bytes(damaged)
    lake.settings.layout.users.unlink()
    with pytest.raises(RestoreRefused, match=r"users\.json isn't what was backed up: its hash differs"):
        put_back(lake)
    assert not lake.settings.layout.users.exists()


def test_it_refuses_while_anything_runs(lake: SmallLake) -> None:
    lake.commit()
    lake.back_up()
    with sole_supervisor(lake.settings.layout), pytest.raises(AlreadyUp, match="payhook down"):
        put_back(lake)
    index = Index.open(lake.places.index, 1)
    with pytest.raises(RestoreRefused, match="a processor of ledger runs"):
        put_back(lake)
    index.close()
    put_back(lake)


# interrupted


@pytest.mark.parametrize("moves_done", range(4))
def test_an_interrupted_restore_is_gone_on_with_and_the_stack_waits_for_it(
    lake: SmallLake, monkeypatch: pytest.MonkeyPatch, moves_done: int
) -> None:
    """At worst there is no lake at that moment: a stack that started would begin an empty one."""
    lake.commit(3)
    lake.back_up()
    lake.commit(2)
    (lake.settings.data_dir / "index" / "ledger").mkdir(parents=True)
    before = trees(lake.settings.data_dir)

    def killed(layout: Any) -> bool:
        if not layout.restore_moves.exists():
            return False
        for source, target in json.loads(layout.restore_moves.read_text())[:moves_done]:
            (layout.root / target).parent.mkdir(parents=True, exist_ok=True)
            (layout.root / source).rename(layout.root / target)
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(restoring, "finish", killed)
        with pytest.raises(KeyboardInterrupt):
            put_back(lake)
    with pytest.raises(RestoreUnfinished, match="payhook restore"), open_supervisor(lake.settings, None, print):
        raise AssertionError("it must not start")
    lake.clock.advance(60)
    assert restore(lake.settings, lake.backups, lake.clock, actor="bob", reason="again") is None
    assert lake.state().next_seq == 4
    [act] = AuditLog(lake.settings.layout.audit_log).read(10)
    assert (act.actor, act.action, act.reason) == ("ada", "restore", "test"), "it is of who began it"
    [replaced] = lake.settings.data_dir.glob("replaced-*")
    assert trees(replaced) == before
    assert not lake.settings.layout.restoring_folder.exists() and not finish(lake.settings.layout)


def test_a_processor_without_a_supervisor_waits_for_an_interrupted_restore(tmp_path: Path) -> None:
    """Its journal may be missing at that moment: it would begin an empty one."""
    layout = Settings(data_dir=tmp_path).layout
    layout.restoring_folder.mkdir()
    layout.restore_moves.write_text("[]")
    ended = subprocess.run(
        [sys.executable, "-m", "stack.services.processor"],
        env={**os.environ, "PAYHOOK_DATA_DIR": str(tmp_path), "PYTHONPATH": str(CHECKOUT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 1 and "payhook restore" in ended.stderr
    assert not (tmp_path / "lake").exists()
