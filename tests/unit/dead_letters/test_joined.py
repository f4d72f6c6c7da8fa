"""A journal that was divided: each dead item is in the list of one shard, whenever it died and whoever looks when."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from core.decision import Decision
from core.routing import Shard
from dead_letters.dead_letter_index import DeadLetterIndex
from dead_letters.listing import Filter
from tests.dead_items import DeadItems, seqs

ALL = Filter(states=())
OF_ENTITY = [Shard(number, 2).has_entity for number in range(2)]


@pytest.fixture
def items(tmp_path: Path) -> DeadItems:
    """Open ones of both shards, one that was closed, one that waits, and one without an entity."""
    items = DeadItems(tmp_path)
    items.deaths(20)
    items.then(items.dead(), Decision.PURGED, decided_at=items.now)
    items.dead(payment="pi_x")
    items.parked("pi_x")
    items.dead(entity_key=None, event_key=None)
    items.commit()
    return items


def listed(index: DeadLetterIndex) -> dict[int, str | None]:
    return {item.item_seq: item.entity_key for item in index.page(ALL).items}


def counted(*indexes: DeadLetterIndex) -> Counter[str]:
    """Open and waiting items, and the open ones of each class: from the table of counts."""
    found: Counter[str] = Counter()
    for stats in (index.stats() for index in indexes):
        found.update({"open": stats.open, "waiting": stats.waiting})
        found.update({one.value or "": one.items for one in stats.by_class})
    return found


@pytest.mark.parametrize("is_known_before", [True, False])
def test_each_item_is_in_the_list_of_one_shard(items: DeadItems, is_known_before: bool) -> None:
    whole = items.followed()
    before, figures = listed(whole), counted(whole)
    if not is_known_before:
        items.index_is_lost()
    other = items.divided()
    indexes = [items.followed(), other.followed()]
    found = [listed(index) for index in indexes]
    assert found[0] | found[1] == before
    assert not found[0].keys() & found[1].keys()
    assert all(is_its(key) for one, is_its in zip(found, OF_ENTITY, strict=True) for key in one.values() if key)
    assert [key for one in found for key in one.values()].count(None) == 1
    assert None in found[0].values()
    assert counted(*indexes) == figures


def test_rows_that_come_later_are_the_shard_s_that_wrote_them(items: DeadItems) -> None:
    other = items.divided()
    indexes = [items.followed(), other.followed()]
    for one, index in zip((items, other), indexes, strict=True):
        own = index.page(Filter(), limit=1).items[0]
        one.then(one.row_at(own.item_seq), Decision.REPLAYED, Decision.APPLIED, decided_at=one.now)
        for number in range(10):
            entity = f"stripe:acct:pi_new_{number}"
            if Shard(one.shard, 2).has_entity(entity):
                one.dead(entity_key=entity)
        one.commit()
        index.follow()
    new = [[item.entity_key for item in index.page(Filter(text="pi_new")).items] for index in indexes]
    assert sorted(key for one in new for key in one if key) == [f"stripe:acct:pi_new_{number}" for number in range(10)]
    assert all(new)
    assert counted(*indexes)["open"] == 22 + 10 - 2


def test_an_index_that_is_made_again_says_the_same(items: DeadItems) -> None:
    other = items.divided()
    before = [listed(one.followed()) for one in (items, other)]
    for one in (items, other):
        one.index_is_lost()
    assert [listed(one.followed()) for one in (items, other)] == before


def test_a_shard_is_divided_once_more(items: DeadItems) -> None:
    """From two to four: what the first of two had is the first's and the third's of four."""
    other = items.divided()
    before = listed(items.followed())
    items.ledger.divide(Shard(0, 4), items.now, is_copy=False)
    after = listed(items.followed())
    assert after == {seq: key for seq, key in before.items() if key is None or Shard(0, 4).has_entity(key)}
    assert 0 < len(after) < len(before)
    assert seqs(other.followed().page(ALL).items) != []
