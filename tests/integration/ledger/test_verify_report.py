"""What a verification says as a whole: a clean lake holds, what is gone is told, samples are bounded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from core.clock import ManualClock
from ledger.settings import VerifySettings
from ledger.verify import VerifyImpossible, verify
from ledger.verify.job import INVARIANTS
from tests.integration.ledger.conftest import AT, KEYS, Verify, World
from tests.integration.ledger.findings import only, problems


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
    assert all("the processor makes it" in why or "it makes one" in why for why in unchecked.values())


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
