"""What one batch takes up again keeps to one budget, and what is beyond it loses neither its turn nor its order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from journal.schema import JournalRow
from journal.target import ItemTarget
from processor.settings import DeadHead
from tests.unit.processor.fakes import Stuck
from tests.unit.processor.harness import Engine
from tests.unit.processor.ordering import run_order

LIMIT = 150
ENTITIES, FOLLOWERS = 60, 40
BATCHES_MAX = 200

Make = Callable[..., Engine]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Make]:
    made: list[Engine] = []

    def make(limit: int = LIMIT, dead_head: DeadHead = DeadHead.WAIT, bytes_max: int = 1 << 30) -> Engine:
        one = Engine(tmp_path, dead_head=dead_head, drain_per_entity_max=10_000)
        one.rules = replace(one.rules, due_per_batch_max=limit, due_bytes_max=bytes_max)
        one.start()
        made.append(one)
        return one

    yield make
    for one in made:
        one.index.close()


def stuck_lines(engine: Engine, entities: int, followers: int, tries: int = 1, content: str = "") -> list[list[str]]:
    """Events by entity; the first of each fails at first, and the others wait behind it."""
    lines = []
    for number in range(entities):
        line = [engine.post(f"evt_{number}_{n}", f"e{number}", content) for n in range(followers + 1)]
        engine.handler.fails(line[0], Stuck("no answer"), times=tries)
        lines.append(line)
    engine.batch()
    engine.clock.advance(1)
    return lines


def tried(rows: list[JournalRow]) -> list[JournalRow]:
    """Without those that wake the next one behind, and the end of a run."""
    return [row for row in rows if row.decision not in ("parked", "portion")]


def in_order(engine: Engine, lines: list[list[str]]) -> bool:
    applied = [row.event_key for row in engine.journal.rows if row.decision == "applied"]
    return all([key for key in applied if key in set(line)] == line for line in lines)


@pytest.mark.parametrize("limit", [1, 2, 3, 10, LIMIT])
def test_followers_of_many_entities_keep_to_one_limit_and_all_get_their_turn_in_order(engine: Make, limit: int) -> None:
    stream = engine(limit)
    entities, followers = (ENTITIES, FOLLOWERS) if limit == LIMIT else (5, 4)
    lines = stuck_lines(stream, entities, followers)
    for _ in range(BATCHES_MAX):
        rows = stream.advance(0.01)
        assert len(tried(rows)) <= limit
        assert len(rows) <= 2 * limit
        if not rows:
            break
    assert in_order(stream, lines)


def test_a_small_line_does_not_wait_until_the_large_ones_are_done(engine: Make) -> None:
    stream = engine()
    stuck_lines(stream, 3, 1_000)
    small = stream.post("evt_small", "small")
    stream.handler.fails(small, Stuck("no answer"), times=1)
    stream.batch()
    stream.clock.advance(1)
    for _ in range(4):
        stream.advance(0.01)
    assert stream.decisions(small)[-1] == "applied"


def test_what_arrives_for_an_entity_beyond_the_budget_waits_behind_it(engine: Make) -> None:
    stream = engine(2)
    lines = stuck_lines(stream, 3, 0)
    for number, line in enumerate(lines):
        line.append(stream.post(f"evt_late_{number}", f"e{number}"))
    for _ in range(BATCHES_MAX):
        stream.advance(0.01)
    assert in_order(stream, lines)


def test_bodies_keep_to_a_limit_too(engine: Make) -> None:
    stream = engine(bytes_max=10_000)
    lines = stuck_lines(stream, 5, 9, content="x" * 1_000)
    taken = []
    while rows := stream.advance(0.01):
        taken.append(sum(row.decision == "applied" for row in rows))
    assert max(taken) <= 11
    assert in_order(stream, lines)


def test_what_a_purge_releases_keeps_to_the_limit(engine: Make) -> None:
    stream = engine()
    lines = stuck_lines(stream, 10, 200, tries=10**6)
    for _ in range(6):
        stream.advance(20)
    dead = stream.dead_letters.published
    assert len(dead) == len(lines), "each had its tries, however much waits behind the others"
    decided = run_order(stream, "purge", *(ItemTarget.of_row(row) for row in dead))
    assert decided.refusals == ""
    woken = [row for row in stream.journal.rows if "which held it back, was purged" in (row.reason or "")]
    assert len(woken) == len(lines)
    while rows := stream.advance(0.01):
        assert len(tried(rows)) <= LIMIT
    assert in_order(stream, [line[1:] for line in lines])
