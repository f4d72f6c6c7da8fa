"""The whole stream is blocked, or one event says so: an outage costs no attempt, one event costs one event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.decision import ErrorKind
from core.work import DOWNSTREAM_CHARS_MAX, Outcome, WorkItem, calling
from journal.writer import NOTES_CHARS_MAX
from processor.calls.downstreams import NOTE_CHARS_MAX
from processor.decide.blocked import ANY, NEEDS_MAX, NOTE, Blocked
from processor.errors.classify import MESSAGE_CHARS_MAX, Failure
from processor.errors.retry import parse_policy
from processor.workers.worker_pool import BLOCKED_IN_A_ROW
from tests.unit.processor.fakes import Down, Stuck, booked, ignored
from tests.unit.processor.harness import EVENTS, Engine
from tests.unit.processor.limited import LimitedEngine

OUTAGE = 20


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    one = Engine(tmp_path)
    yield one
    one.index.close()


@pytest.fixture
def calls_out(tmp_path: Path) -> Iterator[LimitedEngine]:
    one = LimitedEngine(tmp_path, parallelism=1, concurrency=1)
    yield one
    one.index.close()


def post_many(engine: Engine, count: int, account: str = "acct_1", first: int = 0) -> list[str]:
    """Events of entities of their own."""
    return [engine.post(f"evt_{account}_{n}", f"{account}_{n}", account=account) for n in range(first, first + count)]


@pytest.mark.parametrize("letter", ["x", '"', "東", "\U00020000"])
def test_the_note_of_a_block_leaves_room_for_the_journals_others(letter: str) -> None:
    """A batch whose notes are too long can't be committed, at any start."""
    called = [f"{number:02}{letter * (DOWNSTREAM_CHARS_MAX - 2)}" for number in range(NEEDS_MAX)]
    message = letter * MESSAGE_CHARS_MAX
    failures = [Failure(ErrorKind.SBE, "Down", None, message, "", called=(name,)) for name in called]
    blocked = Blocked().after_failures(failures, parse_policy("forever(1s)"))
    note = blocked.make_note()
    assert len(note[NOTE]) <= NOTES_CHARS_MAX - NOTE_CHARS_MAX - 8_192
    assert Blocked.from_notes(note).needs == blocked.needs
    assert blocked.needs == (frozenset(called) if letter == "x" else {ANY})


def everything_is_down(engine: Engine) -> None:
    engine.handler.down_for = lambda _: True


def everything_works(engine: Engine) -> None:
    engine.handler.down_for = lambda _: False


@pytest.mark.row("E4")
def test_in_an_outage_every_offset_has_its_row_no_attempt_is_spent_and_few_calls_are_made(engine: Engine) -> None:
    first = engine.post("evt_0", "e0")
    engine.batch()
    everything_is_down(engine)
    keys = post_many(engine, OUTAGE)
    engine.batch()
    assert engine.batches.is_blocked
    assert engine.decisions(first) == ["applied"]
    assert {word for key in keys for word in engine.decisions(key)} == {"parked"}
    assert engine.handler.calls == [first, *keys[:BLOCKED_IN_A_ROW]]
    calls = len(engine.handler.calls)
    engine.run(600)
    assert len(engine.handler.calls) - calls <= 20
    everything_works(engine)
    engine.run(120)
    assert not engine.batches.is_blocked
    assert [engine.decisions(key)[-1] for key in keys] == ["applied"] * OUTAGE
    assert {row.attempt for row in engine.journal.rows} == {0}
    assert engine.dead_letters.published == []


def test_probes_come_at_once_and_then_further_and_further_apart(engine: Engine) -> None:
    everything_is_down(engine)
    post_many(engine, OUTAGE)
    engine.batch()
    waits = []
    for _ in range(9):
        waits.append(engine.batches.probe_s)
        engine.clock.advance(engine.batches.probe_s)
        assert len(engine.probe()) == 1
    assert waits == [0, 1, 2, 4, 8, 16, 32, 60, 60]


def test_an_event_that_always_blocks_costs_only_itself(engine: Engine) -> None:
    """Others arrive while it is the only one that waits: they are what tells."""
    bad = engine.post("evt_bad", "bad")
    engine.handler.fails(bad, Down("statement timeout"))
    engine.batch()
    assert engine.batches.is_blocked
    engine.run(100)
    assert engine.batches.is_blocked, "nothing tells whose failure it is"
    others = post_many(engine, 5)
    engine.run(5)
    assert not engine.batches.is_blocked
    assert [engine.decisions(key) for key in others] == [["applied"]] * 5
    engine.run(120)
    assert engine.decisions(bad)[-7:] == ["parked", *["retry"] * 5, "dead"]
    [dead] = engine.dead_letters.published
    assert (dead.event_key, dead.attempt, dead.error_kind) == (bad, 5, "SBE")


def test_an_event_behind_it_in_the_batch_clears_the_stream_at_once(engine: Engine) -> None:
    bad, *others = engine.post("evt_bad", "bad"), *post_many(engine, 30)
    engine.handler.fails(bad, Down("statement timeout"))
    engine.batch()
    assert not engine.batches.is_blocked
    assert engine.decisions(bad) == ["retry"]
    assert [engine.decisions(key) for key in others] == [["applied"]] * 30
    assert engine.journal.rows[0].attempt == 1


def test_an_accounts_events_do_not_keep_those_of_other_accounts(engine: Engine) -> None:
    """401 for one account: all that waits is its own, and there is much of it."""
    engine.handler.down_for = lambda item: item.account == "acct_bad"
    post_many(engine, 40, "acct_bad")
    engine.batch()
    assert engine.batches.is_blocked
    others = [
        key
        for n in range(40)
        for key in (*post_many(engine, 1, "acct_good", n), *post_many(engine, 1, "acct_bad", 40 + n))
    ]
    engine.run(200)
    assert [engine.decisions(key)[-1] for key in others if "good" in key] == ["applied"] * 40
    assert {row.account for row in engine.dead_letters.published} == {"acct_bad"}


def test_no_other_event_is_dead_lettered_by_one_that_blocks(engine: Engine) -> None:
    bad = engine.post("evt_bad", "bad")
    follower = engine.post("evt_follower", "bad")
    engine.handler.fails(bad, Down("401"))
    others = post_many(engine, 5)
    engine.run(200)
    assert engine.decisions(bad)[-1] == "dead"
    assert engine.decisions(follower)[-1] == "parked"
    assert [engine.decisions(key)[-1] for key in others] == ["applied"] * 5
    assert [row.event_key for row in engine.dead_letters.published] == [bad]


def test_a_stream_of_which_nothing_waits_any_more_goes_on(engine: Engine) -> None:
    engine.journal.notes["blocked"] = '{"reason": "Down: no answer", "probe_s": 4.0}'
    engine.start()
    assert engine.batches.is_blocked
    engine.probe()
    assert not engine.batches.is_blocked


def test_orders_leave_a_stream_blocked(engine: Engine) -> None:
    engine.handler.fails(engine.post("evt_1"), Down("401"))
    engine.batch()
    engine.replay([(17, 17)], "c1")
    [row] = engine.obey()
    assert (row.decision, row.topic) == ("ignored", "payments.control")
    assert engine.obey() == []
    assert engine.batches.is_blocked
    engine.start()
    assert engine.batches.is_blocked


def test_a_stream_that_was_blocked_is_so_after_a_restart_and_obeys(engine: Engine) -> None:
    everything_is_down(engine)
    keys = post_many(engine, 2)
    engine.batch()
    engine.start()
    assert engine.batches.is_blocked
    assert engine.batches.status()["blocked"] == "Down: 401 Unauthorized"
    assert engine.batches.probe_s == 1.0
    engine.replay([(17, 17)], "c1")
    [row] = engine.obey()
    assert row.topic == "payments.control"
    engine.probe()
    assert engine.batches.is_blocked and engine.batches.probe_s == 2.0
    everything_works(engine)
    engine.probe()
    assert not engine.batches.is_blocked
    engine.start()
    assert not engine.batches.is_blocked
    engine.advance(0)
    assert [engine.decisions(key)[-1] for key in keys] == ["applied", "applied"]


def test_a_note_of_an_earlier_version_is_understood(engine: Engine) -> None:
    engine.post("evt_1")
    engine.journal.notes["blocked"] = '{"reason": "Down: no answer", "probe_s": 4.0}'
    engine.start()
    assert engine.batches.is_blocked and engine.batches.probe_s == 4.0
    engine.probe()
    assert not engine.batches.is_blocked


def test_a_restart_forgets_neither_who_failed_nor_that_others_went_well(engine: Engine) -> None:
    bad = engine.post("evt_bad", "bad")
    engine.handler.fails(bad, Down("401"))
    engine.batch()
    engine.start()
    post_many(engine, 1)
    engine.probe()
    assert not engine.batches.is_blocked
    engine.start()
    [row] = engine.advance(1)
    assert (row.event_key, row.decision, row.attempt) == (bad, "retry", 1)


def test_a_probe_takes_no_more_of_what_is_read_than_the_event_that_it_tries(engine: Engine) -> None:
    engine.handler.down_for = lambda item: item.account == "acct_bad"
    post_many(engine, 1, "acct_bad")
    engine.batch()
    behind = post_many(engine, 2, "acct_bad", 1)
    good, *rest = post_many(engine, 3, "acct_good")
    rows = engine.probe()
    assert [(row.event_key, row.decision) for row in rows] == [
        *((key, "parked") for key in behind),
        (good, "applied"),
    ]
    assert engine.batches.committed_marks[EVENTS] == {0: 4}
    engine.batch()
    assert [engine.decisions(key) for key in rest] == [["applied"]] * 2


def test_a_follower_does_not_overtake_in_a_probe(engine: Engine) -> None:
    bad = engine.post("evt_bad", "e1")
    engine.handler.fails(bad, Down("401"))
    engine.batch()
    follower, other = engine.post("evt_follower", "e1"), engine.post("evt_other", "e2")
    engine.probe()
    assert engine.decisions(follower) == ["parked"]
    assert engine.batches.is_blocked
    engine.probe()
    assert engine.decisions(other) == ["applied"]
    assert not engine.batches.is_blocked


@pytest.mark.parametrize("word", ["ignored", "stuck"])
def test_what_nobody_handles_or_fails_otherwise_proves_nothing(engine: Engine, word: str) -> None:
    engine.handler.fails(engine.post("evt_bad", "bad"), Down("401"))
    other = engine.post("evt_other", "e2")
    if word == "ignored":
        engine.handler.script[other] = ignored
    else:
        engine.handler.fails(other, Stuck("no answer"))
    engine.batch()
    assert engine.batches.is_blocked
    assert {row.attempt for row in engine.journal.rows if row.event_key != other} == {0}


def asks_merchants(item: WorkItem) -> Outcome:
    with calling("merchants"):
        pass
    if item.account == "acct_bad":
        raise Down("401")
    return booked()


def asks_nobody(_: WorkItem) -> Outcome:
    return booked()


def test_only_an_event_that_needs_the_same_downstream_clears_the_stream(calls_out: LimitedEngine) -> None:
    engine = calls_out
    bad = engine.post("evt_bad", "bad", account="acct_bad")
    cached = engine.post("evt_cached", "e2")
    engine.handler.script = {bad: asks_merchants, cached: asks_nobody}
    engine.batch()
    assert engine.batches.is_blocked
    assert engine.decisions(cached) == ["applied"]
    also_cached = engine.post("evt_also_cached", "e3")
    engine.probe()
    assert engine.decisions(also_cached) == ["applied"]
    assert engine.batches.is_blocked
    asks = engine.post("evt_asks", "e4")
    engine.handler.script[asks] = asks_merchants
    engine.start()
    engine.probe()
    assert engine.decisions(asks) == ["applied"]
    assert not engine.batches.is_blocked
    engine.run(200)
    assert engine.decisions(bad)[-1] == "dead"


def test_in_one_batch_too_only_the_same_downstream_counts(calls_out: LimitedEngine) -> None:
    engine = calls_out
    bad, good = engine.post("evt_bad", "bad", account="acct_bad"), engine.post("evt_good", "e2")
    engine.handler.script = {bad: asks_merchants, good: asks_merchants}
    engine.batch()
    assert not engine.batches.is_blocked
    assert (engine.decisions(bad), engine.decisions(good)) == (["retry"], ["applied"])
