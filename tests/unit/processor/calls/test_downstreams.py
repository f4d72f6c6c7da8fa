"""What the driver does about downstreams, on the whole engine: parks without an attempt, probes, remembers."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from core.clock import ManualClock
from core.decision import ErrorKind
from core.downstream import calling
from core.work import Held, Outcome, WorkItem
from notify.settings import NotifySettings
from processor.calls.breaker import CLOSED, HALF_OPEN, OPEN
from processor.calls.budget import Report
from processor.calls.downstream_settings import DownstreamSettings
from processor.calls.downstreams import NAMES_MAX, NOTE, NOTE_CHARS_MAX, Downstreams
from processor.calls.limiter import NO_RETRIES
from processor.judge.classify import Failure
from processor.streams import load_streams
from processor.tell.metrics import ProcessorMetrics
from tests.unit.processor.harness import NOW, booked
from tests.unit.processor.limited import LimitedEngine

SETTINGS = DownstreamSettings(failures_to_open=3, reset_s=10.0, probes=2)


class Unreachable(Exception):
    kind = ErrorKind.SNBE


class Service:
    """A downstream as the handler sees it; ``calls`` are the events that called it."""

    def __init__(self, engine: LimitedEngine, name: str = "merchants") -> None:
        self.engine = engine
        self.name = name
        self.down = False
        self.retry_after_s: float | None = None
        self.calls: list[str] = []

    def serve(self, event_key: str) -> str:
        self.engine.handler.script[event_key] = self.handle
        return event_key

    def handle(self, item: WorkItem) -> Outcome:
        with calling(self.name):
            self.calls.append(item.event_key)
            if self.down:
                error = Unreachable("connection refused")
                error.retry_after_s = self.retry_after_s  # type: ignore[attr-defined]
                raise error
        return booked()


@pytest.fixture
def engine(tmp_path: Path) -> LimitedEngine:
    return LimitedEngine(tmp_path, {"merchants": SETTINGS})


@pytest.fixture
def service(engine: LimitedEngine) -> Service:
    return Service(engine)


def post(engine: LimitedEngine, service: Service, count: int, first: int = 1) -> list[str]:
    return [service.serve(engine.post(f"evt_{n}", f"e{n}")) for n in range(first, first + count)]


def state(engine: LimitedEngine, name: str = "merchants") -> str:
    return str(engine.downstreams.status()[name]["state"])


def test_an_outage_opens_the_breaker_and_everything_waits_with_its_attempts(
    engine: LimitedEngine, service: Service
) -> None:
    service.down = True
    keys = post(engine, service, 30)
    engine.batch()
    assert state(engine) == OPEN
    assert 3 <= len(service.calls) <= 3 + SETTINGS.concurrency_start
    for key in keys:
        row = engine.last(key)
        assert (row.decision, row.attempt) == ("parked", 0)
        assert row.due_at is not None and row.due_at >= NOW + timedelta(seconds=10)
        assert row.reason is not None
        assert row.reason.startswith("merchants isn't called until 2026-01-31T12:00:10")
        assert "its breaker is open (Unreachable)" in row.reason


def test_while_it_is_open_nothing_is_called_and_others_flow(engine: LimitedEngine, service: Service) -> None:
    service.down = True
    post(engine, service, 10)
    engine.batch()
    service.calls.clear()
    keys = post(engine, service, 5, first=100)
    other = engine.post("evt_other", "other")
    engine.advance(5)
    assert service.calls == []
    assert {engine.last(key).decision for key in keys} == {"parked"}
    assert engine.last(other).decision == "applied"


def test_half_open_lets_so_many_probes_through_in_all_and_not_one_a_task(tmp_path: Path) -> None:
    engine = LimitedEngine(tmp_path, {"merchants": SETTINGS}, parallelism=4)
    service = Service(engine)
    service.down = True
    post(engine, service, 400)
    engine.batch()
    service.calls.clear()
    service.down = False
    engine.advance(11)
    assert len(service.calls) == 2
    assert state(engine) == CLOSED


def test_a_failed_probe_opens_it_again_and_costs_no_attempt(engine: LimitedEngine, service: Service) -> None:
    service.down = True
    keys = post(engine, service, 20)
    engine.batch()
    service.calls.clear()
    for _ in range(8):
        engine.advance(11)
        assert state(engine) == OPEN
    assert 8 <= len(service.calls) <= 8 * 2
    assert {engine.last(key).attempt for key in keys} == {0}
    assert engine.dead_letters.published == []


def test_the_next_probes_are_other_events(engine: LimitedEngine, service: Service) -> None:
    """One that fails by itself doesn't hold the breaker open for the others."""
    service.down = True
    post(engine, service, 20)
    engine.batch()
    service.calls.clear()
    engine.advance(11)
    first = set(service.calls)
    service.calls.clear()
    engine.advance(11)
    assert first.isdisjoint(service.calls)


def test_after_the_outage_everything_is_applied_once_and_nothing_died(engine: LimitedEngine, service: Service) -> None:
    service.down = True
    keys = post(engine, service, 40)
    engine.batch()
    engine.advance(11)
    service.down = False
    for _ in range(8):
        engine.advance(4)
    assert {engine.last(key).decision for key in keys} == {"applied"}
    assert all(engine.decisions(key).count("applied") == 1 for key in keys)
    assert state(engine) == CLOSED


def test_followers_of_a_held_event_keep_their_order(engine: LimitedEngine, service: Service) -> None:
    service.down = True
    keys = [service.serve(engine.post(f"evt_{n}", "e1")) for n in range(6)]
    post(engine, service, 5, first=50)
    engine.batch()
    service.down = False
    for _ in range(6):
        engine.advance(11)
    applied = [row.event_key for row in engine.journal.rows if row.decision == "applied"]
    assert [key for key in applied if key in keys] == keys


def test_a_restart_finds_the_breaker_as_it_was(engine: LimitedEngine, service: Service) -> None:
    service.down = True
    post(engine, service, 10)
    engine.batch()
    service.calls.clear()
    engine.clock.advance(4)
    engine.start()
    assert state(engine) == OPEN
    post(engine, service, 10, first=100)
    engine.batch()
    assert service.calls == []
    service.down = False
    engine.clock.advance(6)
    assert state(engine) == HALF_OPEN
    engine.batch()
    assert len(service.calls) == 2


def test_a_lone_event_outlives_an_outage_too(engine: LimitedEngine, service: Service) -> None:
    """Its retries are spent one by one until the breaker opens; from then on none is."""
    service.down = True
    [key] = post(engine, service, 1)
    engine.batch()
    for _ in range(120):
        engine.advance(1)
    assert state(engine) in (OPEN, HALF_OPEN)
    assert engine.last(key).attempt == 2
    service.down = False
    for _ in range(12):
        engine.advance(1)
    assert engine.last(key).decision == "applied"


def test_an_event_that_fails_alone_while_others_pass_spends_its_attempts(
    engine: LimitedEngine, service: Service
) -> None:
    bad = engine.post("evt_bad", "bad")

    def fails(_: WorkItem) -> Outcome:
        with calling("merchants"):
            raise Unreachable

    engine.handler.script[bad] = fails
    for number in range(60):
        post(engine, service, 1, first=number)
        engine.advance(1)
    assert engine.last(bad).decision == "dead"
    assert engine.last(bad).attempt == 5


def test_retry_after_keeps_everyone_away_for_so_long(engine: LimitedEngine, service: Service) -> None:
    service.down, service.retry_after_s = True, 40.0
    [key] = post(engine, service, 1)
    engine.batch()
    row = engine.last(key)
    assert (row.decision, row.attempt) == ("parked", 0)
    assert row.due_at == NOW + timedelta(seconds=40)
    assert row.reason is not None
    assert row.reason.startswith("merchants asked to be left alone until 2026-01-31T12:00:40")
    service.down = False
    later = post(engine, service, 1, first=9)
    engine.advance(39)
    assert len(service.calls) == 1
    engine.advance(2)
    assert {engine.last(one).decision for one in (key, *later)} == {"applied"}


def test_a_retry_after_keeps_others_away_up_to_a_limit_and_its_own_event_as_long_as_it_says(tmp_path: Path) -> None:
    engine = LimitedEngine(tmp_path, {"merchants": DownstreamSettings(quiet_s_max=60.0)})
    service = Service(engine)
    service.down, service.retry_after_s = True, 1_800.0
    [key] = post(engine, service, 1)
    engine.batch()
    [other] = post(engine, service, 1, first=2)
    engine.batch()
    due_at = engine.last(other).due_at
    assert due_at is not None
    assert timedelta(seconds=60) <= due_at - NOW < timedelta(seconds=61)
    assert (engine.last(key).decision, engine.last(key).due_at) == ("parked", NOW + timedelta(seconds=1_800))


def test_a_subscriber_that_asks_for_half_an_hour_gets_it(tmp_path: Path) -> None:
    engine = LimitedEngine(tmp_path, load_streams()["notify"].downstreams)
    shop = Service(engine, "subscriber:shop")
    shop.down, shop.retry_after_s = True, 1_800.0
    [key] = post(engine, shop, 1)
    engine.batch()
    [later] = post(engine, shop, 1, first=2)
    engine.batch()
    engine.advance(1_799)
    assert shop.calls == [key]
    shop.down = False
    engine.advance(2)
    assert {engine.last(one).decision for one in (key, later)} == {"applied"}


def test_no_retry_after_that_notify_honours_is_cut_short_by_its_stream() -> None:
    told = NotifySettings().retry_after_s_max
    assert load_streams()["notify"].downstreams["subscriber:*"].quiet_s_max >= told


def test_what_blocks_the_whole_stream_still_does(engine: LimitedEngine) -> None:
    class Refused(Exception):
        kind = ErrorKind.SBE

    def refused(_: WorkItem) -> Outcome:
        with calling("merchants"):
            raise Refused("401")

    engine.handler.script[engine.post("evt_1")] = refused
    engine.batch()
    assert engine.batches.blocked


def test_retries_are_held_when_first_tries_are_few(tmp_path: Path) -> None:
    few = DownstreamSettings(retry_share=0.0, retries_min=1, failures_to_open=1_000)
    engine = LimitedEngine(tmp_path, {"merchants": few})
    service = Service(engine)
    service.down = True
    keys = post(engine, service, 5)
    engine.batch()
    assert {engine.last(key).decision for key in keys} == {"retry"}
    service.down = False
    service.calls.clear()
    engine.advance(2)
    assert len(service.calls) == 1
    held = [row for row in map(engine.last, keys) if row.decision == "parked"]
    assert len(held) == 4
    assert {row.reason for row in held} == {f"merchants {NO_RETRIES}"}
    assert {row.attempt for row in held} == {1}
    assert len({row.due_at for row in held}) == 4


def test_held_events_are_due_one_after_another(tmp_path: Path) -> None:
    engine = LimitedEngine(tmp_path, {"merchants": SETTINGS.model_copy(update={"held_per_s": 10.0})})
    service = Service(engine)
    service.down = True
    keys = post(engine, service, 50)
    engine.batch()
    due = sorted(row.due_at for row in map(engine.last, keys) if row.due_at is not None)
    assert due[0] == NOW + timedelta(seconds=10)
    assert due[-1] == NOW + timedelta(seconds=10 + 49 / 10)


def failure(name: str) -> Failure:
    return Failure(ErrorKind.SNBE, "Unreachable", None, "", "", downstream=name)


def test_many_names_are_bounded_and_those_at_rest_go_first() -> None:
    subject = Downstreams({"*": SETTINGS}, ManualClock(NOW))
    subject.judge({1: failure("bad")}, {"bad": Report(calls=3, failed=3, failed_in_a_row=3)})
    for number in range(NAMES_MAX + 50):
        subject.judge({}, {f"subscriber:{number}": Report(calls=1)})
    told = subject.status()
    assert len(told) == NAMES_MAX
    assert told["bad"]["state"] == OPEN


def test_the_note_fits_whatever_is_open_and_can_be_read_again() -> None:
    clock = ManualClock(NOW)
    subject = Downstreams({"*": SETTINGS}, clock)
    for number in range(900):
        subject.judge({}, {f"subscriber:{number:040}": Report(calls=3, failed=3, failed_in_a_row=3)})
    note = subject.notes()
    assert len(note[NOTE]) <= NOTE_CHARS_MAX
    later = Downstreams({"*": SETTINGS}, clock, notes=note).status()
    assert len(later) > 100
    assert {one["state"] for one in later.values()} == {OPEN}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"merchants": 7}', "null"])
def test_a_note_that_cannot_be_read_leaves_breakers_closed(text: str) -> None:
    assert Downstreams(notes={NOTE: text}).status() == {}


def test_every_round_is_told_to_the_metrics() -> None:
    told: list[tuple[str, str, int]] = []
    clock = ManualClock(NOW)
    subject = Downstreams(
        {"*": SETTINGS}, clock, on_round=lambda name, state, at_once, report: told.append((name, state, report.calls))
    )
    subject.judge({}, {"merchants": Report(calls=3, failed=3, failed_in_a_row=3)})
    clock.advance(11)
    subject.judge({1: Held("merchants", 0.0)}, {})
    subject.judge({}, {})
    assert told == [("merchants", OPEN, 3), ("merchants", HALF_OPEN, 0)]


def test_probes_that_are_still_out_are_not_made_again_until_they_are_given_up() -> None:
    clock = ManualClock(NOW)
    subject = Downstreams({"merchants": SETTINGS}, clock)
    subject.judge({}, {"merchants": Report(calls=3, failed=3, failed_in_a_row=3)})
    clock.advance(10)
    assert subject.budgets().by_name["merchants"].calls == 2
    subject.judge({}, {"merchants": Report(out=2)})
    assert subject.budgets().by_name["merchants"].calls == 0
    subject.judge({}, {"merchants": Report(calls=1, late=1)})
    assert subject.budgets().by_name["merchants"].calls == 0
    clock.advance(10)
    assert subject.budgets().by_name["merchants"].calls == 1


@pytest.mark.parametrize(("failed", "excused"), [(2, True), (1, False)])
def test_a_failed_probe_is_its_events_own_where_another_probe_was_good(failed: int, excused: bool) -> None:
    clock = ManualClock(NOW)
    subject = Downstreams({"*": SETTINGS}, clock)
    subject.judge({}, {"slow": Report(calls=3, failed=3, failed_in_a_row=3)})
    clock.advance(10)
    results: dict[int, Outcome | Failure] = {1: failure("slow")}
    subject.judge(results, {"slow": Report(calls=2, failed=failed, failed_in_a_row=1)})
    assert subject.status()["slow"]["state"] == OPEN
    assert isinstance(results[1], Held) == excused


@pytest.mark.parametrize(("since_good_s", "excused"), [(30, False), (61, True)])
def test_a_failure_told_late_and_alone_is_excused_unless_the_downstream_was_alive_lately(
    since_good_s: float, excused: bool
) -> None:
    clock = ManualClock(NOW)
    subject = Downstreams({"*": SETTINGS.model_copy(update={"reset_s": 600.0})}, clock)
    subject.judge({}, {"slow": Report(calls=1)})
    subject.judge({}, {"slow": Report(calls=3, failed=3, failed_in_a_row=3)})
    clock.advance(since_good_s)
    results: dict[int, Outcome | Failure] = {1: failure("slow")}
    subject.judge(results, {})
    assert isinstance(results[1], Held) == excused


@pytest.mark.parametrize(("tries", "failures"), [(2, 2), (3, 3), (9, 3), (None, 3)])
def test_a_breaker_opens_before_a_lone_events_retries_end(tries: int | None, failures: int) -> None:
    subject = Downstreams({"merchants": SETTINGS}, ManualClock(NOW), tries=tries)
    for _ in range(failures):
        assert subject.status().get("merchants", {}).get("state", CLOSED) == CLOSED
        subject.judge({}, {"merchants": Report(calls=1, failed=1, failed_in_a_row=1)})
    assert subject.status()["merchants"]["state"] == OPEN


def test_settings_hold_their_order() -> None:
    with pytest.raises(ValueError, match="concurrency_min"):
        DownstreamSettings(concurrency_min=9, concurrency_start=8)


def test_metrics_name_the_downstream_its_state_and_what_became_of_its_calls() -> None:
    clock = ManualClock(NOW)
    metrics = ProcessorMetrics(clock)
    subject = Downstreams({"*": SETTINGS}, clock, on_round=metrics.downstream)
    report = Report(calls=5, failed=3, failed_in_a_row=3, retries=2, held=7)
    subject.judge({}, {"merchants": report})

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"payhook_downstream_{name}", {"downstream": "merchants", **labels})

    assert value("state") == 2
    assert value("calls_total", outcome="good") == 2
    assert value("calls_total", outcome="failed") == 3
    assert value("retries_total") == 2
    assert value("held_total") == 7
    assert value("concurrency_limit") == SETTINGS.concurrency_start // 2
