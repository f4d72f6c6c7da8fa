"""One body is removed for good: written down first, then gone from every file, and nothing else is touched."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import journal.bodies
from core.clock import SystemClock
from core.decision import Decision
from core.money import Movement
from journal.bodies import BodyStore
from journal.log import NotCommitted
from journal.reader import JournalReader
from journal.storage import DiskStorage
from ledger.maintain.job import maintain
from ledger.maintain.redact import EventOpen, EventUnknown, RedactionOrder, finish_redactions, redact_bodies
from ledger.maintain.tables import StreamTables
from ledger.redactions import DONE, ORDERED, Redactions, read_body_statuses
from tests.divided_ledger import MOVES, STAYS, DividedLedger
from tests.integration.ledger.lakes import Lake, job, verified
from tests.unit.journal.rows import sha

CLOCK = SystemClock()
ALONE_MAX = 100


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake.under(tmp_path)
    made.tables = StreamTables(
        "ledger", made.tables.journal, made.tables.bodies, made.tables.postings, (), tmp_path / "lake" / "redactions"
    )
    made.commits(10)
    return made


def order(offset: int) -> RedactionOrder:
    return RedactionOrder(f"stripe:evt_{offset}:charge.succeeded", "ada", "a person asked to be forgotten")


def acts(lake: Lake) -> Redactions:
    assert lake.tables.redactions is not None
    return Redactions(lake.tables.redactions)


def settle(lake: Lake) -> None:
    """As minutes later: files are no more just being written."""
    at = time.time() - 3_600
    for file in Path(lake.tables.bodies).glob("*.parquet"):
        os.utime(file, (at, at))


def held_on_disk(lake: Lake, offset: int) -> list[str]:
    """Every file in the folder, named by the table or not, that has the bytes."""
    wanted = f"body {offset}".encode()
    return [
        file.name
        for file in Path(lake.tables.bodies).glob("*.parquet")
        if wanted in pq.read_table(file)["body"].to_pylist()
    ]


def test_the_body_leaves_the_disk_at_once_and_all_others_stay(spark: SparkSession, lake: Lake) -> None:
    redacted = redact_bodies([lake.tables], acts(lake), order(4), CLOCK, ALONE_MAX)
    (act,) = redacted.done
    assert (redacted.left, redacted.earlier) == ((), ())
    assert (act.seq, act.body_sha256, act.actor) == (5, sha("body 4"), "ada")
    assert held_on_disk(lake, 4) == []
    others = [sha(f"body {n}") for n in range(20) if n != 4]
    assert set(lake.bodies.fetch([*others, sha("body 4")])) == set(others)
    assert [one.act for one in acts(lake).read_all()] == [ORDERED, DONE]
    lake.commit()
    assert verified(lake)


def test_replaced_files_that_still_hold_it_go_too(spark: SparkSession, lake: Lake) -> None:
    maintain([lake.tables], job(spark))
    settle(lake)
    assert len(held_on_disk(lake, 4)) == 2, "the one that was replaced, and the one in its place"
    redact_bodies([lake.tables], acts(lake), order(4), CLOCK, ALONE_MAX)
    assert held_on_disk(lake, 4) == []
    assert len(held_on_disk(lake, 6)) == 2, "no other file was taken from readers"
    assert len(lake.bodies.fetch([sha(f"body {n}") for n in range(20)])) == 19


def test_its_story_says_who_had_it_removed_and_why(lake: Lake) -> None:
    redact_bodies([lake.tables], acts(lake), order(4), CLOCK, ALONE_MAX)
    rows = JournalReader(str(lake.tables.journal)).rows_of([5, 6])
    assert lake.tables.redactions is not None
    gone, kept = read_body_statuses("ledger", lake.tables.bodies, lake.tables.redactions, rows)
    assert "redacted by ada at " in str(gone) and str(gone).endswith(": a person asked to be forgotten")
    assert (gone.status, kept.status) == ("redacted", "kept")


def test_a_second_order_is_reported_of_the_first_and_writes_nothing_down(lake: Lake) -> None:
    first = redact_bodies([lake.tables], acts(lake), order(4), CLOCK, ALONE_MAX)
    again = redact_bodies([lake.tables], acts(lake), replace(order(4), actor="bob"), CLOCK, ALONE_MAX)
    assert (again.done, again.left) == ((), ())
    assert [(one.actor, one.seq) for one in again.earlier] == [("ada", 5)]
    assert [one.at for one in again.earlier] == [one.at for one in first.done]
    assert [one.act for one in acts(lake).read_all()] == [ORDERED, DONE]


def test_a_body_that_came_again_with_another_event_is_removed_again(spark: SparkSession, lake: Lake) -> None:
    redact_bodies([lake.tables], acts(lake), order(4), CLOCK, ALONE_MAX)
    (copy,) = lake.commit(count=1, body_sha256=sha("body 4"))
    lake.bodies.append([(sha("body 4"), b"body 4")])
    assert lake.tables.redactions is not None
    (kept,) = read_body_statuses("ledger", lake.tables.bodies, lake.tables.redactions, [copy])
    assert kept.status == "kept" and "it came again after it was redacted by ada" in str(kept)
    (act,) = redact_bodies([lake.tables], acts(lake), replace(order(copy.offset), actor="bob"), CLOCK, ALONE_MAX).done
    assert held_on_disk(lake, 4) == []
    (gone,) = read_body_statuses("ledger", lake.tables.bodies, lake.tables.redactions, [copy])
    assert (act.seq, gone.status, gone.actor) == (copy.seq, "redacted", "bob")
    assert [one.act for one in acts(lake).read_all()] == [ORDERED, DONE, ORDERED, DONE]
    assert verified(lake)


def test_a_body_that_came_back_with_older_bodies_is_removed_again(lake: Lake, tmp_path: Path) -> None:
    shutil.copytree(str(lake.tables.bodies), tmp_path / "older")
    redact_bodies([lake.tables], acts(lake), order(4), CLOCK, ALONE_MAX)
    shutil.rmtree(str(lake.tables.bodies))
    (tmp_path / "older").rename(str(lake.tables.bodies))
    assert held_on_disk(lake, 4)
    (act,) = redact_bodies([lake.tables], acts(lake), replace(order(4), actor="bob"), CLOCK, ALONE_MAX).done
    assert (act.actor, act.body_sha256, held_on_disk(lake, 4)) == ("bob", sha("body 4"), [])
    assert [one.act for one in acts(lake).read_all()] == [ORDERED, DONE, ORDERED, DONE]


def test_a_redaction_that_an_older_record_lacks_is_written_down_again(lake: Lake, tmp_path: Path) -> None:
    redact_bodies([lake.tables], acts(lake), order(2), CLOCK, ALONE_MAX)
    shutil.copytree(str(lake.tables.redactions), tmp_path / "older")
    redact_bodies([lake.tables], acts(lake), order(4), CLOCK, ALONE_MAX)
    shutil.rmtree(str(lake.tables.redactions))
    (tmp_path / "older").rename(str(lake.tables.redactions))
    (act,) = redact_bodies([lake.tables], acts(lake), order(4), CLOCK, ALONE_MAX).done
    assert act.body_sha256 == sha("body 4")
    assert [one.body_sha256 for one in acts(lake).read_all()] == [sha("body 2")] * 2 + [sha("body 4")] * 2


def test_what_is_open_is_refused_and_nothing_is_written_down(lake: Lake) -> None:
    (dead,) = lake.commit(count=1, decision=Decision.DEAD)
    with pytest.raises(EventOpen, match=f"item {dead.seq} is open"):
        redact_bodies([lake.tables], acts(lake), order(dead.offset), CLOCK, ALONE_MAX)
    assert acts(lake).read_all() == [] and held_on_disk(lake, dead.offset)
    lake.follow(dead, Decision.PURGED)
    redact_bodies([lake.tables], acts(lake), order(dead.offset), CLOCK, ALONE_MAX)
    assert held_on_disk(lake, dead.offset) == []


def test_a_body_that_another_open_event_shares_is_refused(lake: Lake) -> None:
    lake.commit(count=1, decision=Decision.RETRY, due_at=datetime.now(UTC), body_sha256=sha("body 4"))
    with pytest.raises(EventOpen, match="item 21"):
        redact_bodies([lake.tables], acts(lake), order(4), CLOCK, ALONE_MAX)


def test_an_event_that_nobody_knows_is_refused(lake: Lake) -> None:
    with pytest.raises(EventUnknown):
        redact_bodies([lake.tables], acts(lake), order(400), CLOCK, ALONE_MAX)


def test_what_was_written_down_and_not_done_is_done_by_the_next_maintenance(spark: SparkSession, lake: Lake) -> None:
    """The process died, or the disk failed, between the two."""
    bodies = Path(lake.tables.bodies)
    away = bodies.with_name("away")
    (bodies / "_delta_log").rename(away)
    (bodies / "_delta_log").mkdir()
    shutil.copy(away / f"{0:020}.json", bodies / "_delta_log")
    (bodies / "_delta_log" / f"{1:020}.json").write_text("torn", "utf-8")
    with pytest.raises(Exception):  # noqa: B017 - whichever library meets it first
        redact_bodies([lake.tables], acts(lake), order(4), CLOCK, ALONE_MAX)
    shutil.rmtree(bodies / "_delta_log")
    away.rename(bodies / "_delta_log")
    assert [one.act for one in acts(lake).read_all()] == [ORDERED] and held_on_disk(lake, 4)
    report = maintain([lake.tables], job(spark))
    assert report.ok and report.tables[1].bodies_dropped == 1
    assert [one.act for one in acts(lake).read_all()] == [ORDERED, DONE]
    assert held_on_disk(lake, 4) == []


def test_a_file_that_is_about_to_be_committed_is_left_to_the_next_run(spark: SparkSession, lake: Lake) -> None:
    named = held_on_disk(lake, 4)
    fresh = lake.tables.bodies / "part-00000-in-flight.parquet"
    shutil.copyfile(lake.tables.bodies / named[0], fresh)
    redacted = redact_bodies([lake.tables], acts(lake), order(4), CLOCK, ALONE_MAX)
    assert held_on_disk(lake, 4) == [fresh.name]
    assert redacted.done == () and [one.body_sha256 for one in redacted.left] == [sha("body 4")]
    assert [one.act for one in acts(lake).read_all()] == [ORDERED]
    settle(lake)
    maintain([lake.tables], job(spark))
    assert held_on_disk(lake, 4) == []
    assert [one.act for one in acts(lake).read_all()] == [ORDERED, DONE]


def test_the_writer_appends_meanwhile(spark: SparkSession, lake: Lake) -> None:
    with lake.committing(every_s=0.005):
        for offset in range(3):
            redact_bodies([lake.tables], acts(lake), order(offset), CLOCK, ALONE_MAX)
    found = lake.bodies.fetch([sha(f"body {n}") for n in range(lake.seq)])
    assert len(found) == lake.seq - 3
    assert verified(lake)


def test_a_reader_whose_file_is_taken_away_reads_the_table_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    newest_first = journal.bodies._newest_first
    looks: list[int] = []

    def then_redacted(table: DeltaTable) -> Iterator[Any]:
        files = list(newest_first(table))
        looks.append(len(files))
        if len(looks) == 1:
            redact_bodies([lake.tables], acts(lake), order(4), CLOCK, ALONE_MAX)
        return iter(files)

    monkeypatch.setattr(journal.bodies, "_newest_first", then_redacted)
    store = BodyStore(str(lake.tables.bodies))
    assert set(store.fetch([sha("body 3"), sha("body 4")])) == {sha("body 3")}
    assert len(looks) == 2


def test_a_rewrite_that_is_refused_is_an_error_and_finished_later(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    others = iter(range(1_000, 2_000))

    class RacingBodyStorage(DiskStorage):
        def put_new(self, name: str, data: bytes) -> None:
            body = f"body {next(others)}"
            lake.bodies.append([(sha(body), body.encode())])
            super().put_new(name, data)

    with monkeypatch.context() as patched:
        patched.setattr("journal.log.TRIES_MAX", 3)
        patched.setattr("journal.rewrite.open_storage", RacingBodyStorage)
        with pytest.raises(NotCommitted, match="committed 3 times"):
            redact_bodies([lake.tables], acts(lake), order(4), CLOCK, ALONE_MAX)
    assert len(acts(lake).find_unfinished("ledger")) == 1 and held_on_disk(lake, 4)
    assert finish_redactions(lake.tables, acts(lake), CLOCK) == 1
    assert not acts(lake).find_unfinished("ledger")


class TestOneBodyInTwoShards:
    """It came to two endpoints, or was replayed under its real entity, which is another shard's."""

    @pytest.fixture
    def divided(self, tmp_path: Path) -> DividedLedger:
        divided = DividedLedger.under(tmp_path)
        for shard, payment in zip(divided.shards, (STAYS[2], MOVES[2]), strict=True):
            shard.add(Movement.CAPTURE, payment=payment, body_sha256=sha("one"))
            shard._bodies[sha("one")] = b"one"
            shard.commit()
        return divided

    @pytest.fixture
    def tables(self, divided: DividedLedger) -> list[StreamTables]:
        places = divided.layout.all_ledgers()
        redactions = places[0].shared_table("redactions")
        return [StreamTables(at.stream, at.journal, at.bodies_table, at.postings, (), redactions) for at in places]

    def held(self, tables: list[StreamTables]) -> list[str]:
        return [one.stream for one in tables if BodyStore(str(one.bodies)).find_kept([sha("one")])]

    def test_it_leaves_both_by_one_order(self, divided: DividedLedger, tables: list[StreamTables]) -> None:
        redactions = Redactions(divided.layout.ledger().shared_table("redactions"))
        first, second = (shard.rows[-1] for shard in divided.shards)
        redacted = redact_bodies(tables, redactions, RedactionOrder(first.event_key or "", "ada", "asked"), CLOCK, 1)
        assert self.held(tables) == []
        assert [(one.stream, one.seq, one.event_key) for one in redacted.done] == [
            ("ledger", first.seq, first.event_key),
            ("ledger.1", second.seq, first.event_key),
        ]
        for row in (first, second):
            (gone,) = divided.ledger.read_story(row.event_key or "")[1]
            assert (gone.status, gone.actor) == ("redacted", "ada")

    def test_what_an_earlier_order_left_is_removed_by_the_next_one(
        self, divided: DividedLedger, tables: list[StreamTables]
    ) -> None:
        redactions = Redactions(divided.layout.ledger().shared_table("redactions"))
        first, second = (shard.rows[-1] for shard in divided.shards)
        redact_bodies(tables[:1], redactions, RedactionOrder(first.event_key or "", "ada", "asked"), CLOCK, 1)
        (kept,) = divided.ledger.read_story(second.event_key or "")[1]
        assert (str(kept), self.held(tables)) == (f"body {sha('one')}: kept", ["ledger.1"])
        redacted = redact_bodies(tables, redactions, RedactionOrder(first.event_key or "", "bob", "asked"), CLOCK, 1)
        assert [one.stream for one in redacted.earlier] == ["ledger"]
        assert ([one.stream for one in redacted.done], self.held(tables)) == (["ledger.1"], [])


@pytest.mark.parametrize(("actor", "reason"), [("", "asked"), ("ada", " "), ("ada\x1fbob", "asked")])
def test_an_order_says_who_and_why_in_words_that_the_chain_can_hold(actor: str, reason: str) -> None:
    with pytest.raises(ValueError, match="printable characters"):
        RedactionOrder("stripe:evt_1:charge.succeeded", actor, reason)
