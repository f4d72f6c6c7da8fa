"""A purged event's key may be another content's since: the index is right in that, and cleared without a search."""

from __future__ import annotations

from typing import Any

import pytest

from core.decision import Decision
from core.keys import hash_key
from journal import index_layout as layout
from ledger.verify.derived_checks import IndexEqualsJournal
from ledger.verify.engine import SqlEngine
from tests.integration.ledger.conftest import CONTROL, EVENTS, World, later_row, new_row
from tests.integration.ledger.findings import problems

KEY = "stripe:evt_7:charge"


@pytest.fixture
def purged(world: World) -> World:
    """Row 12 died and is purged; other content under its key, refused as a conflict, is replayed and applied."""
    refused: dict[str, Any] = {"error_class": "EventConflict", "handler_version": None}
    better = new_row(15, EVENTS, 0, 105, Decision.DEAD, "evt_7", content="better", **refused)
    world.add_commit(
        better,
        new_row(16, CONTROL, 0, 1, Decision.PURGED, "cmd_2"),
        later_row(world.row(12), 17, Decision.PURGED, cause_seq=16),
        new_row(18, CONTROL, 0, 2, Decision.REPLAYED, "cmd_3"),
        later_row(better, 19, Decision.REPLAYED, cause_seq=18),
        later_row(better, 20, Decision.APPLIED, error_class=None, handler_version="ledger-1"),
    )
    world.index_commit()
    world.rewrite()
    return world


def test_a_key_that_went_over_to_other_content_is_right(engine: SqlEngine, purged: World) -> None:
    assert purged.verify(engine, IndexEqualsJournal.name).ok


def test_a_key_that_went_over_to_anything_else_is_found(engine: SqlEngine, purged: World) -> None:
    purged.index(lambda index: index._store._db.delete(layout.EVENT + hash_key(KEY)))
    assert "doesn't know an event key" in problems(purged.verify(engine, IndexEqualsJournal.name).findings[0])
