"""What a verification says as a whole: a clean lake holds, what is gone is named, samples are bounded."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from core.clock import ManualClock, to_rfc3339
from core.decision import Decision
from journal.index import Index
from journal.kafka_log import KafkaSilent
from journal.reader import JournalReader
from journal.writer import JournalWriter
from ledger.catch_ups import TABLE, CatchUps, ListedSpan
from ledger.receipts import ReceiptsTable, collect_new_receipts
from ledger.verify import Lake, Report, VerifyImpossible, verify
from ledger.verify.engine import SqlEngine
from ledger.verify.evidence import VerifyLimits
from ledger.verify.job import INVARIANTS, OF_THE_LEDGER
from ledger.verify.journal_checks import OneEffectInAllShards
from ledger.verify.kafka_checks import TopicDivided
from tests.answers import OneRecord
from tests.damaged_lake import cut_files, overwrite_files
from tests.integration.ledger.conftest import AT, KEYS, Verify, World, body_of, new_row
from tests.integration.ledger.findings import failed, only, problems

OF_SEVERAL = {OneEffectInAllShards.name, TopicDivided.name}
"""Asked where there are several shards, or streams that divide a topic."""
OF_ONE_SHARD = [invariant.name for invariant in INVARIANTS if invariant.name not in OF_SEVERAL]


def test_a_clean_lake_verifies(report: Verify) -> None:
    found = report()
    assert found.ok, found.as_json()
    assert found.seq == 14
    figures = {finding.name: finding.figures for finding in found.findings}
    assert figures["offsets_accounted"] == {"offsets": 11}
    assert figures["in_flight"]["waiting"] == 2
    assert figures["in_flight"]["dead"] == 2
    assert figures["index_equals_journal"] == {"seq": 14, "behind": 0, "event": 9, "open": 4, "dead": 2}
    assert figures["postings_equal_journal"]["mark"] == 11
    assert figures["chain_whole"] == {"commits": 3}


def test_the_report_names_each_invariant_once_and_is_json(report: Verify) -> None:
    names = [finding.name for finding in report().findings]
    assert names == OF_ONE_SHARD
    assert len(set(names)) == len(names)


def test_derived_tables_that_are_gone_are_not_checked_and_not_wrong(report: Verify, world: World) -> None:
    """They can be made again from the journal; a start does it."""
    shutil.rmtree(world.lake.index)
    shutil.rmtree(world.lake.postings)
    found = report()
    assert not found.ok
    assert not found.has_offenders
    unchecked = {finding.name: finding.not_checked for finding in found.findings if finding.not_checked}
    assert unchecked.keys() == {"postings_equal_journal", "index_equals_journal"}
    assert all("processor" in why for why in unchecked.values())


def test_a_kafka_that_falls_silent_leaves_its_checks_unmade(
    report: Verify, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(_points: object) -> None:
        raise KafkaSilent("no record came within 60 s")

    monkeypatch.setattr(world.kafka, "records_at", silent)
    found = report("records_are_those_decided")
    assert (found.ok, found.has_offenders) == (False, False)
    assert "no record came" in (found.findings[0].not_checked or "")


@pytest.fixture
def reader(engine: SqlEngine, world: World) -> Callable[[], Report]:
    """Verifies a stream that reads the ledger's journal, for one receiver, up to its last row."""
    folder, topic = world.lake.index.parent.parent, "journal.ledger/shop-a"
    writer = JournalWriter.create_or_open(str(folder / "lake" / "journal" / "notify"), "notify")
    writer.begin_epoch({topic: {0: 1}})
    booked = [row for row in world.rows if row.decision is Decision.APPLIED]
    rows = [
        new_row(at, topic, 0, row.seq, Decision.IGNORED, f"evt_{at}", received_at=row.decided_at)
        for at, row in enumerate(booked, 1)
    ]
    writer.commit(rows, {topic: {0: booked[-1].seq + 1}}, 0)
    lake, clock = Lake.from_data_dir(folder, "notify"), ManualClock(AT)
    index = Index.open(lake.index, 1)
    index.apply_rows(rows, {row.body_sha256 or "": body_of(row) for row in rows})
    index.close()
    return lambda: verify(engine, lake, world.kafka, KEYS, VerifyLimits(), clock)


class TestAStreamThatReadsAJournal:
    """Its offsets are seqs, with gaps between them; each row that changed the source's books has its decision."""

    def test_it_holds_without_what_only_the_ledger_has(self, reader: Callable[[], Report]) -> None:
        found = reader()
        assert found.ok, found.as_json()
        assert {one.name for one in found.findings} == set(OF_ONE_SHARD) - OF_THE_LEDGER

    def test_an_offset_that_was_decided_twice_is_named(self, reader: Callable[[], Report], world: World) -> None:
        lake = Lake.from_data_dir(world.lake.index.parent.parent, "notify")
        journal = JournalReader(str(lake.journal))
        other = World(lake, world.kafka, [row for part in journal.rows_after(0) for row in part], journal.state())
        other.row(2).offset = other.row(1).offset
        other.rewrite()
        assert "several first rows" in problems(failed(reader())["offsets_accounted"])

    def test_a_source_that_ends_before_the_mark_is_named(self, reader: Callable[[], Report], world: World) -> None:
        last = [row.seq for row in world.rows if row.decision is Decision.APPLIED][-1]
        world.rows = [row for row in world.rows if row.seq < last]
        world.rewrite()
        assert "never had" in problems(failed(reader())["offsets_accounted"])

    def test_rows_that_were_passed_over_are_named(self, reader: Callable[[], Report], world: World) -> None:
        other = next(row for row in world.rows if row.decision is Decision.DUPLICATE and row.seq > 1)
        other.decision = Decision.APPLIED
        world.rewrite()
        found = only(reader(), "records_are_those_decided")
        assert [(one["offset"], one["problem"]) for one in found.offenders] == [
            (other.seq, "a row of the source was passed over")
        ]

    def test_a_row_that_the_source_has_otherwise_is_named(self, reader: Callable[[], Report], world: World) -> None:
        """An older copy of the ledger was put back, and went on with other rows."""
        gone, changed = [row for row in world.rows if row.decision is Decision.APPLIED][:2]
        gone.decision = Decision.IGNORED
        changed.decided_at += timedelta(seconds=1)
        world.rewrite()
        found = only(reader(), "records_are_those_decided")
        assert {one["offset"]: one["problem"] for one in found.offenders} == {
            gone.seq: "the source has no such row",
            changed.seq: "the source has another row than was decided",
        }


def test_no_journal_is_said_plainly(report: Verify, world: World) -> None:
    shutil.rmtree(world.lake.journal)
    with pytest.raises(VerifyImpossible, match="no journal"):
        report()


PAYMENTS = {"refunds_have_captures", "undos_have_movements", "one_merchant_a_payment"}
NEEDS_NO_JOURNAL = {"audit_log_whole", "reports_agree"}


def remove_files(table: Path) -> None:
    for file in table.glob("*.parquet"):
        file.unlink()


@pytest.mark.parametrize("damage", [remove_files, cut_files, overwrite_files])
@pytest.mark.parametrize("table", ["journal", "postings", "receipts"])
def test_what_rests_on_a_table_that_cannot_be_read_is_not_passed(
    report: Verify, world: World, table: str, damage: Callable[[Path], None]
) -> None:
    """Also where a query's conditions would hold without a look at the damaged rows."""
    receipt = orjson.dumps({"status": 200, "at": to_rfc3339(AT), "event_key": "stripe:evt_1:charge"})
    collect_new_receipts(OneRecord(receipt), "receipts", ReceiptsTable(str(world.lake.receipts)))
    listed: Any = {
        "at": AT,
        "source": "stripe",
        "provider": "stripe",
        "outcome": "listed",
        "listed": 1,
        "passed_over": 1,
    }
    CatchUps(world.lake.places.shared_table(TABLE)).append(
        ListedSpan(since=AT - timedelta(hours=1), until=AT, **listed)
    )
    damage(Path(str(getattr(world.lake, table))))
    wrong = failed(report())
    assert (
        set(wrong)
        == {
            "journal": set(OF_ONE_SHARD) - NEEDS_NO_JOURNAL,
            "postings": {"postings_equal_journal", *PAYMENTS},
            "receipts": {"receipts_have_decisions"},
        }[table]
    )
    assert all("could not be run" in problems(one) for one in wrong.values())


def test_a_sample_of_offenders_is_bounded(engine: SqlEngine, world: World) -> None:
    for row in world.rows:
        row.reason = "edited"
        row.postings = "not json"
    world.rewrite(forge=False)
    found = verify(engine, world.lake, world.kafka, KEYS, VerifyLimits(sample_max=2), ManualClock(AT))
    assert len(next(one for one in found.findings if one.name == "chain_whole").offenders) == 2
    assert not found.ok
    assert all(len(finding.offenders) <= 2 for finding in found.findings)
