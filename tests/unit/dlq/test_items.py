"""Open items as the journal tells them, and one item's whole story."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from core.decision import OPEN_DECISIONS, Decision
from dlq.commands import Target
from dlq.items import ItemUnknown, list_items, show_item
from journal.bodies import BodyStore
from journal.schema import JournalRow
from journal.writer import JournalWriter

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
BODY = b'{"id": "evt_2"}'
TOPIC = "payments.events"


def first(seq: int, offset: int, decision: Decision, topic: str = TOPIC, **more: Any) -> JournalRow:
    return JournalRow(
        seq=seq,
        item_seq=seq,
        first=True,
        topic=topic,
        partition=0,
        offset=offset,
        decision=decision,
        decided_at=AT,
        event_key=f"stripe:evt_{seq}:charge",
        body_sha256=hashlib.sha256(BODY).hexdigest(),
        **more,
    )


def later(row: JournalRow, seq: int, decision: Decision) -> JournalRow:
    return replace(row, seq=seq, first=False, decision=decision)


@pytest.fixture
def journal(tmp_path: Path) -> str:
    """Two batches: 1 applied, 2 dead, 3 died and was replayed, 4 a command, 5 parked, 6 dead, 7 dead then applied."""
    path = str(tmp_path / "journal")
    writer = JournalWriter.create_or_open(path, "ledger")
    writer.begin_epoch({TOPIC: {0: 0}, "payments.control": {0: 0}})
    rows = [
        first(1, 0, Decision.APPLIED),
        first(2, 1, Decision.DEAD),
        first(3, 2, Decision.DEAD),
        first(4, 0, Decision.REPLAYED, "payments.control"),
        first(5, 3, Decision.PARKED),
        first(6, 4, Decision.RETRY),
        first(7, 5, Decision.DEAD),
    ]
    writer.commit(rows, {TOPIC: {0: 6}, "payments.control": {0: 1}}, 0)
    more = [
        later(rows[2], 8, Decision.REPLAYED),
        later(rows[5], 9, Decision.RETRY),
        later(rows[5], 10, Decision.DEAD),
        later(rows[6], 11, Decision.APPLIED),
    ]
    writer.commit(more, {TOPIC: {0: 6}, "payments.control": {0: 1}}, 0)
    return path


def test_dead_items_are_those_whose_last_row_is_dead(journal: str) -> None:
    items = list_items(journal)
    assert [item.item_seq for item in items] == [2, 6]
    assert items[1].target == Target(6, 10)
    assert items[0].row.event_key == "stripe:evt_2:charge"


def test_every_kind_of_open_item_can_be_listed_and_commands_are_none(journal: str) -> None:
    found = {item.item_seq: item.row.decision for item in list_items(journal, OPEN_DECISIONS)}
    assert found == {2: Decision.DEAD, 3: Decision.REPLAYED, 5: Decision.PARKED, 6: Decision.DEAD}


def test_a_list_is_read_page_by_page(journal: str) -> None:
    page = list_items(journal, OPEN_DECISIONS, limit=2)
    assert [item.item_seq for item in page] == [2, 3]
    rest = list_items(journal, OPEN_DECISIONS, limit=2, after=page[-1].item_seq)
    assert [item.item_seq for item in rest] == [5, 6]


def test_a_story_has_every_decision_and_the_bytes(journal: str, tmp_path: Path) -> None:
    bodies = str(tmp_path / "bodies")
    BodyStore(bodies).append([(hashlib.sha256(BODY).hexdigest(), BODY)])
    story = show_item(journal, bodies, 6)
    assert [row.decision for row in story.rows] == [Decision.RETRY, Decision.RETRY, Decision.DEAD]
    assert (story.body, story.target, story.is_open) == (BODY, Target(6, 10), True)
    assert not show_item(journal, bodies, 7).is_open
    assert not show_item(journal, bodies, 4).is_open


def test_a_story_without_its_bytes_says_so(journal: str, tmp_path: Path) -> None:
    """Retention takes bodies; what was decided stays."""
    assert show_item(journal, str(tmp_path / "bodies"), 2).body is None


def test_an_unknown_item_is_said_plainly(journal: str, tmp_path: Path) -> None:
    with pytest.raises(ItemUnknown, match="dlq list"):
        show_item(journal, str(tmp_path / "bodies"), 99)
