"""What the driver makes of a batch's reports: breakers, probes, the note in the journal, the metrics."""

from __future__ import annotations

import pytest

from core.clock import ManualClock
from core.decision import ErrorKind
from core.work import Held, Outcome
from processor.calls.breaker import CLOSED, HALF_OPEN, OPEN
from processor.calls.budget import CallReport
from processor.calls.downstream import CONCURRENCY_START, PROBES
from processor.calls.downstreams import NAMES_MAX, NOTE, NOTE_CHARS_MAX, Downstreams
from processor.errors.classify import Failure
from processor.reporting.metrics import ProcessorMetrics
from processor.settings import DownstreamSettings
from tests.unit.processor.harness import NOW
from tests.unit.processor.served import SETTINGS


def failure(name: str) -> Failure:
    return Failure(ErrorKind.SNBE, "Unreachable", None, "", "", downstream=name)


def test_many_names_are_bounded_and_those_at_rest_go_first() -> None:
    subject = Downstreams({"*": SETTINGS}, ManualClock(NOW))
    subject.judge({1: failure("bad")}, {"bad": CallReport(calls=3, failed=3, failed_in_a_row=3)})
    for number in range(NAMES_MAX + 50):
        subject.judge({}, {f"subscriber:{number}": CallReport(calls=1)})
    reported = subject.status()
    assert len(reported) == NAMES_MAX
    assert reported["bad"]["state"] == OPEN


def test_among_as_many_names_as_are_kept_and_none_at_rest_the_oldest_makes_room_for_a_new_one() -> None:
    subject = Downstreams({"*": SETTINGS}, ManualClock(NOW))
    for number in range(NAMES_MAX):
        subject.judge({}, {f"subscriber:{number}": CallReport(calls=1, failed=1, failed_in_a_row=1)})
    subject.judge({1: failure("new")}, {"new": CallReport(calls=3, failed=3, failed_in_a_row=3)})
    reported = subject.status()
    assert len(reported) == NAMES_MAX
    assert reported["new"]["state"] == OPEN
    assert "subscriber:0" not in reported


def test_the_note_fits_whatever_is_open_and_can_be_read_again() -> None:
    clock = ManualClock(NOW)
    subject = Downstreams({"*": SETTINGS}, clock)
    for number in range(900):
        subject.judge({}, {f"subscriber:{number:040}": CallReport(calls=3, failed=3, failed_in_a_row=3)})
    note = subject.make_notes()
    assert len(note[NOTE]) <= NOTE_CHARS_MAX
    later = Downstreams({"*": SETTINGS}, clock, notes=note).status()
    assert len(later) > 100
    assert {one["state"] for one in later.values()} == {OPEN}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"merchants": 7}', "null"])
def test_a_note_that_cannot_be_read_leaves_breakers_closed(text: str) -> None:
    assert Downstreams(notes={NOTE: text}).status() == {}


def test_every_round_is_reported_to_the_metrics() -> None:
    reported: list[tuple[str, str, int]] = []
    clock = ManualClock(NOW)
    subject = Downstreams(
        {"*": SETTINGS},
        clock,
        on_round=lambda name, state, at_once, report: reported.append((name, state, report.calls)),
    )
    subject.judge({}, {"merchants": CallReport(calls=3, failed=3, failed_in_a_row=3)})
    clock.advance(11)
    subject.judge({1: Held("merchants", 0.0)}, {})
    subject.judge({}, {})
    assert reported == [("merchants", OPEN, 3), ("merchants", HALF_OPEN, 0)]


@pytest.mark.parametrize("state", ["closed", "open"])
def test_what_is_held_for_longer_than_its_downstream_is_due_when_it_was_asked_to_be(state: str) -> None:
    subject = Downstreams({"bank": SETTINGS}, ManualClock(NOW))
    if state == OPEN:
        subject.judge({}, {"bank": CallReport(calls=3, failed=3, failed_in_a_row=3)})
    results: dict[int, Outcome | Failure] = {1: Held("bank", 3_600.0, "is closed for an hour"), 2: Held("bank", 0.0)}
    subject.judge(results, {})
    long, short = results[1], results[2]
    assert isinstance(long, Held)
    assert isinstance(short, Held)
    assert long.retry_after_s == 3_600.0
    assert short.retry_after_s < 60.0


def test_probes_that_are_still_out_are_not_made_again_until_they_are_given_up() -> None:
    clock = ManualClock(NOW)
    subject = Downstreams({"merchants": SETTINGS}, clock)
    subject.judge({}, {"merchants": CallReport(calls=3, failed=3, failed_in_a_row=3)})
    clock.advance(10)
    assert subject.make_budgets().by_name["merchants"].calls == PROBES
    subject.judge({}, {"merchants": CallReport(out=PROBES)})
    assert subject.make_budgets().by_name["merchants"].calls == 0
    subject.judge({}, {"merchants": CallReport(calls=1, late=1)})
    assert subject.make_budgets().by_name["merchants"].calls == 0
    clock.advance(10)
    assert subject.make_budgets().by_name["merchants"].calls == PROBES - 1


@pytest.mark.parametrize(("failed", "excused"), [(2, True), (1, False)])
def test_a_failed_probe_is_its_events_own_where_another_probe_was_good(failed: int, excused: bool) -> None:
    clock = ManualClock(NOW)
    subject = Downstreams({"*": SETTINGS}, clock)
    subject.judge({}, {"slow": CallReport(calls=3, failed=3, failed_in_a_row=3)})
    clock.advance(10)
    results: dict[int, Outcome | Failure] = {1: failure("slow")}
    subject.judge(results, {"slow": CallReport(calls=2, failed=failed, failed_in_a_row=1)})
    assert subject.status()["slow"]["state"] == OPEN
    assert isinstance(results[1], Held) == excused


@pytest.mark.parametrize(("since_good_s", "excused"), [(30, False), (61, True)])
def test_a_failure_reported_late_and_alone_is_excused_unless_the_downstream_was_alive_lately(
    since_good_s: float, excused: bool
) -> None:
    clock = ManualClock(NOW)
    subject = Downstreams({"*": SETTINGS.model_copy(update={"reset_s": 600.0})}, clock)
    subject.judge({}, {"slow": CallReport(calls=1)})
    subject.judge({}, {"slow": CallReport(calls=3, failed=3, failed_in_a_row=3)})
    clock.advance(since_good_s)
    results: dict[int, Outcome | Failure] = {1: failure("slow")}
    subject.judge(results, {})
    assert isinstance(results[1], Held) == excused


@pytest.mark.parametrize(("tries", "failures"), [(2, 2), (3, 3), (9, 3), (None, 3)])
def test_a_breaker_opens_before_a_lone_events_retries_end(tries: int | None, failures: int) -> None:
    subject = Downstreams({"merchants": SETTINGS}, ManualClock(NOW), tries=tries)
    for _ in range(failures):
        assert subject.status().get("merchants", {}).get("state", CLOSED) == CLOSED
        subject.judge({}, {"merchants": CallReport(calls=1, failed=1, failed_in_a_row=1)})
    assert subject.status()["merchants"]["state"] == OPEN


def test_a_downstream_that_takes_few_calls_at_a_time_begins_with_no_more() -> None:
    subject = Downstreams({"merchants": DownstreamSettings(concurrency_max=2)}, ManualClock(NOW))
    subject.judge({}, {"merchants": CallReport(calls=1)})
    assert subject.status()["merchants"]["at_once"] == 2


def test_metrics_name_the_downstream_its_state_and_what_became_of_its_calls() -> None:
    clock = ManualClock(NOW)
    metrics = ProcessorMetrics(clock)
    subject = Downstreams({"*": SETTINGS}, clock, on_round=metrics.count_calls)
    report = CallReport(calls=5, failed=3, failed_in_a_row=3, retries=2, held=7)
    subject.judge({}, {"merchants": report})

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"payhook_downstream_{name}", {"downstream": "merchants", **labels})

    assert value("state") == 2
    assert value("calls_total", outcome="good") == 2
    assert value("calls_total", outcome="failed") == 3
    assert value("retries_total") == 2
    assert value("held_total") == 7
    assert value("concurrency_limit") == CONCURRENCY_START // 2


def test_a_forgotten_downstream_leaves_the_metrics_too() -> None:
    clock = ManualClock(NOW)
    metrics = ProcessorMetrics(clock)
    subject = Downstreams(
        {"*": SETTINGS}, clock, on_round=metrics.count_calls, on_forgotten=metrics.downstream_forgotten
    )
    for number in range(NAMES_MAX + 50):
        subject.judge({}, {f"merchant:{number}": CallReport(calls=1)})
    names: dict[str, set[str]] = {}
    for sample in (sample for family in metrics.registry.collect() for sample in family.samples):
        if "downstream" in sample.labels:
            names.setdefault(sample.name, set()).add(sample.labels["downstream"])
    kept = set(subject.status())
    assert len(kept) == NAMES_MAX
    assert {name: found ^ kept for name, found in names.items() if found != kept} == {}
