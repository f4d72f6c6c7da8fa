"""An alert fires once, is repeated at an interval, recovers once, and says nothing of what isn't known."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.engine import AlertEngine, AlertNotice, AlertState, NoticeKind
from alerts.rules import REPEAT_S, AlertReading, Severity, make_rules
from alerts.settings import AlertsSettings

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
SETTINGS = AlertsSettings()


class ClockedEngine:
    """An engine, and a clock that a test moves."""

    def __init__(self, settings: AlertsSettings = SETTINGS) -> None:
        self.settings = settings
        self.now = START
        self.engine = self._engine()

    def _engine(self, old: AlertEngine | None = None) -> AlertEngine:
        known = old.alerts if old is not None else ()
        every = make_rules(self.settings)
        return AlertEngine(every, known)

    def restart(self) -> None:
        self.engine = self._engine(self.engine)

    def look(self, value: float | None, rule: str = "dlq_depth", after_s: float = 15) -> list[AlertNotice]:
        self.now += timedelta(seconds=after_s)
        return self.engine.judge_readings([AlertReading(rule, "ledger", value)], self.now)

    def kinds(self, value: float | None, rule: str = "dlq_depth", after_s: float = 15) -> list[NoticeKind]:
        return [notice.kind for notice in self.look(value, rule, after_s)]


@pytest.fixture
def looks() -> Iterator[ClockedEngine]:
    yield ClockedEngine()


@pytest.mark.row("A19")
@pytest.mark.parametrize("rule", make_rules(SETTINGS))
def test_each_condition_fires_once_above_its_threshold_repeats_and_recovers_once(
    looks: ClockedEngine, rule: str
) -> None:
    well, for_s = make_rules(SETTINGS)[rule].threshold, make_rules(SETTINGS)[rule].for_s
    ill = math.nextafter(well, math.inf)
    assert looks.kinds(well, rule) == []
    assert looks.kinds(ill, rule) == ([NoticeKind.FIRING] if for_s == 0 else [])
    if for_s:
        assert looks.kinds(ill, rule, for_s - 1) == []
        assert looks.kinds(ill, rule, 1) == [NoticeKind.FIRING]
    assert looks.kinds(ill, rule) == []
    assert looks.kinds(ill, rule, make_rules(SETTINGS)[rule].repeat_s) == [NoticeKind.REPEAT]
    assert looks.kinds(0, rule) == []
    assert looks.kinds(0, rule, 120) == [NoticeKind.RECOVERED]
    assert looks.kinds(0, rule, 99_999) == [] and looks.engine.alerts == []


def test_a_condition_that_ends_before_its_time_was_never_an_alert(looks: ClockedEngine) -> None:
    assert looks.kinds(1, "not_ready") == []
    assert looks.kinds(0, "not_ready", 60) == []
    assert looks.kinds(1, "not_ready", 119) == [] and looks.kinds(1, "not_ready", 119) == []


def test_a_value_that_swings_about_its_threshold_is_one_alert(looks: ClockedEngine) -> None:
    reported = [kind for _ in range(20) for value in (101, 99, 85) for kind in looks.kinds(value)]
    assert reported == [NoticeKind.FIRING]
    reported = [kind for _ in range(20) for value in (70, 70, 70, 90) for kind in looks.kinds(value)]
    assert reported == [], "it has never been low for long enough"
    assert looks.kinds(80) == [] and looks.kinds(80, after_s=120) == [NoticeKind.RECOVERED]


def test_what_is_not_known_neither_fires_nor_recovers_but_is_reported_again(looks: ClockedEngine) -> None:
    assert looks.kinds(None) == []
    assert looks.kinds(101) == [NoticeKind.FIRING]
    assert looks.kinds(None, after_s=1_000) == []
    assert looks.engine.alerts[0].unknown
    assert looks.kinds(None, after_s=REPEAT_S - 1_000) == [NoticeKind.REPEAT]
    assert looks.kinds(0) == [] and looks.kinds(None) == [], "the time in which it seemed over doesn't count on"
    assert looks.kinds(0, after_s=200) == [] and looks.kinds(0, after_s=120) == [NoticeKind.RECOVERED]


def test_a_stream_that_the_settings_no_longer_name_is_not_reported_as_recovered(looks: ClockedEngine) -> None:
    (first,) = looks.look(101)
    (last,) = looks.engine.judge_readings([], looks.now + timedelta(minutes=5))
    assert (last.kind, last.notice_id) == (NoticeKind.UNWATCHED, f"{first.alert}#2")
    assert last.text.startswith(
        "no longer watched: it, or its credentials, were removed from the settings; it began 5 min ago: "
    )
    assert looks.engine.alerts == [] and looks.engine.judge_readings([], looks.now) == []


def test_a_notice_counts_events_where_its_rule_does_and_has_the_cause_that_was_seen(looks: ClockedEngine) -> None:
    (dead,) = looks.look(132)
    assert (dead.count, dead.cause) == (132, "")
    (down,) = looks.engine.judge_readings([AlertReading("refused", "ledger", 1.0, cause="another history")], looks.now)[
        :1
    ]
    assert (down.rule, down.count, down.cause) == ("refused", None, "another history")


def test_notices_of_one_alert_have_its_name_and_a_number_and_the_next_one_has_another_name(
    looks: ClockedEngine,
) -> None:
    (first,) = looks.look(132)
    (again,) = looks.look(140, after_s=REPEAT_S)
    looks.look(0)
    (over,) = looks.look(0, after_s=180)
    (later,) = looks.look(200)
    assert first.alert == again.alert == over.alert == "dlq_depth/ledger/2026-01-31T12:00:15.000000Z"
    assert [one.number for one in (first, again, over, later)] == [1, 2, 3, 1]
    assert later.alert != first.alert
    assert (first.text, first.severity) == ("132 dead events of ledger need an operator", Severity.WARNING)
    assert over.text == "over after 243 min; it was: 140 dead events of ledger need an operator"
    assert first.runbook == "docs/runbook.md#alert-dlq_depth"
    assert AlertNotice.from_tree(first.as_tree()) == first


@pytest.mark.parametrize("value", [101, 0])
def test_a_restart_tells_nothing_twice_and_forgets_nothing(looks: ClockedEngine, value: int) -> None:
    (first,) = looks.look(101)
    looks.restart()
    assert looks.kinds(value) == []
    looks.restart()
    (then,) = looks.look(value, after_s=REPEAT_S)
    assert (then.kind, then.alert) == (NoticeKind.REPEAT if value else NoticeKind.RECOVERED, first.alert)


def test_a_clock_that_ran_ahead_silences_nothing(looks: ClockedEngine) -> None:
    looks.now += timedelta(days=365)
    (first,) = looks.look(101)
    looks.now = START
    assert looks.kinds(101) == []
    (again,) = looks.look(101, after_s=REPEAT_S)
    assert (again.kind, again.alert) == (NoticeKind.REPEAT, first.alert)
    assert looks.kinds(0) == [] and looks.kinds(0, after_s=120) == [NoticeKind.RECOVERED]


@given(st.lists(st.tuples(st.sampled_from([None, 0.0, 85.0, 101.0, 500.0]), st.integers(1, 5_000)), max_size=60))
def test_whatever_comes_firing_and_over_take_turns(values: list[tuple[float | None, int]]) -> None:
    looks = ClockedEngine()
    reported = [kind for value, after_s in values for kind in looks.kinds(value, after_s=after_s)]
    turns = [kind for kind in reported if kind is not NoticeKind.REPEAT]
    assert turns == [NoticeKind.FIRING, NoticeKind.RECOVERED] * (len(turns) // 2) + [NoticeKind.FIRING] * (
        len(turns) % 2
    )
    firing = bool(turns) and turns[-1] is NoticeKind.FIRING
    assert firing == any(alert.state is AlertState.FIRING for alert in looks.engine.alerts)
    assert reported[:1] in ([], [NoticeKind.FIRING])
