"""From status files and counters to the rules' values; what can't be seen is no value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from alerts.engine import AlertEngine, NoticeKind
from alerts.observation import DeadSummary, Observation
from alerts.readings import RECEIVER, Readings
from alerts.rules import make_rules
from alerts.settings import AlertsSettings
from alerts.silence import SLOT_S, WEEK, Silence
from core.clock import to_rfc3339
from dead_letters.rates import WINDOWS, Rate
from tests.unit.alerts.looks import NOW, WELL, Looks, counter


def test_depth_and_age_are_the_journals() -> None:
    oldest = NOW - timedelta(hours=30)
    values = Looks().of(
        Observation(dead={"ledger": DeadSummary(7, oldest), "notify": DeadSummary(0, None), "own": None}), 0
    )
    assert values["dlq_depth", "ledger"] == 7
    assert values["dlq_age", "ledger"] == values["dlq_escalation", "ledger"] == 30 * 3_600
    assert values["dlq_depth", "notify"] == values["dlq_age", "notify"] == 0
    assert values["dlq_depth", "own"] is None and values["dlq_age", "own"] is None


def test_the_depth_of_a_stream_is_that_of_all_its_shards_and_an_age_is_one_shards() -> None:
    oldest = NOW - timedelta(hours=50)
    dead = {"ledger": DeadSummary(60, None), "ledger.1": DeadSummary(50, oldest), "ledger-test": DeadSummary(1, None)}
    values = Looks().of(Observation(dead={**dead, "ledger-test.1": None}), 0)
    assert {subject: value for (rule, subject), value in values.items() if rule == "dlq_depth"} == {
        "ledger": 110,
        "ledger-test": None,
    }
    assert values["dlq_escalation", "ledger.1"] == 50 * 3_600 and values["dlq_escalation", "ledger"] == 0


@pytest.mark.row("A8")
def test_the_depth_says_how_fast_the_dead_of_all_shards_come_and_go() -> None:
    def dead(depth: int, inflow: int, outflow: int) -> DeadSummary:
        return DeadSummary(
            depth, None, tuple(Rate.from_counts(window_s, inflow, outflow, depth) for window_s in WINDOWS)
        )

    seen = Observation(dead={"ledger": dead(200, 200, 0), "ledger.1": dead(100, 100, 0), "notify": dead(0, 0, 5)})
    notes = {
        reading.subject: reading.note
        for reading in Readings().make_readings(seen, NOW, 0.0)
        if reading.rule == "dlq_depth"
    }
    assert notes["ledger"] == (
        "300 in, 0 out in the last 15 minutes (time to clear: never, at this rate), "
        "300 in, 0 out in the last hour (time to clear: never, at this rate), "
        "300 in, 0 out in the last 24 hours (time to clear: never, at this rate)"
    )
    assert notes["notify"].startswith("0 in, 5 out in the last 15 minutes (time to clear: no dead events), ")


def test_the_lag_of_a_stream_is_that_of_its_shards_whose_backlog_does_not_shrink() -> None:
    looks, seen = Looks(window_s=60), []
    for lag in range(10):
        statuses = {"ledger": 9_000 - 100 * lag, "ledger.1": 4_000, "ledger.2": 3_000 + lag}
        values = looks.of(
            Observation(statuses={name: WELL | {"catch_up": {"lag": lag}} for name, lag in statuses.items()})
        )
        assert {subject for rule, subject in values if rule == "lag"} == {"ledger"}
        seen.append(values["lag", "ledger"])
    assert seen[0] == 16_000 and seen[-1] == 7_009
    assert looks.of(Observation(statuses={"ledger": WELL, "ledger.1": None}))["lag", "ledger"] is None


@pytest.mark.parametrize("rule", ["not_ready", "refused", "dlq_publish", "retry_rate", "slo_burn"])
def test_what_is_wrong_with_one_shard_is_said_of_that_shard(rule: str) -> None:
    values = Looks().of(Observation(statuses={"ledger": WELL, "ledger.1": None}))
    assert {subject for name, subject in values if name == rule} == {"ledger", "ledger.1"}


def test_a_shard_that_is_silent_fires_by_its_name() -> None:
    engine, looks = AlertEngine(make_rules(AlertsSettings())), Readings()
    fired = []
    for at_s in range(0, 180, 15):
        now = NOW + timedelta(seconds=at_s)
        seen = Observation(statuses={"ledger": WELL, "ledger.1": None})
        fired += engine.judge_readings(looks.make_readings(seen, now, float(at_s)), now)
    assert [(notice.kind, notice.rule, notice.text) for notice in fired] == [
        (NoticeKind.FIRING, "not_ready", "ledger.1 is down, blocked or not ready")
    ]


@pytest.mark.parametrize(
    ("status", "ill"),
    [
        (WELL, 0),
        (None, 1),
        (WELL | {"ready": False}, 1),
        (WELL | {"blocked": "StorageDown: disk full"}, 1),
        ({"ready": True, "state": "off", "why": "nobody is told"}, 0),
    ],
)
def test_a_stream_is_not_ready_when_it_is_silent_blocked_or_says_so(status: Any, ill: float) -> None:
    values = Looks().of(Observation(receiver_ready=False, statuses={"ledger": status}))
    assert values["not_ready", "ledger"] == ill
    assert values["not_ready", RECEIVER] == 1


@pytest.mark.parametrize(("status", "refused"), [(WELL, 0), ({"ready": False, "state": "refused"}, 1), (None, None)])
def test_a_stream_that_waits_for_a_persons_decision_says_so(status: Any, refused: float | None) -> None:
    assert Looks().of(Observation(statuses={"ledger": status}))["refused", "ledger"] == refused


def test_what_only_a_stream_knows_is_unknown_while_it_is_silent() -> None:
    values = Looks().of(Observation(statuses={"ledger": None}))
    for rule in ("dlq_publish", "lag", "retry_rate", "slo_burn"):
        assert values[rule, "ledger"] is None
    assert values["redis_slow", ""] is None


def test_the_oldest_unpublished_letters_wait_is_the_streams_word() -> None:
    assert Looks().of(Observation(statuses={"ledger": WELL | {"unpublished_s": 75.5}}))["dlq_publish", "ledger"] == 75.5


@pytest.mark.parametrize("odd", [None, "7", [], {"lag": "many"}, {"lag": True}])
def test_a_status_that_says_something_else_is_unknown(odd: object) -> None:
    values = Looks().of(Observation(statuses={"ledger": WELL | {"unpublished_s": odd, "catch_up": odd}}))
    assert values["dlq_publish", "ledger"] is None and values["lag", "ledger"] is None
    assert values["not_ready", "ledger"] == 0.0


def test_a_backlog_that_shrinks_is_no_lag() -> None:
    looks, seen = Looks(window_s=60), []
    for lag in (50_000, 60_000, 70_000, 70_000, 70_000, 65_000, 60_000, 55_000, 54_000):
        seen.append(looks.of(Observation(statuses={"ledger": WELL | {"catch_up": {"lag": lag}}}))["lag", "ledger"])
    assert seen == [50_000, 60_000, 70_000, 70_000, 70_000, 65_000, 0, 0, 0]


def test_few_events_that_hold_back_most_others_are_named() -> None:
    heads = {"head_of_line": True, "held_by": "stripe:evt_1:charge"}
    readings = Readings()
    seen = Observation(
        statuses={"ledger": WELL | {"heads": heads}, "notify": WELL | {"heads": {"head_of_line": False}}}
    )
    by_stream = {
        reading.subject: reading for reading in readings.make_readings(seen, NOW, 0.0) if reading.rule == "head_of_line"
    }
    assert {name: reading.value for name, reading in by_stream.items()} == {"ledger": 1.0, "notify": 0.0}
    assert by_stream["ledger"].note == "most wait behind stripe:evt_1:charge"
    assert Looks().of(Observation(statuses={"ledger": WELL}))["head_of_line", "ledger"] is None


@pytest.mark.parametrize("rule", ["backup", "verification", "maintenance"])
def test_what_a_round_left_is_read_where_one_is_made_and_an_alert_on_it_is_unwatched_where_none_is(rule: str) -> None:
    engine, looks = AlertEngine(make_rules(AlertsSettings())), Readings()

    def look(rounds: Mapping[str, float | None]) -> list[NoticeKind]:
        return [
            notice.kind
            for notice in engine.judge_readings(looks.make_readings(Observation(rounds=rounds), NOW, 0.0), NOW)
        ]

    assert look({rule: 2.5}) == [NoticeKind.FIRING]
    assert look({rule: None}) == [] and engine.alerts[0].unknown, "it is made, and can't be read"
    assert look({}) == [NoticeKind.UNWATCHED]


WHAT = "stripe: made_up.funds_moved"


class UnknownLooks:
    """Looks once a minute, at journals of which each says how many events are unknown, or can't be read (None)."""

    def __init__(self, readings: Readings | None = None) -> None:
        self.engine, self.readings, self.at_s = AlertEngine(make_rules(AlertsSettings())), readings or Readings(), 0.0

    def look(self, **unknown: int | None) -> list[tuple[NoticeKind, str]]:
        self.at_s += 60.0
        now = NOW + timedelta(seconds=self.at_s)
        dead = {
            stream: None if events is None else DeadSummary(0, None, unknown={WHAT: events} if events else {})
            for stream, events in unknown.items()
        }
        notices = self.engine.judge_readings(self.readings.make_readings(Observation(dead=dead), now, self.at_s), now)
        return [(notice.kind, notice.subject) for notice in notices]

    def fire(self) -> None:
        said = [self.look(ledger=1, notify=0) for _ in range(6)]
        assert said == [[]] * 5 + [[(NoticeKind.FIRING, WHAT)]]


def test_unknown_events_of_a_journal_that_cannot_be_read_are_not_over() -> None:
    looks = UnknownLooks()
    looks.fire()
    unread = [looks.look(ledger=None, notify=0) for _ in range(10)]
    assert unread == [[]] * 10 and looks.engine.alerts[0].unknown
    assert [looks.look(ledger=1, notify=0) for _ in range(10)] == [[]] * 10
    assert not looks.engine.alerts[0].unknown
    assert [looks.look(ledger=2, notify=None) for _ in range(10)] == [[]] * 10, "one that is read counts it"
    assert not looks.engine.alerts[0].unknown


def test_unknown_events_are_over_once_none_was_there_for_a_while() -> None:
    looks = UnknownLooks()
    looks.fire()
    assert looks.look(ledger=0, notify=0) == []
    assert looks.look(ledger=1, notify=0) == []
    assert looks.look(ledger=0, notify=0) == []
    assert looks.look(ledger=None, notify=0) == [], "it isn't known to be gone"
    assert [looks.look(ledger=0, notify=0) for _ in range(3)] == [[], [], [(NoticeKind.RECOVERED, WHAT)]]
    looks.look(ledger=0, notify=0)
    readings = looks.readings.make_readings(Observation(dead={"ledger": None}), NOW, looks.at_s + 60.0)
    assert not [reading for reading in readings if reading.rule == "unknown"], "what is over isn't remembered"


def test_unknown_events_that_fired_before_a_restart_are_not_over_while_their_journal_is_read() -> None:
    looks = UnknownLooks()
    looks.fire()
    looks.readings = Readings(unknown=[WHAT])
    assert [looks.look(ledger=None, notify=0) for _ in range(5)] == [[]] * 5
    assert looks.look(ledger=1, notify=0) == []


def test_an_endpoint_that_falls_silent_is_read_and_unknown_while_no_receiver_answers(tmp_path: Path) -> None:
    begun = int(NOW.timestamp()) // SLOT_S - 3 * WEEK
    counts = dict.fromkeys(range(begun, begun + 3 * WEEK - 12), 10)
    kept = {"slot_s": SLOT_S, "sources": {"stripe/eu": {"begun": begun, "counts": counts}}}
    (tmp_path / "rhythms.json").write_text(json.dumps(kept), "utf-8")
    readings = Readings(silence=Silence(tmp_path / "rhythms.json"))
    answered = counter("payhook_ingest_answers_total", 5.0, provider="stripe", process="ingest")
    verified = counter("payhook_ingest_verified_total", 5.0, endpoint="stripe/eu", process="ingest")
    [quiet] = [
        reading
        for reading in readings.make_readings(Observation(samples=dict([answered, verified])), NOW, 0.0)
        if reading.rule == "quiet"
    ]
    assert (quiet.subject, quiet.value) == ("stripe/eu", 1.0)
    assert "are usual" in quiet.note
    [unknown] = [reading for reading in readings.make_readings(Observation(), NOW, 15.0) if reading.rule == "quiet"]
    assert (unknown.subject, unknown.value) == ("stripe/eu", None)


def test_a_list_that_cannot_be_read_has_an_age_and_what_came_in_by_it_is_counted() -> None:
    said = {"problem": "stripe: no answer", "since": to_rfc3339(NOW - timedelta(minutes=20)), "fetched_day": 3}
    by_rule = {
        reading.rule: reading for reading in Readings().make_readings(Observation(caught_up={"stripe": said}), NOW, 0.0)
    }
    assert (by_rule["catch_up"].value, by_rule["catch_up"].note) == (1_200.0, "stripe: no answer")
    assert (by_rule["caught_up"].subject, by_rule["caught_up"].value) == ("stripe", 3.0)
    well = {"problem": None, "since": None, "fetched_day": 0}
    by_rule = {
        reading.rule: reading for reading in Readings().make_readings(Observation(caught_up={"stripe": well}), NOW, 0.0)
    }
    assert (by_rule["catch_up"].value, by_rule["caught_up"].value) == (0.0, 0.0)


@pytest.mark.parametrize(("reported", "value"), [(True, 1.0), (False, 0.0), (None, 0.0)])
def test_an_endpoint_that_its_provider_switched_off_is_an_alert(reported: bool | None, value: float) -> None:
    said = {"problem": None, "since": None, "fetched_day": 0, "switched_off": reported}
    by_rule = {
        reading.rule: reading for reading in Readings().make_readings(Observation(caught_up={"stripe": said}), NOW, 0.0)
    }
    assert (by_rule["switched_off"].subject, by_rule["switched_off"].value) == ("stripe", value)
