"""Changes of the audit log that `payhook verify` shows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from journal.anchors import Anchor, AnchorKeys
from journal.schema import GENESIS
from ledger.verify import Finding
from ledger.verify.engine import SqlEngine
from ledger.verify.journal_checks import AuditLogWhole
from operations.audit_log import AUDIT_SCHEMA, STREAM, AuditEntry, AuditLog, AuditOutcome, chain_entry, parse_entry
from tests.integration.ledger.conftest import AT, KEYS, World
from tests.integration.ledger.findings import problems

Look = Callable[[], Finding]
Rows = list[dict[str, Any]]
ENTRIES = 5


@pytest.fixture
def acts(world: World) -> Path:
    """The record, with five acts and the fourth anchored."""
    assert world.lake.audit_log is not None
    path = Path(world.lake.audit_log)
    anchor(world, *record(path, ENTRIES - 1))
    record(path, 1)
    return path


@pytest.fixture
def look(engine: SqlEngine, world: World) -> Look:
    return lambda: world.verify(engine, AuditLogWhole.name).findings[0]


def record(path: Path, count: int) -> tuple[int, str]:
    """So many acts; the number and the chain of the last one."""
    acts = AuditLog(path)
    for _ in range(count):
        act = AuditEntry(at=AT, actor="ada", action="replay", outcome=AuditOutcome.DONE, channel="api", what="items")
        done = acts.record(act)
    return done.number, done.chain


def anchor(world: World, number: int, chain: str, keys: AnchorKeys = KEYS) -> None:
    world.kafka.audit_anchors.append(keys.encode(Anchor(STREAM, 0, number, chain, AT)))


def rewrite(path: Path, change: Callable[[Rows], None], *, forge: bool = False) -> None:
    """Writes the record again; ``forge``: with numbers and a chain that fit."""
    rows = DeltaTable(str(path)).to_pyarrow_dataset().to_table().sort_by("number").to_pylist()
    change(rows)
    if forge:
        head = GENESIS
        for number, row in enumerate(rows, 1):
            row.update(chain_entry(parse_entry(row), row["act_id"], number, head).as_row())
            head = row["chain"]
    shutil.rmtree(path)
    write_deltalake(str(path), pa.Table.from_pylist(rows, schema=AUDIT_SCHEMA))


def test_a_record_that_nobody_touched_is_whole(look: Look, acts: Path) -> None:
    found = look()
    assert found.ok, found
    assert found.figures == {"entries": ENTRIES, "anchored": 4}


def test_without_entries_there_is_nothing_to_say(look: Look) -> None:
    assert look().ok


@pytest.mark.parametrize("column", ["actor", "reason", "what", "outcome", "after", "at", "act_id"])
def test_a_changed_act_is_found(look: Look, acts: Path, column: str) -> None:
    other = {"outcome": "failed", "at": AT.replace(year=2025)}.get(column, "mallory")
    rewrite(acts, lambda rows: rows[1].update({column: other}))
    assert [(one["number"], one["actor"]) for one in look().offenders] == [
        (2, "mallory" if column == "actor" else "ada")
    ]


def test_an_act_that_was_taken_out_is_found(look: Look, acts: Path) -> None:
    rewrite(acts, lambda rows: rows.__delitem__(1))
    assert look().offenders == ({"problem": "entries are missing", "after": 1, "before": 3},)


def test_an_act_that_was_put_in_is_found(look: Look, acts: Path) -> None:
    rewrite(acts, lambda rows: rows.append({**rows[1], "what": "items 9"}))
    assert "two entries have this number" in problems(look())


def test_a_record_written_anew_with_its_chain_is_found_by_its_anchor(look: Look, acts: Path) -> None:
    rewrite(acts, lambda rows: rows[1].update(actor="mallory"), forge=True)
    assert "isn't what was anchored" in problems(look())


def test_an_anchored_end_that_was_cut_off_is_found(look: Look, acts: Path) -> None:
    rewrite(acts, lambda rows: rows.__delitem__(slice(3, None)))
    assert "its end was cut off" in problems(look())


def test_a_record_that_is_gone_is_found_by_its_anchor(look: Look, acts: Path) -> None:
    shutil.rmtree(acts)
    assert "the record ends with 0, before its anchor" in problems(look())


def test_an_older_copy_of_the_record_is_found_by_its_anchor_and_what_it_holds_is_whole(
    look: Look, world: World, tmp_path: Path
) -> None:
    path = Path(str(world.lake.audit_log))
    record(path, 2)
    shutil.copytree(path, tmp_path / "older")
    anchor(world, *record(path, 3))
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "older", path)
    [offender] = look().offenders
    assert "the record ends with 2, before its anchor: its end was cut off" in str(offender["problem"])
    record(path, 4)
    [offender] = look().offenders
    assert "isn't what was anchored" in str(offender["problem"]), "also when it has grown past the anchor since"


def test_an_end_that_no_anchor_covers_can_be_cut_off_unseen(look: Look, acts: Path) -> None:
    """The limit of it, as docs/decisions/0022 says: what was recorded within seconds before."""
    rewrite(acts, lambda rows: rows.__delitem__(slice(4, None)))
    assert look().ok


def test_an_anchor_that_no_key_signed_is_an_offender(look: Look, acts: Path, world: World) -> None:
    anchor(world, 5, "0" * 64, AnchorKeys(["x" * 64]))
    assert "no known key signed it" in problems(look())
