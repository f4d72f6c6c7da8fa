"""The board's values as JSON: what the command line and the API print. Fields are added, never renamed or taken away.

Times are RFC 3339 in UTC, amounts in minor units with their currency's decimals, durations in seconds.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from core.clock import to_rfc3339
from core.money import decimals_of
from dlq.index.item import Item
from dlq.index.listing import Page
from dlq.index.payload import Payload
from dlq.index.stats import Group, Stats
from dlq.index.story import ItemStory, Some


def item_told(item: Item) -> dict[str, Any]:
    """One item; ``amount_minor``, ``currency`` and ``decimals`` are null where nobody knows the amount."""
    told = _fields(item)
    del told["amount"]
    money = item.amount
    return told | {
        "amount_minor": money.amount_minor if money is not None else None,
        "currency": money.currency if money is not None else None,
        "decimals": decimals_of(money.currency) if money is not None else None,
    }


def page_told(page: Page) -> dict[str, Any]:
    """``items``; ``next``: the cursor of the next page, or null; ``total`` of the filter; ``seq``: as of which row."""
    return {
        "items": [item_told(item) for item in page.items],
        "next": page.next,
        "total": page.total,
        "seq": page.seq,
    }


def stats_told(stats: Stats) -> dict[str, Any]:
    """The statistics; ``time_to_clear_s`` is null where open items don't become fewer."""
    told = _fields(stats)
    clear = told.pop("time_to_clear")
    return told | {"time_to_clear_s": clear}


def groups_told(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """The groups, the largest first."""
    return [_fields(group) for group in groups]


def story_told(story: ItemStory) -> dict[str, Any]:
    """One item with everything that is known of it."""
    told = {name: _plain(getattr(story, name)) for name in ("stream", "cut", "attempts", "acts", "headers")}
    return told | {
        "item": item_told(story.item),
        "rows": [_fields(row) for row in story.rows],
        "payload": _payload(story.payload),
        "before": _plain(story.before),
        "after": _plain(story.after),
        "held": _some(story.held),
        "alike": _some(story.alike),
    }


def _payload(payload: Payload) -> dict[str, Any]:
    """``text`` is null where the bytes aren't UTF-8; ``base64`` has them always."""
    raw = payload.raw
    try:
        text = raw.decode("utf-8") if raw is not None else None
    except UnicodeDecodeError:
        text = None
    encoded = base64.b64encode(raw).decode("ascii") if raw is not None else None
    return {"text": text, "base64": encoded, "source": payload.source, "told": payload.told}


def _some(some: Some) -> dict[str, Any]:
    return {"total": some.total, "items": [item_told(item) for item in some.items]}


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return to_rfc3339(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value
