"""What a verification says as a whole: a clean lake holds, what is gone is told, samples are bounded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from core.clock import ManualClock
from core.decision import Decision
from journal.index import Index
from journal.kafka_log import KafkaSilent
from journal.reader import JournalReader
from journal.writer import JournalWriter
from ledger.settings import VerifySettings
from ledger.verify import Lake, VerifyImpossible, verify
from ledger.verify.job import INVARIANTS, OF_THE_LEDGER
from tests.integration.ledger.conftest import AT, KEYS, Verify, World, new_row
from tests.integration.ledger.findings import failed, only, problems


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
    assert names == [invariant.name for invariant in INVARIANTS]
    assert len(set(names)) == len(names)


def test_derived_tables_that_are_gone_are_not_checked_and_not_wrong(report: Verify, world: World) -> None:
    """They can be made again from the journal; a start does it."""
    shutil.rmtree(world.lake.index)
    shutil.rmtree(world.lake.postings)
    found = report()
    assert not found.ok
    assert not found.wrong
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
    assert (found.ok, found.wrong) == (False, False)
    assert "no record came" in (found.findings[0].not_checked or "")


def test_another_stream_is_verified_without_what_only_the_ledger_has(spark: SparkSession, world: World) -> None:
    """What a stream reads of a journal has gaps between its offsets; each is there once."""
    shutil.move(world.lake.journal, world.lake.journal.parent / "source")
    folder, topic = world.lake.index.parent.parent, "journal.source/shop-a"
    writer = JournalWriter.create_or_open(str(folder / "lake" / "journal" / "notify"), "notify")
    writer.begin_epoch({topic: {0: 1}})
    rows = [new_row(at, topic, 0, offset, Decision.IGNORED, f"evt_{at}") for at, offset in ((1, 3), (2, 9))]
    writer.commit(rows, {topic: {0: 10}}, 0)
    lake, clock = Lake.under(folder, "notify"), ManualClock(AT)
    Index.open(lake.index, 1).close()
    found = verify(spark, lake, world.kafka, KEYS, VerifySettings(), clock)
    names = {one.name for one in found.findings}
    assert set(failed(found)) <= {"index_equals_journal"}, found.as_json()
    assert "offsets_accounted" in names and not names & OF_THE_LEDGER
    writer.commit([new_row(3, topic, 0, 99, Decision.IGNORED, "evt_3")], {topic: {0: 100}}, 0)
    found = verify(spark, lake, world.kafka, KEYS, VerifySettings(), clock)
    assert "never had" in problems(failed(found)["offsets_accounted"])
    reader = JournalReader(str(lake.journal))
    other = World(lake, world.kafka, [row for part in reader.rows_after(0) for row in part], reader.state())
    other.row(2).offset = 3
    other.rewrite()
    found = verify(spark, lake, world.kafka, KEYS, VerifySettings(), clock)
    assert "several first rows" in problems(failed(found)["offsets_accounted"])


def test_no_journal_is_said_plainly(report: Verify, world: World) -> None:
    shutil.rmtree(world.lake.journal)
    with pytest.raises(VerifyImpossible, match="no journal"):
        report()


def test_a_check_that_cannot_be_run_is_not_passed(report: Verify, world: World) -> None:
    """A file is gone: what rests on it may not come out as held."""
    next(Path(world.lake.postings).glob("*.parquet")).unlink()
    assert "could not be run" in problems(only(report(), "postings_equal_journal"))


def test_a_sample_of_offenders_is_bounded(spark: SparkSession, world: World) -> None:
    for row in world.rows:
        row.reason = "edited"
        row.postings = "not json"
    world.rewrite(forge=False)
    found = verify(spark, world.lake, world.kafka, KEYS, VerifySettings(sample_max=2), ManualClock(AT))
    assert len(next(one for one in found.findings if one.name == "chain_whole").offenders) == 2
    assert not found.ok
    assert all(len(finding.offenders) <= 2 for finding in found.findings)
