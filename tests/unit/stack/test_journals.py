"""What is done to all shards of a stream is refused where ``processor.shards`` isn't what the journals say."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from core.location import location_of
from core.settings import KafkaSettings, RedisSettings
from journal.bodies import BodyStore
from journal.journals import ShardMissing, ShardsChanged, check_shards
from journal.writer import JournalWriter
from ledger.maintain.redact import RedactionOrder
from stack.backup.make import BackupReport, back_up
from stack.backup.manifest import MANIFEST, RestoreRefused, list_complete_backups, read_manifest
from stack.backup.restore import restore
from stack.backup.trees import tree_at
from stack.maintenance import recovery
from stack.maintenance.job import redact_event, run_once
from stack.maintenance.recovery import Servers, compare_streams
from stack.maintenance.split import split
from stack.settings import Settings
from tests.divided_lake import LAST, DividedLake
from tests.unit.journal.rows import sha

KEY = "stripe:evt_2:charge.succeeded"
"""Of an applied event on partition 1, which is the second shard's."""


@pytest.fixture
def lake(tmp_path: Path) -> DividedLake:
    return DividedLake(tmp_path / "data")


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    return tmp_path / "backups"


def divided(settings: Settings, shards: int) -> Settings:
    """The settings with another number."""
    return settings.model_copy(update={"processor": settings.processor.model_copy(update={"shards": shards})})


def backed_up(lake: DividedLake, settings: Settings, backups: Path) -> BackupReport:
    lake.clock.advance(60)
    return back_up(settings, location_of(str(backups)), 1, lake.clock)


def interrupted(lake: DividedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A division that ends before anything is copied."""

    def dies(*_given: object, **_named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(JournalWriter, "divide_journal", dies)
        with pytest.raises(KeyboardInterrupt):
            split(lake.settings, 2, lake.clock)


def recovered(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = settings.layout.anchor_keys
    keys.parent.mkdir(parents=True, exist_ok=True)
    keys.write_text(secrets.token_hex(32))
    named = settings.model_copy(
        update={"processor": settings.processor.model_copy(update={"anchor_key_file": str(keys)})}
    )

    def asked(*_given: object) -> None:
        raise AssertionError("Kafka is asked about partitions of another shard")

    monkeypatch.setattr(recovery, "KafkaLog", asked)
    compare_streams(named, Servers(KafkaSettings(), RedisSettings()))


def removed(settings: Settings) -> None:
    redact_event(settings, "ledger", RedactionOrder(KEY, "ada", "asked"))


class TestAnotherNumber:
    """The journals are divided among two, and the settings of this host still say one."""

    @pytest.fixture
    def old(self, lake: DividedLake) -> Settings:
        old = divided(lake.settings, 1)
        split(lake.settings, 2, lake.clock)
        return old

    def test_makes_no_backup_and_removes_none(self, lake: DividedLake, old: Settings, backups: Path) -> None:
        good = backed_up(lake, divided(old, 2), backups)
        assert good.journals == {"ledger": LAST, "ledger.1": LAST}
        with pytest.raises(ShardsChanged, match="processor.shards is 1, and its journal is one of 2. Set it to 2"):
            backed_up(lake, old, backups)
        assert list_complete_backups(tree_at(backups)) == [good.name]

    def test_removes_no_body(self, lake: DividedLake, old: Settings) -> None:
        with pytest.raises(ShardsChanged, match="processor.shards is 1"):
            removed(old)
        stores = [BodyStore(str(lake.place(shard).bodies_table)) for shard in (0, 1)]
        assert [store.find_kept([sha(KEY)]) for store in stores] == [{sha(KEY)}, {sha(KEY)}]
        removed(divided(old, 2))
        assert [store.find_kept([sha(KEY)]) for store in stores] == [set(), set()]

    def test_maintains_nothing(self, old: Settings) -> None:
        """The second shard would be left out, and nobody told."""
        with pytest.raises(ShardsChanged, match="processor.shards is 1"):
            run_once(old, dry_run=True)

    def test_finds_no_loss(self, old: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(ShardsChanged, match="processor.shards is 1"):
            recovered(old, monkeypatch)


def test_while_journals_are_being_divided_none_of_it_is_done(
    lake: DividedLake, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(lake, monkeypatch)
    acts: list[Callable[[Settings], object]] = [
        removed,
        lambda settings: backed_up(lake, settings, backups),
        lambda settings: recovered(settings, monkeypatch),
    ]
    for act in acts:
        for shards in (1, 2):
            with pytest.raises(ShardsChanged, match="Run `payhook split 2` to its end"):
                act(divided(lake.settings, shards))


def test_without_a_shards_journal_none_of_it_is_done(
    lake: DividedLake, backups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    split(lake.settings, 2, lake.clock)
    shutil.rmtree(str(lake.place(1).journal))
    settings = divided(lake.settings, 2)
    acts: list[Callable[[], object]] = [
        lambda: removed(settings),
        lambda: backed_up(lake, settings, backups),
        lambda: recovered(settings, monkeypatch),
    ]
    for act in acts:
        with pytest.raises(ShardMissing, match="among 2 shards, and shard 1 has no journal. If it is new, start its"):
            act()


def test_a_backup_that_lacks_a_shard_is_not_restored(lake: DividedLake, backups: Path) -> None:
    split(lake.settings, 2, lake.clock)
    settings = divided(lake.settings, 2)
    backup = backups / backed_up(lake, settings, backups).name
    shutil.rmtree(backup / "lake" / "journal" / "ledger.1")
    shutil.rmtree(backup / "lake" / "bodies.1")
    tree = json.loads((backup / MANIFEST).read_text())
    for part in ("files", "tables", "journals"):
        tree[part] = {
            name: one for name, one in tree[part].items() if "ledger.1" not in name and "bodies.1" not in name
        }
    (backup / MANIFEST).write_text(json.dumps(tree))
    assert set(read_manifest(backup).journals) == {"journal/ledger"}
    before = [lake.state(shard) for shard in (0, 1)]
    with pytest.raises(RestoreRefused, match=r"backup \S+: stream ledger: .* shard 1 has no journal"):
        restore(settings, backups, lake.clock, actor="ada", reason="drill", replace_newer=True)
    assert [lake.state(shard) for shard in (0, 1)] == before


def test_a_stream_without_any_journal_is_whole(tmp_path: Path) -> None:
    check_shards("ledger", [tmp_path / "ledger", tmp_path / "ledger.1"])
