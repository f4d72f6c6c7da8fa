"""What Kafka holds is compared with the rows that were decided from it: another record than that is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from journal.histories import History
from journal.schema import TopicRecord
from ledger.verify import Options
from tests.integration.ledger.conftest import EVENTS, Verify, World
from tests.integration.ledger.findings import only, problems

NAME = "records_are_those_decided"
DEEP = Options(deep=True)


@pytest.mark.parametrize("options", [Options(), DEEP], ids=["some", "every"])
def test_records_of_the_rows_hold(report: Verify, world: World, options: Options) -> None:
    world.kafka.held[EVENTS][0] = (102, 105)
    [found] = [one for one in report(NAME, options=options).findings if one.name == NAME]
    assert (found.offenders, found.figures["held"], found.figures["no_longer_held"]) == ((), 9, 2)
    assert found.figures["compared"] == 9


@pytest.mark.parametrize("options", [Options(), DEEP], ids=["some", "every"])
def test_another_record_is_named_with_its_row(report: Verify, world: World, options: Options) -> None:
    """Kafka's folder was put back from an older copy, and has grown past the mark since."""
    world.kafka.planted[EVENTS, 1, 3] = TopicRecord(3, b"another event", ())
    world.rewrite()
    [one] = only(report(NAME, options=options), NAME).offenders
    assert (one["topic"], one["partition"], one["offset"], one["row"]) == (EVENTS, 1, 3, 9)
    assert "another record" in one["problem"] and "payhook recover" in one["problem"]


@pytest.mark.parametrize("name", ["event_key", "received_at"])
@pytest.mark.parametrize("options", [Options(), DEEP], ids=["some", "every"])
def test_the_same_body_of_another_event_is_named(report: Verify, world: World, name: str, options: Options) -> None:
    row = world.row(8)
    texts = {"event_key": "stripe:evt_99:charge", "received_at": "2026-01-30T00:00:00Z"}
    body = world.kafka.bodies[row.body_sha256]
    world.kafka.planted[EVENTS, 0, 103] = TopicRecord(103, body, ((name, texts[name].encode()),))
    assert "another record" in problems(only(report(NAME, options=options), NAME))


@pytest.mark.parametrize("options", [Options(), DEEP], ids=["some", "every"])
def test_a_record_that_is_missing_between_others_is_named(report: Verify, world: World, options: Options) -> None:
    world.kafka.planted[EVENTS, 0, 103] = None
    assert "no record" in problems(only(report(NAME, options=options), NAME))


def test_a_topic_that_was_created_again_is_named(report: Verify, world: World) -> None:
    world.state = replace(world.state, histories={EVENTS: History(topic_id="id-1")})
    world.kafka.ids = {EVENTS: "id-2"}
    world.rewrite()
    assert "isn't the one that was read" in problems(only(report(NAME), NAME))
