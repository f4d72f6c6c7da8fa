"""Bodies are hashed again; one that is gone went by somebody's order, or when its time was over."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from core.decision import Decision
from journal.append import Appender
from journal.bodies import BODIES_SCHEMA
from ledger.redactions import DONE, ORDERED, Redaction, Redactions, RetentionState
from ledger.verify import Finding, Options
from ledger.verify.engine import SqlEngine
from tests.integration.ledger.conftest import AT, World, later_row

NAME = "bodies_whole"

Look = Callable[..., Finding]


@pytest.fixture
def look(engine: SqlEngine, world: World) -> Look:
    return lambda: world.verify(engine, NAME, options=Options(deep=True)).findings[0]


def drop(world: World, seq: int) -> str:
    gone = world.row(seq).body_sha256 or ""
    DeltaTable(str(world.lake.bodies_table)).delete(f"body_sha256 = '{gone}'")
    return gone


def retain(world: World, after: timedelta, published_upto: int = 14) -> None:
    """Retention, set to 30 days, ran at that time."""
    for mark in RetentionState(AT + after - timedelta(days=30), 30, published_upto).build_transactions():
        Appender.open(str(world.lake.bodies_table)).append(None, mark)


def redact(world: World, sha256: str, at: datetime = AT, *acts: str, stream: str = "ledger") -> None:
    table = Redactions(world.lake.bodies_table.parent / "redactions")
    for act in acts or (ORDERED,):
        table.add_acts([Redaction(0, act, stream, "stripe:evt_5:charge", 8, sha256, "ada", "asked", at)])


def test_bodies_that_are_what_their_hashes_say_are_right(look: Look) -> None:
    found = look()
    assert (found.name, found.offenders) == (NAME, ())
    assert found.figures["bodies"] >= 8 and found.figures["bytes"] > 0


def test_a_body_that_was_changed_is_found(look: Look, world: World) -> None:
    gone = drop(world, 8)
    write_deltalake(
        str(world.lake.bodies_table),
        pa.table({"body_sha256": [gone], "body": [b"another"]}, schema=BODIES_SCHEMA),
        mode="append",
    )
    (offender,) = look().offenders
    assert (offender["problem"], offender["body_sha256"]) == ("a body isn't what its hash says", gone)


def test_a_body_that_is_nowhere_is_found(look: Look, world: World) -> None:
    drop(world, 8)
    (offender,) = look().offenders
    assert (offender["problem"], offender["seq"]) == ("a body is nowhere", 8)


@pytest.mark.parametrize("loss", [Path.unlink, lambda file: file.write_bytes(file.read_bytes()[:20])])
def test_a_file_of_bodies_that_is_lost_is_named(look: Look, world: World, loss: Callable[[Path], object]) -> None:
    file = min(Path(str(world.lake.bodies_table)).glob("*.parquet"))
    loss(file)
    (offender,) = look().offenders
    assert offender["problem"] == "a file of bodies can't be read"
    assert offender["file"].partition(" ")[0] == file.name


def test_a_body_that_somebody_had_removed_is_accounted_for(look: Look, world: World) -> None:
    redact(world, drop(world, 8))
    found = look()
    assert (found.offenders, found.figures["redacted"]) == ((), 1)


def test_a_redacted_body_that_a_backup_brought_back_is_found(look: Look, world: World) -> None:
    decided = world.row(8)
    redact(world, decided.body_sha256 or "", decided.decided_at + timedelta(seconds=1), ORDERED, DONE)
    (offender,) = look().offenders
    assert "is there again" in offender["problem"] and offender["body_sha256"] == decided.body_sha256


def test_older_bodies_lack_what_came_since_and_hold_what_was_redacted_since(
    look: Look, world: World, tmp_path: Path
) -> None:
    """Row 2 is a copy of row 1: it was decided afterwards, and brought no body."""
    bodies, decided = Path(str(world.lake.bodies_table)), world.row(1)
    shutil.copytree(bodies, tmp_path / "older")
    (tmp_path / "older" / "_delta_log" / f"{DeltaTable(str(bodies)).version():020}.json").unlink()
    redact(world, drop(world, 1), decided.decided_at + timedelta(seconds=1), ORDERED, DONE)
    assert look().ok
    shutil.rmtree(bodies)
    (tmp_path / "older").rename(bodies)
    found = {str(one["problem"]).split(",")[0]: one for one in look().offenders}
    assert found.keys() == {"a body is nowhere", "a redacted body is there again"}
    assert found["a redacted body is there again"]["body_sha256"] == decided.body_sha256
    assert found["a body is nowhere"]["seq"] > 1


def test_a_body_whose_redaction_an_older_record_lacks_is_nowhere(look: Look, world: World, tmp_path: Path) -> None:
    redactions = world.lake.bodies_table.parent / "redactions"
    redact(world, drop(world, 1), AT, ORDERED, DONE)
    shutil.copytree(str(redactions), tmp_path / "older")
    redact(world, drop(world, 8), AT, ORDERED, DONE)
    assert look().ok
    shutil.rmtree(str(redactions))
    (tmp_path / "older").rename(str(redactions))
    [offender] = look().offenders
    assert (offender["problem"], offender["seq"]) == ("a body is nowhere", 8)


@pytest.mark.parametrize(("acts", "after_s"), [((ORDERED,), 1), ((ORDERED, DONE), -1), ((ORDERED, DONE, ORDERED), 1)])
def test_one_that_an_event_brought_since_or_that_is_still_to_go_is_right(
    look: Look, world: World, acts: tuple[str, ...], after_s: int
) -> None:
    decided = world.row(8)
    redact(world, decided.body_sha256 or "", decided.decided_at + timedelta(seconds=after_s), *acts)
    assert look().offenders == ()


def test_what_another_stream_had_removed_may_be_here(look: Look, world: World) -> None:
    decided = world.row(8)
    redact(
        world, decided.body_sha256 or "", decided.decided_at + timedelta(seconds=1), ORDERED, DONE, stream="ledger.1"
    )
    assert look().offenders == ()


@pytest.mark.parametrize(("after_s", "is_missed"), [(1, False), (-1, True)])
def test_one_that_went_before_the_journal_was_divided_is_accounted_for_by_that_order(
    look: Look, world: World, after_s: int, is_missed: bool
) -> None:
    """An order of the journal that this one began as a copy of; not one from before an event brought the body here."""
    decided = world.row(8)
    redact(world, drop(world, 8), decided.decided_at + timedelta(seconds=after_s), ORDERED, DONE, stream="ledger.1")
    assert [one["seq"] for one in look().offenders] == ([8] if is_missed else [])


def test_a_body_that_had_its_time_is_accounted_for(look: Look, world: World) -> None:
    drop(world, 8)
    retain(world, timedelta(days=29))
    assert look().offenders
    retain(world, timedelta(days=31))
    found = look()
    assert (found.offenders, found.figures["dropped"]) == ((), 1)


def test_a_body_that_an_open_event_needs_never_had_its_time(look: Look, world: World) -> None:
    drop(world, 12)
    retain(world, timedelta(days=31))
    (offender,) = look().offenders
    assert (offender["problem"], offender["seq"]) == ("a body is nowhere", 12)


def follow(world: World, of: int, *decisions: Decision, after: timedelta = timedelta()) -> None:
    """More rows of an item."""
    for decision in decisions:
        row = later_row(world.row(of), world.state.next_seq, decision)
        row.batch_seq, row.decided_at = world.rows[-1].batch_seq, row.decided_at + after
        world.rows.append(row)
        world.state = replace(world.state, next_seq=row.seq + 1)
    world.rewrite()


@pytest.mark.parametrize(("published_upto", "is_missed"), [(11, True), (12, False)])
def test_a_settled_dead_letter_had_its_time_once_it_was_on_its_topic(
    look: Look, world: World, published_upto: int, is_missed: bool
) -> None:
    follow(world, 12, Decision.PURGED)
    drop(world, 12)
    retain(world, timedelta(days=31), published_upto)
    found = look()
    assert [one["seq"] for one in found.offenders] == ([12] if is_missed else [])
    assert found.figures["dropped"] == (0 if is_missed else 1)


def test_dead_letters_that_are_published_again_do_not_ask_for_what_was_dropped(look: Look, world: World) -> None:
    """As after `payhook recover --accept-loss`."""
    follow(world, 12, Decision.PURGED)
    drop(world, 12)
    retain(world, timedelta(days=31))
    world.state = replace(world.state, published_upto=0)
    world.rewrite()
    found = look()
    assert (found.offenders, found.figures["dropped"]) == ((), 1)


def test_one_that_died_after_its_body_was_dropped_does_not_ask_for_it(look: Look, world: World) -> None:
    """An ignored event that was reprocessed too late."""
    follow(world, 8, Decision.REPLAYED, Decision.DEAD, Decision.PURGED, after=timedelta(days=35))
    drop(world, 8)
    retain(world, timedelta(days=31))
    found = look()
    assert (found.offenders, found.figures["dropped"]) == ((), 1)


def test_a_body_that_a_younger_row_refers_to_has_not_had_its_time(look: Look, world: World) -> None:
    """Row 2 is a copy of row 1."""
    drop(world, 1)
    world.row(2).decided_at = AT + timedelta(days=20)
    world.rewrite()
    retain(world, timedelta(days=31))
    (offender,) = look().offenders
    assert (offender["problem"], offender["seq"]) == ("a body is nowhere", 1)


def test_a_redelivery_after_a_body_was_dropped_does_not_ask_for_it(look: Look, world: World) -> None:
    drop(world, 1)
    world.row(2).decided_at = AT + timedelta(days=35)
    world.rewrite()
    retain(world, timedelta(days=40))
    found = look()
    assert (found.offenders, found.figures["dropped"]) == ((), 1)


def test_a_dropped_body_that_another_event_brought_again_is_asked_for(look: Look, world: World) -> None:
    world.row(3).body_sha256, world.row(3).decided_at = drop(world, 1), AT + timedelta(days=35)
    world.rewrite()
    retain(world, timedelta(days=40))
    (offender,) = look().offenders
    assert (offender["problem"], offender["seq"]) == ("a body is nowhere", 1)


def test_bodies_that_are_gone_as_a_whole_are_said_plainly(look: Look, world: World, tmp_path: Path) -> None:
    assert isinstance(world.lake.bodies_table, Path)
    world.lake.bodies_table.rename(tmp_path / "moved")
    (offender,) = look().offenders
    assert "there is no table of bodies" in offender["problem"]
