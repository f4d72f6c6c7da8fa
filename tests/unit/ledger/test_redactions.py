"""Acts of redaction: appended, chained, apart from what is done. What retention dropped stays known."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from journal.append import Appender
from journal.bodies import BodyStore
from ledger.redactions import DONE, ORDERED, Redaction, Redactions, RedactionsBroken, RetentionState

AT = datetime(2026, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC)


@pytest.fixture
def redactions(tmp_path: Path) -> Redactions:
    return Redactions(tmp_path / "redactions")


def act(sha256: str, kind: str = ORDERED, stream: str = "ledger") -> Redaction:
    return Redaction(0, kind, stream, "stripe:evt_1:charge", 7, sha256, "ada", "a person asked", AT)


def test_acts_are_read_as_they_were_written_and_follow_one_another(redactions: Redactions) -> None:
    assert redactions.read_all() == []
    redactions.add_acts([act("a"), act("b")])
    redactions.add_acts([act("a", DONE)])
    found = redactions.read_all()
    assert [(one.number, one.act, one.body_sha256) for one in found] == [
        (1, ORDERED, "a"),
        (2, ORDERED, "b"),
        (3, DONE, "a"),
    ]
    assert replace(found[0], number=0, chain="") == act("a")


def test_what_was_ordered_and_is_not_done_is_known(redactions: Redactions) -> None:
    redactions.add_acts([act("a"), act("b"), act("c", stream="ledger-test")])
    redactions.add_acts([act("a", DONE)])
    assert [one.body_sha256 for one in redactions.find_unfinished("ledger")] == ["b"]
    assert [one.body_sha256 for one in redactions.find_unfinished("ledger-test")] == ["c"]


def test_the_last_order_of_a_body_is_the_streams_own_where_it_has_one(redactions: Redactions) -> None:
    redactions.add_acts([act("a"), act("a", DONE), act("b", stream="ledger.1")])
    redactions.add_acts([act("a", stream="ledger.1"), act("b"), act("c", stream="ledger.1")])
    last = {
        sha256: (one.stream, done is not None) for sha256, (one, done) in redactions.list_last_orders("ledger").items()
    }
    assert last == {"a": ("ledger", True), "b": ("ledger", False), "c": ("ledger.1", False)}


def test_no_row_can_be_removed_or_changed(redactions: Redactions) -> None:
    redactions.add_acts([act("a")])
    with pytest.raises(DeltaError):
        DeltaTable(str(redactions.path)).delete("number = 1")


@pytest.mark.parametrize("change", [{"reason": "another"}, {"actor": "eve"}, {"number": 5}, {"chain": "0" * 64}])
def test_a_row_that_was_put_in_by_hand_is_found(redactions: Redactions, change: dict[str, object]) -> None:
    redactions.add_acts([act("a")])
    redactions.add_acts([act("b")])
    rows = DeltaTable(str(redactions.path)).to_pyarrow_dataset().to_table().sort_by("number").to_pylist()
    table = DeltaTable(str(redactions.path)).to_pyarrow_dataset().to_table()
    forged = table.schema.empty_table().from_pylist([rows[0], {**rows[1], **change}], schema=table.schema)
    other = Redactions(Path(redactions.path).with_name("forged"))
    write_deltalake(str(other.path), forged)
    with pytest.raises(RedactionsBroken):
        other.read_all()


BEFORE = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)


def test_a_table_of_which_nothing_was_dropped_says_nothing(tmp_path: Path) -> None:
    BodyStore(str(tmp_path / "bodies"))
    assert RetentionState.read(DeltaTable(str(tmp_path / "bodies"))) is None


def test_it_is_read_as_it_was_committed_after_later_bodies_and_a_checkpoint(tmp_path: Path) -> None:
    path, said = str(tmp_path / "bodies"), RetentionState(BEFORE, 30, 7)
    store = BodyStore(path)
    for mark in said.build_transactions():
        Appender.open(path).append(None, mark)
    store.append([("a" * 64, b"a")])
    DeltaTable(path).create_checkpoint()
    for entry in (tmp_path / "bodies" / "_delta_log").glob("*.json"):
        entry.unlink()
    assert RetentionState.read(DeltaTable(path)) == said


def test_what_was_dropped_stays_so_when_bodies_are_kept_for_longer() -> None:
    dropped = RetentionState(BEFORE, 30, 7)
    longer = RetentionState(BEFORE - timedelta(days=300), 400, 5)
    assert longer.with_earlier(dropped) == dropped
    later = RetentionState(BEFORE + timedelta(days=1), 400, 9)
    assert later.with_earlier(dropped) == RetentionState(later.before, 30, 9)
    assert dropped.with_earlier(None) == dropped
