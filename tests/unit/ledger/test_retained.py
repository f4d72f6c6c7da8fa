"""What retention has dropped stays known, whatever is set later."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from deltalake import DeltaTable

from journal.append import Appender
from journal.bodies import BodyStore
from ledger.redactions import Retained

BEFORE = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)


def test_a_table_of_which_nothing_was_dropped_says_nothing(tmp_path: Path) -> None:
    BodyStore(str(tmp_path / "bodies"))
    assert Retained.of(DeltaTable(str(tmp_path / "bodies"))) is None


def test_it_is_read_as_it_was_committed_after_later_bodies_and_a_checkpoint(tmp_path: Path) -> None:
    path, said = str(tmp_path / "bodies"), Retained(BEFORE, 30, 7)
    store = BodyStore(path)
    for mark in said.transactions():
        Appender.open(path).append(None, mark)
    store.append([("a" * 64, b"a")])
    DeltaTable(path).create_checkpoint()
    for entry in (tmp_path / "bodies" / "_delta_log").glob("*.json"):
        entry.unlink()
    assert Retained.of(DeltaTable(path)) == said


def test_what_was_dropped_stays_so_when_bodies_are_kept_for_longer() -> None:
    dropped = Retained(BEFORE, 30, 7)
    longer = Retained(BEFORE - timedelta(days=300), 400, 5)
    assert longer.with_earlier(dropped) == dropped
    later = Retained(BEFORE + timedelta(days=1), 400, 9)
    assert later.with_earlier(dropped) == Retained(later.before, 30, 9)
    assert later.with_earlier(Retained(BEFORE, 400, None)) == later, "an older version's"
    assert dropped.with_earlier(None) == dropped
