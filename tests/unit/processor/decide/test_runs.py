"""A run of a frozen selection: each item once, through crashes, pauses and live traffic that waits."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

import operations.frozen
from core.decision import Decision
from core.money import Money, MoneyFact, Movement
from operations import acceptance
from operations.command import CANCEL_RUN, PAUSE_RUN, PROPOSE_RUN, RESUME_RUN, ApprovedProposal, ReplayMode
from operations.commands import encode
from operations.frozen import RunState, command_id_of
from operations.limits import AloneLimits
from operations.refusals import RefusalReason
from processor.decide import runs
from processor.decide.two_people import HAVE_IT_APPROVED
from processor.settings import DeadHead
from tests.unit.processor.decide.selection_runs import command, dead, decisions, frozen, go, order, portions, taken
from tests.unit.processor.fakes import Crash, Stuck
from tests.unit.processor.harness import CONTROL, NOW, Engine


@pytest.fixture
def engine(three_items_a_portion: None, tmp_path: Path) -> Engine:
    return Engine(tmp_path)


def test_each_item_is_taken_once_and_the_rows_say_how_far_the_run_is(engine: Engine) -> None:
    dead(engine, 7)
    digest = frozen(engine)
    row = order(engine, digest)
    assert (row.decision, row.entity_key, row.actor) == (Decision.REPLAYED, f"payhook:{digest}", "ada")
    go(engine)
    assert decisions(engine) == {"applied": 7}
    assert [(one.upto, one.state, one.over) for one in portions(engine)] == [
        (3, RunState.RUNNING, False),
        (6, RunState.RUNNING, False),
        (7, RunState.SENT, False),
        (7, RunState.SENT, True),
    ]
    assert taken(engine, digest) == [3, 3, 1, 0]
    assert json.loads(engine.journal.notes["runs"]) == []
    begun = [one for one in engine.journal.rows if one.decision is Decision.PORTION]
    assert {one.item_seq for one in begun} == {row.item_seq}
    before = len(engine.journal.rows)
    go(engine, 3)
    assert len(engine.journal.rows) == before, "nothing more comes of a run that is over"


@pytest.mark.parametrize("crash", ["before", "after"])
@pytest.mark.parametrize("at", range(1, 7))
@pytest.mark.parametrize("keeps_index", [True, False])
def test_a_crash_at_any_commit_of_a_run_loses_nothing_and_repeats_nothing(
    engine: Engine, crash: str, at: int, keeps_index: bool
) -> None:
    dead(engine, 8)
    digest = frozen(engine)
    engine.send(CONTROL, encode(command(engine, digest)), [])
    for number in range(1, 14):
        engine.journal.crash = crash if number == at else ""
        pending = list(engine._pending)
        try:
            engine.advance(1)
        except Crash:
            engine.start(keeps_index=keeps_index)
            engine._pending = pending
            engine.pending()
    assert decisions(engine) == {"applied": 8}
    assert sum(taken(engine, digest)) == 8
    replayed = [row.item_seq for row in engine.journal.rows if row.decision is Decision.REPLAYED and not row.first]
    assert sorted(replayed) == list(range(1, 9))
    assert portions(engine)[-1].over


def test_what_was_refused_is_reported_by_code_and_fields_beyond_any_number(engine: Engine) -> None:
    dead(engine, 2, times=2)
    dead(engine, 1, times=9)
    first, digest = frozen(engine, [1]), frozen(engine)
    order(engine, first)
    go(engine, 4)
    engine.handler.fails(str(engine.journal.rows[1].event_key), Stuck("later"))
    engine.command(2, 2)
    engine.batch()
    go(engine, 1)
    order(engine, digest)
    go(engine, 3)
    refused = [one for reported in portions(engine) for one in reported.refused]
    assert [(one.item_seq, one.ground, dict(one.about)) for one in refused] == [
        (1, RefusalReason.MOVED, {"row": 1}),
        (2, RefusalReason.MOVED, {"row": 2}),
    ]
    assert refused[0].why_refused == "item 1 has moved on since row 1; look again"
    assert engine.decisions(str(engine.journal.rows[2].event_key))[-1] == "dead"


def test_the_loop_guard_is_reported_with_its_number(engine: Engine) -> None:
    dead(engine, 1, times=9)
    for _ in range(6):
        order(engine, frozen(engine))
        go(engine, 4)
    assert [one.why_refused for reported in portions(engine) for one in reported.refused] == [
        "item 1 was replayed 5 times and died each time: fix its cause, then replay it with force"
    ]
    order(engine, frozen(engine), force=True)
    go(engine, 2)
    assert engine.index.open_item(1).replays == 6  # type: ignore[union-attr]


def test_the_same_run_again_is_a_duplicate_and_so_is_any_other_of_that_selection(engine: Engine) -> None:
    dead(engine, 4)
    digest = frozen(engine)
    order(engine, digest)
    assert order(engine, digest).decision is Decision.DUPLICATE
    assert order(engine, digest, act="purge").decision is Decision.DUPLICATE
    go(engine)
    assert order(engine, digest).decision is Decision.DUPLICATE
    assert decisions(engine) == {"applied": 4}


def test_a_paused_run_takes_nothing_more_and_goes_on_when_it_is_resumed_by_another_process_too(engine: Engine) -> None:
    dead(engine, 9)
    digest = frozen(engine)
    order(engine, digest)
    engine.advance(1)
    assert order(engine, digest, PAUSE_RUN).decision is Decision.RESOLVED
    go(engine, 3)
    engine.start()
    go(engine, 3)
    assert decisions(engine) == {"applied": 3, "dead": 6}
    order(engine, digest, RESUME_RUN)
    go(engine)
    assert decisions(engine) == {"applied": 9}


def test_a_cancelled_run_leaves_the_rest_dead_for_good(engine: Engine) -> None:
    dead(engine, 9)
    digest = frozen(engine)
    order(engine, digest)
    engine.advance(1)
    assert order(engine, digest, CANCEL_RUN).decision is Decision.RESOLVED
    go(engine, 6)
    assert decisions(engine) == {"applied": 3, "dead": 6}
    reported = portions(engine)[-1]
    assert (reported.state, reported.upto, reported.over) == (RunState.CANCELLED, 3, True)
    for action in (PAUSE_RUN, RESUME_RUN):
        assert order(engine, digest, action).decision is Decision.IGNORED
    assert order(engine, digest).decision is Decision.DUPLICATE


def test_what_is_all_taken_can_not_be_cancelled_and_a_selection_without_a_run_neither(engine: Engine) -> None:
    dead(engine, 2)
    digest = frozen(engine)
    assert order(engine, digest, CANCEL_RUN).decision is Decision.IGNORED
    assert order(engine, digest, PAUSE_RUN).decision is Decision.IGNORED
    order(engine, digest)
    go(engine, 3)
    assert order(engine, digest, CANCEL_RUN).reason == "there is nothing left to cancel"


def test_a_rate_is_kept_from_batch_to_batch_and_within_a_portion(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    dead(engine, 30)
    digest = frozen(engine)
    order(engine, digest, per_s=4.0)
    for _ in range(5):
        engine.advance(1)
    assert taken(engine, digest) == [5, 4, 4, 4, 4]
    due = [row.due_at for row in engine.journal.rows if row.decision is Decision.REPLAYED and not row.first]
    steps = {(later - one).total_seconds() for one, later in pairwise(due[:9]) if one and later}
    assert steps <= {0.0, 0.25}
    engine.clock.advance(60)
    engine.batch()
    assert taken(engine, digest)[-1] == 9, "a pause isn't made up for: two seconds' worth at most"


@pytest.mark.row("B4")
def test_live_traffic_that_waits_makes_the_run_slower_and_it_recovers(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    dead(engine, 2_500)
    digest = frozen(engine)
    engine.backlog_s = 9.0
    order(engine, digest)
    for _ in range(3):
        engine.advance(1)
    assert taken(engine, digest) == [500, 125]
    engine.backlog_s = 0.0
    go(engine, 30)
    assert decisions(engine) == {"applied": 2_500}


def test_two_runs_share_what_live_traffic_leaves(engine: Engine) -> None:
    dead(engine, 8)
    one, other = frozen(engine, range(1, 5)), frozen(engine, range(5, 9))
    order(engine, one)
    order(engine, other)
    go(engine, 20)
    assert decisions(engine) == {"applied": 8}
    assert sum(taken(engine, one)) == sum(taken(engine, other)) == 4


def test_a_replay_with_followers_parts_no_entity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "WINDOW_FIRST", 3)
    monkeypatch.setattr(runs, "WINDOW_MAX", 3)
    engine = Engine(tmp_path, dead_head=DeadHead.CONTINUE)
    for number in range(4):
        dead(engine, 1, entity="e")
        dead(engine, 1, entity=f"other_{number}")
    digest = frozen(engine)
    order(engine, digest, mode=ReplayMode.WITH_FOLLOWERS)
    go(engine, 16)
    assert decisions(engine) == {"applied": 8}
    assert not any(reported.refused for reported in portions(engine))
    assert taken(engine, digest)[0] == 4


def one_entity(tmp_path: Path, count: int) -> tuple[Engine, str]:
    """Dead events of one entity, whose head holds none back; the digest of what is dead."""
    engine = Engine(tmp_path, dead_head=DeadHead.CONTINUE)
    dead(engine, count, entity="shop")
    return engine, frozen(engine)


@pytest.mark.parametrize("most", [5, 10])
def test_an_entity_is_judged_once_and_refused_whole_where_it_has_more_than_are_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(runs, "WINDOW_FIRST", 3)
    monkeypatch.setattr(runs, "WINDOW_MAX", 3)
    for module in (acceptance, operations.frozen):
        monkeypatch.setattr(module, "ENTITY_ITEMS_MAX", most)
    engine, digest = one_entity(tmp_path, 7)
    order(engine, digest, mode=ReplayMode.WITH_FOLLOWERS)
    go(engine)
    assert decisions(engine) == ({"dead": 7} if most == 5 else {"applied": 7})
    assert sum(len(one.refused) for one in portions(engine)) == (7 if most == 5 else 0)


def test_an_entity_with_its_followers_is_due_together_and_the_rate_delays_what_comes_after_it(tmp_path: Path) -> None:
    engine, _ = one_entity(tmp_path, 20)
    dead(engine, 2)
    digest = frozen(engine)
    order(engine, digest, per_s=0.1, mode=ReplayMode.WITH_FOLLOWERS)
    engine.advance(1)
    replayed = [row for row in engine.journal.rows if row.decision is Decision.REPLAYED and not row.first]
    assert len(replayed) == 20
    assert {row.due_at for row in replayed} == {replayed[0].decided_at}
    engine.advance(1)
    assert decisions(engine) == {"applied": 20, "dead": 2}
    go(engine, 23, 10.0)
    assert taken(engine, digest) == [20, 1, 1, 0]
    begun = [row.decided_at for row in engine.journal.rows if row.decision is Decision.PORTION]
    assert (begun[1] - begun[0]).total_seconds() >= 200
    assert (begun[2] - begun[1]).total_seconds() == 10


def test_nothing_is_taken_while_the_stream_is_blocked(engine: Engine) -> None:
    dead(engine, 3)
    digest = frozen(engine)
    order(engine, digest)
    engine.handler.down_for = lambda _: True
    engine.run(30)
    assert taken(engine, digest) == [3]
    engine.handler.down_for = lambda _: False
    engine.run(60)
    assert decisions(engine) == {"applied": 3}
    assert portions(engine)[-1].over


def test_a_run_that_releases_takes_two_people_and_frees_each_key(engine: Engine) -> None:
    dead(engine, 4)
    digest = frozen(engine)
    row = order(engine, digest, act="release")
    assert f"a release always takes a second person: {HAVE_IT_APPROVED}" in str(row.reason)
    proposed = command(engine, digest, PROPOSE_RUN, act="release")
    assert order(engine, digest, PROPOSE_RUN, act="release").decision is Decision.RESOLVED
    proposal = ApprovedProposal(proposed.command_id, "ada", "mended", NOW)
    assert "ada proposed it" in str(order(engine, digest, act="release", proposal=proposal).reason)
    assert order(engine, digest, act="release", proposal=proposal, actor="bob").decision is Decision.RELEASED
    go(engine, 4)
    assert decisions(engine) == {"released": 4} and len(engine.freed) == 4


@pytest.mark.parametrize(("act", "decision"), [("purge", "purged"), ("resolve", "resolved")])
def test_a_run_closes_items(engine: Engine, act: str, decision: str) -> None:
    dead(engine, 4)
    digest = frozen(engine)
    order(engine, digest, act=act)
    go(engine, 4)
    assert decisions(engine) == {decision: 4}
    closed = [row for row in engine.journal.rows if row.decision.value == decision and not row.first]
    assert {(row.actor, row.reason) for row in closed} == {("ada", "mended")}


def test_above_the_limits_of_a_day_a_run_takes_a_second_person(engine: Engine) -> None:
    engine.limit_one_person(AloneLimits(items_max=4, replay_items_max=5))
    engine.start()
    dead(engine, 6)
    digest = frozen(engine)
    row = order(engine, digest)
    assert (row.decision, row.event_key) == (Decision.IGNORED, None)
    assert f"(limit 5 a day): {HAVE_IT_APPROVED}" in str(row.reason)
    proposed = command(engine, digest, PROPOSE_RUN, force=True)
    assert order(engine, digest, PROPOSE_RUN, force=True).decision is Decision.RESOLVED
    go(engine, 2)
    assert decisions(engine) == {"dead": 6}
    proposal = ApprovedProposal(proposed.command_id, "ada", "mended", NOW)
    assert order(engine, digest, force=True).reason == "it is a proposal: another person must approve it"
    own = order(engine, digest, proposal=proposal, force=True)
    assert "ada proposed it" in str(own.reason)
    other = order(engine, digest, proposal=proposal, actor="bob", reason="looked")
    assert "no proposal" in str(other.reason), "it isn't what was proposed"
    assert order(engine, digest, proposal=proposal, actor="bob", reason="looked", force=True).decision is (
        Decision.REPLAYED
    )
    engine.start()
    go(engine, 8)
    assert decisions(engine) == {"applied": 6}
    replayed = [row for row in engine.journal.rows if row.decision is Decision.REPLAYED and not row.first]
    assert {(row.actor, row.reason) for row in replayed} == {("bob", "looked")}


def test_a_day_counts_the_portions_of_a_run_after_a_restart_too(engine: Engine) -> None:
    engine.limit_one_person(AloneLimits(replay_items_max=5))
    engine.start()
    dead(engine, 8)
    order(engine, frozen(engine, range(1, 5)))
    go(engine, 6)
    engine.start()
    refused = order(engine, frozen(engine, [5, 6]))
    assert "2 items after 4 replayed in the last 24 hours" in str(refused.reason)
    order(engine, frozen(engine, [5]))
    go(engine, 3)
    assert decisions(engine) == {"applied": 5, "dead": 3}


def test_what_turns_out_to_be_too_much_money_is_refused_item_by_item(engine: Engine) -> None:
    engine.limit_one_person(AloneLimits(items_max=10, amounts_minor_max={"EUR": 100}))
    engine.start()
    dead(engine, 2)
    engine.adapters["stripe"] = _Rich()
    digest = frozen(engine)
    order(engine, digest, act="purge")
    go(engine, 3)
    assert decisions(engine) == {"dead": 2}
    [one, other] = portions(engine)[0].refused
    assert (one.ground, one.item_seq, other.item_seq) == (RefusalReason.SECOND_PERSON, 1, 2)
    assert "(limit 100 a day)" in one.why_refused


class _Rich:
    def money(self, body: bytes, event_type: str) -> MoneyFact:
        return MoneyFact("f", Movement.CAPTURE, "acct_1", "p", Money(1_000, "EUR"))

    def content_sha256(self, body: bytes, version: int) -> str:
        return "00" * 32


def test_a_proposal_that_was_taken_back_can_not_be_approved(engine: Engine) -> None:
    dead(engine, 2)
    digest = frozen(engine)
    order(engine, digest, PROPOSE_RUN)
    assert order(engine, digest, CANCEL_RUN, actor="ada").decision is Decision.RESOLVED
    proposal = ApprovedProposal(command_id_of(digest), "ada", "mended", NOW)
    row = order(engine, digest, proposal=proposal, actor="bob", reason="looked")
    assert row.reason == "its run was cancelled before it began"
    go(engine, 2)
    assert decisions(engine) == {"dead": 2}


def test_a_run_of_before_a_restore_ends_and_none_is_begun(engine: Engine) -> None:
    dead(engine, 7)
    digest, other = frozen(engine), frozen(engine, [7])
    order(engine, digest)
    engine.advance(1)
    older = engine.copy()
    go(engine, 8)
    engine.restore(older, "2" * 32)
    go(engine, 4)
    reported = portions(engine)[-1]
    assert (reported.state, reported.ended, reported.over) == (RunState.CANCELLED, "restored", True)
    assert decisions(engine) == {"applied": 3, "dead": 4}
    fresh = order(engine, other)
    assert fresh.decision is Decision.IGNORED
    assert "restored" in str(fresh.reason)


def test_many_runs_are_under_way_at_most(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RUNS_MAX", 2)
    dead(engine, 9)
    sets = [frozen(engine, range(at, at + 3)) for at in (1, 4, 7)]
    for digest in sets[:2]:
        order(engine, digest, per_s=0.01)
    assert "2 runs are under way" in str(order(engine, sets[2]).reason)
    order(engine, sets[0], CANCEL_RUN)
    assert order(engine, sets[2]).decision is Decision.REPLAYED


def test_a_run_that_makes_room_for_another_is_over_though_its_last_item_waits(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "RUNS_MAX", 2)
    dead(engine, 3)
    sets = [frozen(engine, [item_seq]) for item_seq in (1, 2, 3)]
    for item_seq, digest in zip((1, 2), sets[:2], strict=True):
        engine.handler.fails(str(engine.journal.rows[item_seq - 1].event_key), Stuck("later"), times=1)
        assert order(engine, digest).decision is Decision.REPLAYED
    engine.batch()
    engine.batch()
    assert decisions(engine) == {"retry": 2, "dead": 1}
    assert order(engine, sets[2]).decision is Decision.REPLAYED
    engine.batch()
    assert [reported.over for reported in portions(engine, sets[0])] == [False, True]
    assert not any(reported.over for reported in portions(engine, sets[1]))
    assert len(json.loads(engine.journal.notes["runs"])) == 2
    go(engine, 9)
    assert decisions(engine) == {"applied": 3}
