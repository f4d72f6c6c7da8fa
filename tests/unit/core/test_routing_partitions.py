"""Which partition an entity's events are on."""

from __future__ import annotations

import pytest

from core.routing import partition_of, topics_of

LIVE = topics_of("live")


@pytest.mark.parametrize(("key", "partition"), [(b"stripe:pi_1", 8), (b"adyen:Shop/A", 37), (b"", 0)])
def test_an_entity_stays_where_it_is_from_version_to_version(key: bytes, partition: int) -> None:
    """Known answers: another function would move entities, and lose their order."""
    assert partition_of(LIVE.events, key, 48) == partition


def test_commands_have_one_partition_and_other_topics_are_not_ours_to_divide() -> None:
    assert partition_of(LIVE.control, b"command", 48) == 0
    assert partition_of(LIVE.receipts, b"", 48) is None
    assert partition_of("orders", b"order_1", 48) is None
