"""One entity's open events, read beside the index's writer."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from rocksdict import WriteBatch

from core.decision import Decision
from journal import index_layout as layout
from journal.entity_queue import EntityQueue, open_beside_its_writer, read_entity
from journal.errors import IndexUnreadable
from journal.index import Index
from tests.unit.journal.rows import NOW, row


def opened(root: Path) -> Index:
    """A head that is retried, one behind it, one that died and was passed over, a conflict, and another entity's."""
    index = Index.open(root, 1)
    due = NOW + timedelta(seconds=4)
    rows = [
        row(1, entity_key="e1", decision=Decision.DEAD, error_class="ZeroDivisionError", handler_version="1"),
        row(
            2, entity_key="e1", decision=Decision.RETRY, attempt=2, due_at=due, reason="Stuck: no answer", blocking=True
        ),
        row(3, entity_key="e1", decision=Decision.PARKED, reason="behind an earlier event", blocking=True),
        row(4, entity_key="e1", decision=Decision.DEAD, error_class="EventConflict"),
        row(5, entity_key="e2", decision=Decision.DEAD, error_class="Bug", handler_version="1", blocking=True),
        row(6, entity_key="e1"),
    ]
    index.apply_rows(rows, {})
    return index


def test_an_entitys_open_events_are_in_kafkas_order_with_their_places(tmp_path: Path) -> None:
    index = opened(tmp_path)
    queue = read_entity(tmp_path, "e1")
    reported = [
        (item.row.item_seq, queue.describe_place(item), item.row.attempt, item.row.reason) for item in queue.items
    ]
    assert reported == [
        (1, "beside", 0, None),
        (2, "head", 2, "Stuck: no answer"),
        (3, "waits", 0, "behind an earlier event"),
        (4, "beside", 0, None),
    ]
    assert (queue.seq, queue.total, queue.head, queue.previous_dead, queue.find_dead_head()) == (6, 4, 2, True, None)
    held = read_entity(tmp_path, "e2").find_dead_head()
    assert held is not None and held.row.item_seq == 5
    index.close()


def test_an_entity_with_nothing_open_is_an_empty_queue(tmp_path: Path) -> None:
    opened(tmp_path).close()
    assert read_entity(tmp_path, "e3") == EntityQueue("e3", 6, 0, None, ())


def test_it_is_said_when_there_is_no_index_or_one_of_another_version(tmp_path: Path) -> None:
    with pytest.raises(IndexUnreadable, match="there is none"):
        read_entity(tmp_path, "e1")
    with pytest.raises(IndexUnreadable, match="there is none"):
        open_beside_its_writer(tmp_path)
    index = opened(tmp_path)
    batch = WriteBatch(raw_mode=True)
    batch.put(layout.TABLE, b"2:table-1")
    index._store.write(batch)
    index.close()
    with pytest.raises(IndexUnreadable, match="another version"):
        read_entity(tmp_path, "e1")
