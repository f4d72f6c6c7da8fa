"""A few failing events that hold back many others are seen, and past configured limits dead-lettered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.decision import ErrorKind
from processor.decide import head_of_line
from processor.decide.head_of_line import (
    BLOCKED_CLASS,
    EXAMINED_MAX,
    DoneWindow,
    HeadFigures,
    HeadOfLine,
    WaitingLine,
    choose_examined,
    group_into_lines,
)
from processor.settings import DeadHead, RetrySettings, StreamSettings
from processor.streams import load_streams
from tests.unit.processor.fakes import Down, Stuck
from tests.unit.processor.harness import NOW, Engine
from tests.unit.processor.limited import LimitedEngine
from tests.unit.processor.served import SETTINGS, ServedDownstream, post

FOREVER = "forever(1s, x2, max 60s)"
AGE_S = 20.0


@pytest.fixture
def engine(tmp_path: Path) -> Callable[..., Engine]:
    def made(dead_head: DeadHead = DeadHead.CONTINUE, **limits: float) -> Engine:
        one = Engine(tmp_path, dead_head=dead_head)
        one.configure(**limits)
        one.start()
        return one

    return made


def run_for(engine: Engine, seconds: float) -> None:
    for _ in range(int(seconds)):
        engine.advance(1.0)


def stuck_with_followers(engine: Engine, followers: int = 3, entity: str = "e1") -> tuple[str, list[str]]:
    head = engine.post(f"{entity}_0", entity)
    behind = [engine.post(f"{entity}_{n}", entity) for n in range(1, followers + 1)]
    engine.handler.fails(head, Stuck("no answer"))
    return head, behind


def test_a_line_is_an_entitys_head_and_what_waits_behind_it():
    places = [(b"a", 5), (b"a", 9), (b"a", 11), (b"b", 6), (b"c", 2), (b"c", 30)]
    assert group_into_lines(places) == [WaitingLine(5, 2), WaitingLine(2, 1)]


def test_the_oldest_heads_and_those_with_the_longest_lines_are_looked_at():
    found = [WaitingLine(seq, 1 + seq % 997) for seq in range(10_000)]
    some = choose_examined(found)
    assert len(some) <= EXAMINED_MAX
    assert WaitingLine(0, 1) in some and max(found, key=lambda line: line.behind) in some


def test_stuck_is_held_against_what_was_done_in_the_last_minute():
    done = DoneWindow()
    done.add(100, now_s=1_000.2)
    done.add(50, now_s=1_000.9)
    done.add(25, now_s=1_030.0)
    assert [done.count(now_s) for now_s in (1_030.0, 1_059.9, 1_061.0, 1_090.0)] == [175, 175, 25, 0]
    figures = HeadFigures(heads=1, behind=74, done=25)
    assert (figures.stuck_share, figures.done_share) == (0.75, 0.25)


@pytest.mark.row("D2")
@pytest.mark.parametrize(
    ("heads", "behind", "done", "blocked"),
    [
        (1, 199, 10, True),
        (1, 199, 100, False),
        (1, 50, 5, True),
        (1, 49, 5, False),
        (100, 100, 10, False),
        (0, 0, 0, False),
        (0, 0, 9, False),
    ],
)
def test_nearly_all_are_stuck_and_few_of_them_fail(heads: int, behind: int, done: int, blocked: bool):
    """Utilisation above 0.9, and the uncommitted share below 0.02."""
    assert HeadFigures(heads=heads, behind=behind, done=done).is_blocking(StreamSettings()) is blocked


def test_a_failing_head_its_line_and_its_time_are_published(engine):
    stream = engine()
    stuck_with_followers(stream, followers=3)
    stuck_with_followers(stream, followers=1, entity="e2")
    stream.post("alone", "e3")
    stream.batch()
    run_for(stream, 12)
    reported = stream.batches.status()["heads"]
    assert (reported["heads"], reported["behind"], reported["longest"], reported["done"]) == (2, 4, 3, 1)
    assert reported["oldest_s"] == pytest.approx(11.0)
    assert reported["stuck_share"] == pytest.approx(6 / 7, abs=1e-4)


def test_lines_beyond_what_one_look_reads_are_read_by_the_next_ones(engine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(head_of_line, "PLACES_MAX", 5)
    stream = engine(DeadHead.WAIT, head_age_max_s=AGE_S)
    stream.configure(retry=RetrySettings(default=FOREVER))
    stream.start()
    heads = [stuck_with_followers(stream, followers=2, entity=f"e{number}")[0] for number in range(6)]
    stream.batch()
    run_for(stream, AGE_S)
    reported = stream.batches.status()["heads"]
    assert (reported["heads"], reported["behind"], reported["longest"]) == (6, 12, 2)
    assert AGE_S / 2 < reported["oldest_s"] < AGE_S
    run_for(stream, AGE_S)
    assert [stream.decisions(key)[-1] for key in heads] == ["dead"] * 6
    reported = stream.batches.status()["heads"]
    assert (reported["heads"], reported["dead_heads"], reported["behind_dead"]) == (0, 6, 12)


def test_a_line_longer_than_one_look_reads_hides_none_after_it(engine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(head_of_line, "PLACES_MAX", 4)
    stream = engine()
    for number in range(4):
        stuck_with_followers(stream, followers=9, entity=f"e{number}")
    stream.batch()
    run_for(stream, 12)
    reported = stream.batches.status()["heads"]
    assert (reported["heads"], reported["longest"]) == (4, 3)


def test_where_followers_go_on_a_head_that_holds_back_all_others_dies_by_default(engine):
    stream = engine(DeadHead.CONTINUE)
    stream.configure(retry=RetrySettings(default=FOREVER))
    stream.start()
    head, behind = stuck_with_followers(stream, followers=60)
    stream.batch()
    run_for(stream, 30)
    assert [(row.event_key, row.error_class) for row in stream.dead_letters.published] == [(head, BLOCKED_CLASS)]
    assert {stream.decisions(key)[-1] for key in behind} == {"applied"}


def test_where_followers_wait_no_head_dies_by_default_and_the_status_names_it(engine):
    stream = engine(DeadHead.WAIT)
    stream.configure(retry=RetrySettings(default=FOREVER))
    stream.start()
    head, _ = stuck_with_followers(stream, followers=60)
    stream.batch()
    run_for(stream, 600)
    assert "dead" not in stream.decisions(head)
    heads = stream.batches.status()["heads"]
    assert (heads["head_of_line"], heads["held_by"]) == (True, head)
    assert stream.batches.head_figures.blocked


def test_where_followers_wait_behind_a_dead_head_the_status_names_that(engine):
    stream = engine(DeadHead.WAIT)
    head, _ = stuck_with_followers(stream, followers=60)
    stream.batch()
    run_for(stream, 120)
    assert stream.decisions(head)[-1] == "dead"
    heads = stream.batches.status()["heads"]
    assert (heads["head_of_line"], heads["held_by"]) == (True, head)


@pytest.mark.row("D2")
def test_past_the_limit_the_head_dies_between_two_tries_with_its_whole_story(engine):
    stream = engine(head_age_max_s=AGE_S)
    stream.configure(retry=RetrySettings(default="fixed(5s x1, 1000s x9)"))
    stream.start()
    head, _ = stuck_with_followers(stream)
    stream.batch()
    run_for(stream, AGE_S + 2)
    [dead] = [row for row in stream.dead_letters.published if row.event_key == head]
    assert (dead.decision, dead.error_class, dead.error_kind) == ("dead", BLOCKED_CLASS, ErrorKind.NRE)
    assert "held back 3 later events" in (dead.error_message or "")
    assert "Stuck: no answer" in (dead.error_message or "") and "failed 2 times" in (dead.error_message or "")
    assert "Stuck" in (dead.error_stack or "")
    assert stream.handler.calls.count(head) == 2


def test_where_followers_continue_they_are_handled_in_order_and_see_that_one_before_them_is_dead(engine):
    stream = engine(DeadHead.CONTINUE, head_age_max_s=AGE_S)
    head, behind = stuck_with_followers(stream)
    stream.batch()
    run_for(stream, AGE_S + 2)
    assert stream.decisions(head)[-1] == "dead"
    assert [stream.decisions(key)[-1] for key in behind] == ["applied"] * 3
    last = [call for call in stream.handler.log if call.event_key in behind]
    assert [call.event_key for call in last] == behind and all(call.previous_dead for call in last)


def test_where_followers_wait_for_a_person_they_wait_on_and_the_head_is_not_tried_any_more(engine):
    stream = engine(DeadHead.WAIT, head_age_max_s=AGE_S)
    head, behind = stuck_with_followers(stream)
    stream.batch()
    run_for(stream, AGE_S + 2)
    new = stream.post("new", "e1")
    calls = list(stream.handler.calls)
    run_for(stream, 120)
    assert stream.decisions(head)[-1] == "dead"
    assert [stream.decisions(key)[-1] for key in (*behind, new)] == ["parked"] * 4
    assert stream.handler.calls == calls
    reported = stream.batches.status()["heads"]
    assert (reported["heads"], reported["dead_heads"], reported["behind_dead"]) == (0, 1, 4)
    [dead] = stream.dead_letters.published
    stream.handler.script.clear()
    stream.command(dead.item_seq, dead.seq)
    stream.batch()
    run_for(stream, 2)
    assert [stream.decisions(key)[-1] for key in (head, *behind, new)] == ["applied"] * 5


def test_a_failing_event_that_holds_back_nobody_is_tried_as_its_policy_says(engine):
    stream = engine(head_age_max_s=5.0)
    key = stream.post("alone", "e1")
    stream.handler.fails(key, Stuck("no answer"))
    stream.batch()
    run_for(stream, 40)
    assert [row.error_class for row in stream.dead_letters.published] == ["Stuck"]


def test_while_the_whole_stream_is_blocked_no_time_counts_against_a_head(engine):
    stream = engine(head_age_max_s=AGE_S)
    stream.configure(retry=RetrySettings(default=FOREVER))
    stream.start()
    head, _ = stuck_with_followers(stream)
    down = stream.post("down", "e9")
    stream.batch()
    stream.handler.fails(down, Down("the bank is away"), times=1)
    stream.handler.fails(head, Down("the bank is away"))
    for _ in range(100):
        stream.advance(1.0)
    assert stream.batches.is_blocked
    assert "dead" not in stream.decisions(head)


def test_while_its_downstream_is_not_called_no_time_counts_against_a_head(tmp_path: Path):
    """It had failed before: what it goes on waiting for is no fault of its own."""
    engine = LimitedEngine(tmp_path, {"merchants": SETTINGS}, dead_head=DeadHead.CONTINUE)
    engine.configure(head_age_max_s=AGE_S)
    engine.start()
    service = ServedDownstream(engine)
    service.down = True
    head, behind = (service.serve(engine.post(f"evt_{n}", "e0")) for n in ("head", "behind"))
    engine.batch()
    post(engine, service, 30)
    engine.batch()
    run_for(engine, 5 * AGE_S)
    assert engine.decisions(head) == ["retry"]
    service.down = False
    run_for(engine, 5 * AGE_S)
    assert [engine.decisions(key)[-1] for key in (head, behind)] == ["applied", "applied"]


def test_a_head_past_its_limit_is_left_alone_until_the_stream_is_no_longer_blocked(engine):
    stream = engine()
    head, _ = stuck_with_followers(stream)
    stream.batch()
    heads = HeadOfLine(stream.index, StreamSettings(head_age_max_s=5.0, dead_head=DeadHead.CONTINUE), stream.clock)
    seen = []
    for blocked in (False, False, True, False):
        stream.clock.advance(6.0)
        seen.append([item.row.event_key for item, _ in heads.find_overdue_heads(stream_blocked=blocked).values()])
    assert seen == [[], [head], [], [head]]


def test_a_share_past_its_limit_takes_the_longest_lines_first_and_no_more_than_bring_it_down(engine):
    stream = engine(head_utilisation_max=0.4, head_uncommitted_min=0.1)
    stream.configure(retry=RetrySettings(default=FOREVER))
    stream.start()
    long, _ = stuck_with_followers(stream, followers=60, entity="long")
    short, _ = stuck_with_followers(stream, followers=1, entity="short")
    stream.batch()
    run_for(stream, 30)
    assert [(row.event_key, row.error_class) for row in stream.dead_letters.published] == [(long, BLOCKED_CLASS)]
    assert stream.decisions(short)[-1] == "retry"


def test_a_share_past_its_limit_is_no_reason_when_every_line_is_short(engine):
    stream = engine(head_utilisation_max=0.4, head_uncommitted_min=0.1)
    stream.configure(retry=RetrySettings(default=FOREVER))
    stream.start()
    for number in range(20):
        stuck_with_followers(stream, followers=1, entity=f"e{number}")
    stream.batch()
    run_for(stream, 60)
    assert stream.dead_letters.published == []


def test_one_refused_call_doesn_t_hold_a_payments_later_notifications_for_a_day(engine):
    """By the settings that are shipped for the stream notify."""
    notify = load_streams()["notify"]
    stream = engine(notify.dead_head, head_age_max_s=notify.head_age_max_s)
    stream.configure(retry=notify.retry)
    stream.start()
    head, behind = stuck_with_followers(stream, followers=2)
    alone = stream.post("alone", "e2")
    stream.handler.fails(alone, Stuck("422"))
    stream.batch()
    for _ in range(700):
        stream.advance(1.0)
        if stream.decisions(behind[-1])[-1] == "applied":
            break
    waited_s = (stream.clock.now() - NOW).total_seconds()
    assert 600 <= waited_s <= 620
    assert [stream.decisions(key)[-1] for key in (head, *behind)] == ["dead", "applied", "applied"]
    assert stream.decisions(alone)[-1] == "retry", "what holds back nobody is tried for a day"


def test_events_that_wait_for_the_streams_delay_are_stuck_behind_nobody(engine):
    """Beside them a failing event with one follower is no head of line."""
    stream = engine(DeadHead.CONTINUE)
    stream.configure(retry=RetrySettings(default=FOREVER), delay="30s")
    stream.start()
    head, [follower] = stuck_with_followers(stream, followers=1)
    stream.batch()
    run_for(stream, 31)
    for number in range(100):
        stream.post(f"late_{number}", "delayed")
    run_for(stream, 25)
    reported = stream.batches.status()["heads"]
    assert (reported["heads"], reported["behind"], reported["head_of_line"]) == (1, 1, False)
    assert (stream.decisions(head)[-1], stream.decisions(follower)[-1]) == ("retry", "parked")
