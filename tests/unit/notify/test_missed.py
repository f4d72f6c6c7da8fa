"""What a subscriber missed since a time is found in its stream's journal, and can be selected."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from core.decision import Decision
from core.event import REVERSED_TYPE
from core.routing import journal_topic
from dead_letters.item import ItemState
from dead_letters.listing import Filter
from journal.writer import JournalWriter
from notify.subscribers import missed_items, parse_subscribers
from operations.selection.selections import IgnoredEventFinder
from tests.unit.journal.rows import bare_row

SHOP, BANK, CONTROL = journal_topic("ledger", "shop"), journal_topic("ledger", "bank"), "payments.control"
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
SUBSCRIBERS = (
    '[shop]\nurl = "https://hooks.example.com/"\ntypes = ["charge.*"]\n[bank]\nurl = "https://b.example.com/"\n'
)

ROWS: tuple[dict[str, Any], ...] = (
    {"topic": SHOP, "event_type": "charge.captured", "decided_at": NOW - timedelta(hours=1)},
    {"topic": SHOP, "event_type": "charge.captured"},
    {"topic": SHOP, "event_type": "payout.paid"},
    {"topic": BANK, "event_type": "charge.captured"},
    {"topic": SHOP, "event_type": REVERSED_TYPE},
    {"topic": SHOP, "event_type": "charge.captured", "tenant": "shop-a"},
    {"topic": SHOP, "event_type": "charge.captured", "decision": Decision.APPLIED},
    {"topic": CONTROL, "event_type": "replay"},
    {"topic": SHOP, "event_type": "charge.captured"},
)


def journal(path: Path) -> Path:
    writer = JournalWriter.create_or_open(str(path), "notify")
    topics = {topic: {0: 0} for topic in (SHOP, BANK, CONTROL)}
    writer.begin_epoch(topics)
    rows, marks = [], {topic: {0: 0} for topic in topics}
    for seq, row in enumerate(ROWS, 1):
        offset = marks[row["topic"]][0]
        marks[row["topic"]][0] = offset + 1
        own = {"event_key": f"notify:x:{seq}", "provider": "payhook", "decided_at": NOW, "offset": offset, **row}
        rows.append(bare_row(seq, own.pop("decision", Decision.IGNORED), **own))
    last = bare_row(10, Decision.APPLIED, item_seq=9, first=False, topic=SHOP, offset=6, decided_at=NOW)
    last.event_key, last.provider = "notify:x:9", "payhook"
    writer.commit([*rows, last], marks, 0)
    return path


def test_it_is_what_a_subscriber_would_take_now(tmp_path: Path) -> None:
    """Its last row isn't asked for here: what was sent meanwhile isn't frozen."""
    path, subscribers = journal(tmp_path), parse_subscribers(SUBSCRIBERS, tmp_path)
    assert missed_items(path, subscribers["shop"], NOW) == [2, 5, 9]
    assert missed_items(path, subscribers["shop"], NOW - timedelta(days=1)) == [1, 2, 5, 9]
    assert missed_items(path, subscribers["bank"], NOW) == [4]
    assert missed_items(tmp_path / "none", subscribers["shop"], NOW) == []


def test_what_a_stream_was_fed_can_be_selected_by_its_receiver_and_commands_can_not(tmp_path: Path) -> None:
    finder = IgnoredEventFinder(journal(tmp_path), lambda _: {}, None)

    def items(**wanted: Any) -> list[int]:
        return [one.item_seq for one in finder.find(Filter(states=(ItemState.IGNORED,), **wanted))]

    assert items() == [1, 2, 3, 4, 5, 6]
    assert items(receiver="shop", since=NOW) == [2, 3, 5, 6]
    assert items(receiver="shop", items=(2, 5, 9)) == [2, 5], "the last one was sent meanwhile"
    assert items(receiver="sho") == []
