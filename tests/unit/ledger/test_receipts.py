"""Receipts go from their topic into a table, each once, whatever breaks off in between."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from deltalake import DeltaTable

from core.clock import from_rfc3339
from journal.kafka_log import Held, KafkaSilent, TopicMissing
from journal.log import Overtaken
from journal.schema import TopicRecord
from ledger.receipts import (
    AnsweredEvent,
    CollectionResult,
    ReceiptsTable,
    collect_new_receipts,
    read_answered_since,
    read_uncollected,
)

BEFORE = datetime(2026, 1, 31, tzinfo=UTC)
AT = "2026-01-31T12:00:00.000000Z"


def receipt(key: str, outcome: str = "claimed", status: int = 200) -> bytes:
    reported = {"provider": "stripe", "event_key": key, "outcome": outcome, "status": status, "at": AT}
    return orjson.dumps({**reported, "content_sha256": "ab" * 32})


@dataclass
class ListTopic:
    """A topic in memory. ``breaks_at``: Kafka stops answering before this offset."""

    kept: dict[int, list[bytes]]
    low: dict[int, int] = field(default_factory=dict)
    breaks_at: int | None = None

    def read_held_offsets(self, topics: Sequence[str]) -> Held:
        if not self.kept:
            raise TopicMissing(topics[0])
        ends = {number: (self.low.get(number, 0), len(records)) for number, records in self.kept.items()}
        return dict.fromkeys(topics, ends)

    def records(self, topic: str, partition: int, since: int, until: int) -> Iterator[TopicRecord]:
        for offset in range(since, until):
            if offset == self.breaks_at:
                raise KafkaSilent("gone")
            yield TopicRecord(offset, self.kept[partition][offset])


def collected(topic: ListTopic, table: ReceiptsTable, **limits: int) -> CollectionResult:
    return collect_new_receipts(topic, "receipts", table, **limits)


@pytest.fixture
def table(tmp_path: Path) -> ReceiptsTable:
    return ReceiptsTable(str(tmp_path / "receipts"))


def rows(table: ReceiptsTable) -> list[dict[str, Any]]:
    order = [(name, "ascending") for name in ("partition", "offset", "line")]
    read = DeltaTable(table.path).to_pyarrow_dataset().to_table().sort_by(order)
    found: list[dict[str, Any]] = read.to_pylist()
    return found


def keys(table: ReceiptsTable) -> list[str | None]:
    return [row["event_key"] for row in rows(table)]


@pytest.mark.row("A16")
def test_every_line_of_every_record_is_a_row_with_its_place(table: ReceiptsTable) -> None:
    topic = ListTopic({0: [receipt("a") + b"\n" + receipt("b", "duplicate"), receipt("c", "not_published", 503)]})
    assert collected(topic, table) == CollectionResult(rows=3)
    assert [(row["offset"], row["line"], row["outcome"], row["status"]) for row in rows(table)] == [
        (0, 0, "claimed", 200),
        (0, 1, "duplicate", 200),
        (1, 0, "not_published", 503),
    ]
    assert rows(table)[0]["at"].isoformat() == "2026-01-31T12:00:00+00:00"


def names(found: Sequence[AnsweredEvent]) -> list[str]:
    return [one.event_key for one in found]


def test_answers_are_found_in_the_table_and_behind_it_in_the_topic(table: ReceiptsTable) -> None:
    topic = ListTopic({0: [receipt("a")], 1: []})
    collected(topic, table)
    topic.kept[0] += [receipt("b") + b"\n" + receipt("refused", "too_large", 413), b"no receipt", receipt("a")]
    topic.kept[1] += [receipt("c")]
    assert names(read_answered_since(Path(table.path), BEFORE)) == ["a"]
    found = read_answered_since(Path(table.path), BEFORE, read_uncollected(topic, "receipts", table))
    assert sorted(names(found)) == ["a", "b", "c"]
    assert keys(table) == ["a"], "looking collects nothing"
    late = from_rfc3339(AT) + timedelta(seconds=1)
    assert read_answered_since(Path(table.path), late, read_uncollected(topic, "receipts", table)) == []


def test_answers_are_found_where_nothing_was_ever_collected_or_the_topic_went_back(table: ReceiptsTable) -> None:
    topic = ListTopic({0: [receipt("a"), receipt("b")]})
    assert names(read_answered_since(Path(table.path), BEFORE, read_uncollected(topic, "receipts", table))) == [
        "a",
        "b",
    ]
    collected(topic, table)
    topic.kept[0] = [receipt("a"), receipt("other")]
    assert names(read_answered_since(Path(table.path), BEFORE, read_uncollected(topic, "receipts", table))) == [
        "a",
        "b",
        "other",
    ]
    assert list(read_uncollected(ListTopic({}), "receipts", table)) == []


def test_a_later_collection_takes_what_came_since(table: ReceiptsTable) -> None:
    topic = ListTopic({0: [receipt("a")], 1: [receipt("b")]})
    collected(topic, table)
    topic.kept[1].append(receipt("c"))
    assert collected(topic, table) == CollectionResult(rows=1)
    assert collected(topic, ReceiptsTable(table.path)) == CollectionResult(rows=0)
    assert keys(table) == ["a", "b", "c"]


def test_what_was_committed_before_kafka_stopped_stays_and_nothing_is_there_twice(table: ReceiptsTable) -> None:
    topic = ListTopic({0: [receipt(name) for name in "abcd"]}, breaks_at=3)
    with pytest.raises(KafkaSilent):
        collected(topic, table, rows_per_commit=2)
    assert keys(table) == ["a", "b"]
    topic.breaks_at = None
    collected(topic, table)
    assert keys(table) == ["a", "b", "c", "d"]


def test_a_record_is_never_torn_between_two_commits(table: ReceiptsTable) -> None:
    topic = ListTopic({0: [b"\n".join(receipt(name) for name in "abc"), receipt("d")]})
    collected(topic, table, rows_per_commit=1)
    assert DeltaTable(table.path).version() == 2
    assert keys(table) == ["a", "b", "c", "d"]


def test_two_collectors_at_once_write_nothing_twice(table: ReceiptsTable) -> None:
    """The second one read the same records before the first one's commit."""
    topic = ListTopic({0: [receipt("a")]})
    collected(topic, table)
    topic.kept[0].append(receipt("b"))
    collected(topic, ReceiptsTable(table.path))
    late = DeltaTable(table.path).to_pyarrow_dataset().to_table().slice(0, 1)
    with pytest.raises(Overtaken):
        table.append(0, late, 2)
    assert keys(table) == ["a", "b"]


def test_records_that_were_gone_before_are_counted(table: ReceiptsTable) -> None:
    topic = ListTopic({0: [receipt(name) for name in "abcd"]})
    collected(ListTopic({0: topic.kept[0][:1]}), table)
    topic.low[0] = 3
    assert collected(topic, table) == CollectionResult(rows=1, lost=2)


def test_a_first_collection_of_an_old_topic_has_lost_nothing(table: ReceiptsTable) -> None:
    topic = ListTopic({0: [receipt(name) for name in "abcd"]}, low={0: 2})
    assert collected(topic, table) == CollectionResult(rows=2)


@pytest.mark.parametrize(
    "line", [b"", b"{}", b"[]", b"\xff", b'{"outcome": "claimed", "status": "x", "at": "noon"}', b"7", b"null"]
)
def test_a_line_that_is_no_receipt_is_kept_as_one_that_nobody_can_read(table: ReceiptsTable, line: bytes) -> None:
    collected(ListTopic({0: [line + b"\n" + receipt("a")]}), table)
    assert [row["outcome"] for row in rows(table)] == ["unreadable", "claimed"]


def test_nothing_to_collect_makes_no_table(table: ReceiptsTable) -> None:
    assert collected(ListTopic({}), table) == CollectionResult()
    assert collected(ListTopic({0: []}), table) == CollectionResult()
    assert not DeltaTable.is_deltatable(table.path)


def test_a_topic_that_went_back_is_collected_from_where_it_parts(table: ReceiptsTable) -> None:
    """An older copy of Kafka's folder was put back: what comes gets numbers that were collected already."""
    collected(ListTopic({0: [receipt(name) for name in "abcdef"]}), table)
    back = ListTopic({0: [receipt(name) for name in "abc"]})
    assert collected(back, table) == CollectionResult(again=3)
    back.kept[0] += [receipt("x"), receipt("y")]
    assert collected(back, table) == CollectionResult(rows=2)
    back.kept[0].append(receipt("z"))
    assert collected(back, table) == CollectionResult(rows=1)
    assert sorted(key or "" for key in keys(table)) == sorted("abcdefxyz")


def test_a_topic_that_went_back_and_grew_past_the_mark_is_found_out(table: ReceiptsTable) -> None:
    collected(ListTopic({0: [receipt(name) for name in "abcdef"]}), table)
    other = ListTopic({0: [receipt(name) for name in "abcuvwxyz"]})
    assert collected(other, table) == CollectionResult(rows=6, again=3)
    assert collected(other, table) == CollectionResult()
    assert sorted(key or "" for key in keys(table)) == sorted("abcdefuvwxyz")


def test_another_topic_is_collected_from_its_start(table: ReceiptsTable) -> None:
    collected(ListTopic({0: [receipt(name) for name in "abc"]}), table)
    assert collected(ListTopic({0: []}), table) == CollectionResult(again=3)
    assert collected(ListTopic({0: [receipt("d")]}), table) == CollectionResult(rows=1)
