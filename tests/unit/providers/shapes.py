"""What the tests of one provider after the other do with bodies and requests."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from core.errors import Unparseable
from core.event import Event, Mode
from core.money import MoneyFact, MoneyInvalid
from providers import Adapter, Request, SignatureInvalid
from providers.money import WITHHELD, split_fee

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
NOW_S = 1_769_860_800


Source: TypeAlias = Mapping[str, str]
"""A row of SOURCES.tsv: what is known of one public sample."""


def sources(samples: Path) -> list[Source]:
    with (samples / "SOURCES.tsv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def changed(body: bytes, *path: str, to: Any) -> bytes:
    """The body with another value in one place; ``...`` takes the field away."""
    document = holder = json.loads(body)
    for step in path[:-1]:
        holder = holder[step]
    if to is ...:
        del holder[path[-1]]
    else:
        holder[path[-1]] = to
    return json.dumps(document).encode()


def refusal(adapter: Adapter, request: Request, *secrets: str, now: datetime = NOW) -> str | None:
    """Why a request is refused, None if it is proven."""
    try:
        adapter.verify(request, secrets, now)
    except SignatureInvalid as invalid:
        return invalid.reason
    return None


def only(adapter: Adapter, body: bytes, *headers: tuple[bytes, bytes], mode: Mode = "live") -> Event:
    """The event of a body. One of a lost dispute comes with an event of its own for the debit before the loss, and fees
    have events of their own.
    """
    *before, event = [one for one in adapter.events(Request(body, headers), mode) if not split_fee(one.event_type)[1]]
    assert [one.event_type for one in before] in ([], [event.event_type + WITHHELD])
    return event


def money(adapter: Adapter, body: bytes) -> MoneyFact | None:
    """What moved. The event is named with just that, and without a fact where it can't be told."""
    event = only(adapter, body)
    try:
        fact = adapter.money(body, event.event_type)
    except (MoneyInvalid, Unparseable):
        assert (event.fact_key, event.fact_sha256) == (None, None)
        raise
    assert (event.fact_key, event.fact_sha256) == ((fact.fact_key, fact.sha256) if fact else (None, None))
    assert fact is None or fact.fact_key.endswith(fact.movement.value)
    return fact
