"""One event that arrives in two versions of its provider's API."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from core.event import Event
from providers import ProvidersSettings, Request, build_adapters
from tests.contract.adapter_cases import CASES
from tests.unit.processor.harness import Engine

STRIPE = build_adapters(ProvidersSettings())["stripe"]
PAIRS = [pair[::way] for pair in CASES["stripe"].renderings() for way in (1, -1)]


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = Engine(tmp_path)
    engine.adapters["stripe"] = STRIPE
    return engine


def named(body: bytes) -> Event:
    (event,) = STRIPE.events(Request(body, []), "live")
    return event


def by_older_code(event: Event) -> Event:
    """As a receiver before content version 2 names it."""
    return replace(event, content_version=1, content_sha256=STRIPE.content_sha256(event.body, 1))


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_the_copy_in_the_other_version_is_a_duplicate(engine: Engine, one: bytes, other: bytes) -> None:
    assert engine.decided_together(named(one), named(other)) == ["applied", "duplicate"]
    engine.start()
    assert engine.decided_together(named(other)) == ["duplicate"]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_the_copy_with_another_amount_is_a_conflict(engine: Engine, one: bytes, other: bytes) -> None:
    document = json.loads(other)
    document["data"]["object"]["amount"] += 1
    assert engine.decided_together(named(one), named(json.dumps(document).encode())) == ["applied", "dead"]
    assert engine.journal.rows[-1].error_class == "EventConflict"


@pytest.mark.parametrize("body", [body for pair in CASES["stripe"].renderings() for body in pair])
def test_a_redelivery_by_a_receiver_of_the_other_code_is_a_duplicate(engine: Engine, body: bytes) -> None:
    """Either may be first while receivers are upgraded."""
    newer, older = named(body), by_older_code(named(body))
    assert engine.decided_together(older, newer) == ["applied", "duplicate"]
    engine.start()
    assert engine.decided_together(newer, older) == ["duplicate", "duplicate"]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_a_copy_that_an_older_receiver_names_is_compared_as_the_first_one_was(
    engine: Engine, one: bytes, other: bytes
) -> None:
    assert engine.decided_together(named(one), by_older_code(named(other))) == ["applied", "duplicate"]
    engine.start()
    assert engine.decided_together(by_older_code(named(other))) == ["duplicate"]
