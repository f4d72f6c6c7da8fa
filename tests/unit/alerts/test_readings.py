"""From status files and counters to the rules' values; what can't be seen is no value."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from alerts.engine import Alert, AlertEngine, NoticeKind
from alerts.readings import BY_DOWNSTREAM, RECEIVER, DeadSummary, Observation, Readings, Series, Window
from alerts.rules import DOWN_S_MAX, FAILING_S_MAX, SLOW_S, SLOW_SHARE_MAX, WINDOW_S, make_rules
from alerts.settings import AlertsSettings
from alerts.silence import SLOT_S, WEEK, Silence
from core.clock import to_rfc3339
from core.metrics import REQUEST_BUCKETS_S
from dead_letters.rates import WINDOWS, Rate

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
WELL = {"ready": True, "blocked": None, "unpublished_s": 0.0, "catch_up": {"lag": 3}}


def counter(name: str, value: float, **labels: str) -> tuple[Series, float]:
    return (name, tuple(sorted(labels.items()))), value


def decisions(**counts: float) -> dict[Series, float]:
    return dict(
        counter("payhook_decisions_total", value, stream="ledger", decision=name, process="processor", attempt="0")
        for name, value in counts.items()
    )


def answers(**counts: float) -> dict[Series, float]:
    return dict(counter("payhook_sli_events_total", n, stream="ledger", outcome=name) for name, n in counts.items())


def claims(quick: float, every: float) -> dict[Series, float]:
    name = "payhook_redis_claim_seconds"
    return dict([counter(f"{name}_bucket", quick, le="0.01"), counter(f"{name}_count", every)])


def requests(**counts: float) -> dict[Series, float]:
    return dict(counter("payhook_ingest_answers_total", n, provider=name, status="400") for name, n in counts.items())


class Looks:
    """Looks every 15 s."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self.readings = Readings(window_s)
        self.at_s = 0.0

    def of(self, seen: Observation, after_s: float = 15.0) -> Mapping[tuple[str, str], float | None]:
        self.at_s += after_s
        now = NOW + timedelta(seconds=self.at_s)
        return {(one.rule, one.subject): one.value for one in self.readings.make_readings(seen, now, self.at_s)}

    def samples(self, samples: Mapping[Series, float], after_s: float = 15.0) -> Mapping[tuple[str, str], float | None]:
        return self.of(Observation(statuses={"ledger": WELL}, samples=samples), after_s)


def test_depth_and_age_are_the_journals() -> None:
    oldest = NOW - timedelta(hours=30)
    found = Looks().of(
        Observation(dead={"ledger": DeadSummary(7, oldest), "notify": DeadSummary(0, None), "own": None}), 0
    )
    assert found["dlq_depth", "ledger"] == 7
    assert found["dlq_age", "ledger"] == found["dlq_escalation", "ledger"] == 30 * 3_600
    assert found["dlq_depth", "notify"] == found["dlq_age", "notify"] == 0
    assert found["dlq_depth", "own"] is None and found["dlq_age", "own"] is None


def test_the_depth_of_a_stream_is_that_of_all_its_shards_and_an_age_is_one_shards() -> None:
    oldest = NOW - timedelta(hours=50)
    dead = {"ledger": DeadSummary(60, None), "ledger.1": DeadSummary(50, oldest), "ledger-test": DeadSummary(1, None)}
    found = Looks().of(Observation(dead={**dead, "ledger-test.1": None}), 0)
    assert {subject: value for (rule, subject), value in found.items() if rule == "dlq_depth"} == {
        "ledger": 110,
        "ledger-test": None,
    }
    assert found["dlq_escalation", "ledger.1"] == 50 * 3_600 and found["dlq_escalation", "ledger"] == 0


@pytest.mark.row("A8")
def test_the_depth_says_how_fast_the_dead_of_all_shards_come_and_go() -> None:
    def dead(depth: int, inflow: int, outflow: int) -> DeadSummary:
        return DeadSummary(
            depth, None, tuple(Rate.from_counts(window_s, inflow, outflow, depth) for window_s in WINDOWS)
        )

    seen = Observation(dead={"ledger": dead(200, 200, 0), "ledger.1": dead(100, 100, 0), "notify": dead(0, 0, 5)})
    notes = {one.subject: one.note for one in Readings().make_readings(seen, NOW, 0.0) if one.rule == "dlq_depth"}
    assert notes["ledger"] == (
        "300 in, 0 out in the last 15 minutes (time to clear: never, at this rate), "
        "300 in, 0 out in the last hour (time to clear: never, at this rate), "
        "300 in, 0 out in the last 24 hours (time to clear: never, at this rate)"
    )
    assert notes["notify"].startswith("0 in, 5 out in the last 15 minutes (time to clear: nothing is dead), ")


def test_the_lag_of_a_stream_is_that_of_its_shards_whose_backlog_does_not_shrink() -> None:
    looks, seen = Looks(window_s=60), []
    for lag in range(10):
        statuses = {"ledger": 9_000 - 100 * lag, "ledger.1": 4_000, "ledger.2": 3_000 + lag}
        found = looks.of(
            Observation(statuses={name: WELL | {"catch_up": {"lag": lag}} for name, lag in statuses.items()})
        )
        assert {subject for rule, subject in found if rule == "lag"} == {"ledger"}
        seen.append(found["lag", "ledger"])
    assert seen[0] == 16_000 and seen[-1] == 7_009
    assert looks.of(Observation(statuses={"ledger": WELL, "ledger.1": None}))["lag", "ledger"] is None


@pytest.mark.parametrize("rule", ["not_ready", "refused", "dlq_publish", "retry_rate", "slo_burn"])
def test_what_is_wrong_with_one_shard_is_said_of_that_shard(rule: str) -> None:
    found = Looks().of(Observation(statuses={"ledger": WELL, "ledger.1": None}))
    assert {subject for one, subject in found if one == rule} == {"ledger", "ledger.1"}


def test_a_shard_that_is_silent_fires_by_its_name() -> None:
    engine, looks = AlertEngine(make_rules(AlertsSettings())), Readings()
    fired = []
    for at_s in range(0, 180, 15):
        now = NOW + timedelta(seconds=at_s)
        seen = Observation(statuses={"ledger": WELL, "ledger.1": None})
        fired += engine.judge_readings(looks.make_readings(seen, now, float(at_s)), now)
    assert [(one.kind, one.rule, one.text) for one in fired] == [
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
    found = Looks().of(Observation(receiver_ready=False, statuses={"ledger": status}))
    assert found["not_ready", "ledger"] == ill
    assert found["not_ready", RECEIVER] == 1


@pytest.mark.parametrize(("status", "refused"), [(WELL, 0), ({"ready": False, "state": "refused"}, 1), (None, None)])
def test_a_stream_that_waits_for_a_persons_decision_says_so(status: Any, refused: float | None) -> None:
    assert Looks().of(Observation(statuses={"ledger": status}))["refused", "ledger"] == refused


def test_what_only_a_stream_knows_is_unknown_while_it_is_silent() -> None:
    found = Looks().of(Observation(statuses={"ledger": None}))
    for rule in ("dlq_publish", "lag", "retry_rate", "slo_burn"):
        assert found[rule, "ledger"] is None
    assert found["redis_slow", ""] is None


def test_the_oldest_unpublished_letters_wait_is_the_streams_word() -> None:
    assert Looks().of(Observation(statuses={"ledger": WELL | {"unpublished_s": 75.5}}))["dlq_publish", "ledger"] == 75.5


@pytest.mark.parametrize("odd", [None, "7", [], {"lag": "many"}, {"lag": True}])
def test_a_status_that_says_something_else_is_unknown(odd: object) -> None:
    found = Looks().of(Observation(statuses={"ledger": WELL | {"unpublished_s": odd, "catch_up": odd}}))
    assert found["dlq_publish", "ledger"] is None and found["lag", "ledger"] is None
    assert found["not_ready", "ledger"] == 0.0


def test_a_backlog_that_shrinks_is_no_lag() -> None:
    looks, seen = Looks(window_s=60), []
    for lag in (50_000, 60_000, 70_000, 70_000, 70_000, 65_000, 60_000, 55_000, 54_000):
        seen.append(looks.of(Observation(statuses={"ledger": WELL | {"catch_up": {"lag": lag}}}))["lag", "ledger"])
    assert seen == [50_000, 60_000, 70_000, 70_000, 70_000, 65_000, 0, 0, 0]


def test_the_share_of_retries_is_of_tries_alone() -> None:
    looks = Looks(window_s=60)
    looks.samples(decisions(applied=1_000, duplicate=50, retry=0))
    found = looks.samples(decisions(applied=1_085, duplicate=90_000, retry=10, dead=5))
    assert found["retry_rate", "ledger"] == pytest.approx(0.1)


def test_too_few_tries_are_no_share_and_unknown_before_the_window_is_full() -> None:
    looks = Looks(window_s=60)
    assert looks.samples(decisions(applied=0, retry=0))["retry_rate", "ledger"] is None
    values = [looks.samples(decisions(applied=0, retry=number))["retry_rate", "ledger"] for number in range(1, 6)]
    assert values == [None, None, None, 0.0, 0.0]


def test_a_process_that_began_anew_is_counted_from_zero() -> None:
    looks = Looks(window_s=60)
    looks.samples(decisions(applied=9_000, retry=900))
    looks.samples({})
    found = looks.samples(decisions(applied=190, retry=10))
    assert found["retry_rate", "ledger"] == pytest.approx(0.05)


def test_a_label_that_comes_up_late_is_counted_from_zero() -> None:
    looks = Looks(window_s=60)
    looks.samples(decisions(applied=1_000))
    assert looks.samples(decisions(applied=1_150, retry=50))["retry_rate", "ledger"] == pytest.approx(0.25)


def test_claims_are_slow_by_the_share_above_the_bound() -> None:
    looks = Looks(window_s=60)
    looks.samples(claims(1_000, 1_000))
    assert looks.samples(claims(1_970, 2_000))["redis_slow", ""] == pytest.approx(0.03)
    assert looks.samples(claims(1_970, 9_000), after_s=600)["redis_slow", ""] == pytest.approx(1.0)


def test_ten_slow_claims_of_a_thousand_are_one_in_a_hundred_and_no_more() -> None:
    looks = Looks(window_s=60)
    looks.samples(claims(0, 0))
    assert looks.samples(claims(990, 1_000))["redis_slow", ""] == SLOW_SHARE_MAX


def test_four_slow_claims_are_no_share_and_a_fifth_makes_them_one() -> None:
    looks = Looks(window_s=60)
    for every in range(5):
        found = looks.samples(claims(0, every))
    assert found["redis_slow", ""] == 0.0
    assert looks.samples(claims(4, 9))["redis_slow", ""] == 0.0
    assert looks.samples(claims(4, 12))["redis_slow", ""] == pytest.approx(6 / 10)


def slow_redis_notices(slow_looks: Collection[int], looks: int, claims_a_look: float) -> list[tuple[int, NoticeKind]]:
    """What is read of Redis in so many looks, of which all claims are slow in some and none in the others."""
    settings = AlertsSettings()
    readings, reported, quick = Readings(), [], 0.0
    engine = AlertEngine(make_rules(settings))
    for look in range(looks):
        at_s = look * settings.every_s
        now = NOW + timedelta(seconds=at_s)
        quick += 0 if look in slow_looks else claims_a_look
        found = readings.make_readings(Observation(samples=claims(quick, (look + 1) * claims_a_look)), now, at_s)
        reported += [(look, notice.kind) for notice in engine.judge_readings(found, now) if notice.rule == "redis_slow"]
    return reported


@pytest.mark.parametrize("slow_looks", [{100}, set(range(100, 118))], ids=["15 s", "270 s"])
def test_one_burst_of_slow_claims_is_no_alert(slow_looks: set[int]) -> None:
    assert slow_redis_notices(slow_looks, 300, 1_000) == []


@pytest.mark.row("A19")
def test_slow_claims_are_an_alert_once_two_windows_are_full_of_them_and_over_a_window_later() -> None:
    """20 looks are a window; the first slow share is seen at look 100."""
    fired, over = slow_redis_notices(range(100, 160), 300, 1_000)
    assert fired == (140, NoticeKind.FIRING)
    assert over[1] is NoticeKind.RECOVERED and 160 + 20 <= over[0] <= 160 + 20 + 10


@pytest.mark.parametrize("claims_a_look", [40, 0.75, 0.25], ids=["160 a minute", "3 a minute", "1 a minute"])
def test_slow_claims_are_an_alert_at_a_few_claims_a_minute_too(claims_a_look: float) -> None:
    fired, over = slow_redis_notices(range(100, 200), 300, claims_a_look)
    assert fired[1] is NoticeKind.FIRING and 140 <= fired[0] <= 165
    assert over[1] is NoticeKind.RECOVERED


def test_a_slow_claim_now_and_then_is_no_alert() -> None:
    """One in five minutes, of fifteen."""
    assert slow_redis_notices(range(100, 300, 20), 400, 0.75) == []


def test_few_events_that_hold_back_most_others_are_named() -> None:
    heads = {"head_of_line": True, "held_by": "stripe:evt_1:charge"}
    readings = Readings()
    seen = Observation(
        statuses={"ledger": WELL | {"heads": heads}, "notify": WELL | {"heads": {"head_of_line": False}}}
    )
    found = {one.subject: one for one in readings.make_readings(seen, NOW, 0.0) if one.rule == "head_of_line"}
    assert {name: one.value for name, one in found.items()} == {"ledger": 1.0, "notify": 0.0}
    assert found["ledger"].note == "most wait behind stripe:evt_1:charge"
    assert Looks().of(Observation(statuses={"ledger": WELL}))["head_of_line", "ledger"] is None


def test_a_bound_that_is_no_edge_says_nothing() -> None:
    looks = Looks(window_s=60)
    for every in (0, 9_000):
        name = "payhook_redis_claim_seconds"
        found = looks.samples(dict([counter(f"{name}_bucket", 0, le="0.02"), counter(f"{name}_count", every)]))
    assert found["redis_slow", ""] is None


def test_the_bound_of_slow_claims_is_an_edge_of_the_histogram() -> None:
    assert SLOW_S in REQUEST_BUCKETS_S


@pytest.mark.row("A17")
def test_the_promise_burns_when_it_is_missed_now_and_over_the_hour() -> None:
    looks = Looks(window_s=300)
    looks.samples(answers(in_time=0, late=0, failed=0, waited=0))
    found = looks.samples(answers(in_time=900, late=60, failed=40, waited=5_000, set_aside=7_000))
    assert found["slo_burn", "ledger"] == pytest.approx(0.1)
    found = looks.samples(answers(in_time=1_900, late=60, failed=40), after_s=600)
    assert found["slo_burn", "ledger"] == 0.0, "it was, and isn't any more"
    found = looks.samples(answers(in_time=99_900, late=160, failed=40), after_s=600)
    assert found["slo_burn", "ledger"] == pytest.approx(100 / 98_100)


def test_a_provider_that_no_page_names_is_unknown_and_one_that_others_came_without_has_no_requests() -> None:
    """A receiver that was restarted names a provider with its first request."""
    looks = Looks()
    assert looks.samples(requests(stripe=100))["signatures", "stripe"] == 0.0
    assert looks.samples({})["signatures", "stripe"] is None
    assert looks.samples(requests(adyen=1))["signatures", "stripe"] == 0.0


def test_the_hour_decides_whether_there_are_events_enough() -> None:
    """Twelve a minute: 60 in five minutes, and more than a hundred in the hour. Prometheus asks for them there too."""
    looks = Looks()
    seen = [looks.samples(answers(in_time=0, failed=3 * look))["slo_burn", "ledger"] for look in range(240)]
    assert seen[19] is None and set(seen[20:34]) == {0.0}
    assert set(seen[34:]) == {1.0}
    seen = [looks.samples(answers(in_time=0, failed=717))["slo_burn", "ledger"] for _ in range(20)]
    assert seen[-1] == 0.0, "none came for five minutes"


def test_a_window_forgets_what_is_older() -> None:
    window, (series, _) = Window(60), counter("a", 0)
    for at_s in range(0, 600, 15):
        window.read(at_s, {series: float(at_s)})
    assert window.sum_gained([series], [series], 60) == 60
    assert window.find_earlier(series, 60) == 525 and window.find_earlier(series, 600) is None
    assert window.spans(60) and not window.spans(120)


@pytest.mark.parametrize("rule", ["backup", "verification", "maintenance"])
def test_what_a_round_left_is_read_where_one_is_made_and_an_alert_on_it_is_unwatched_where_none_is(rule: str) -> None:
    engine, looks = AlertEngine(make_rules(AlertsSettings())), Readings()

    def look(rounds: Mapping[str, float | None]) -> list[NoticeKind]:
        return [
            one.kind for one in engine.judge_readings(looks.make_readings(Observation(rounds=rounds), NOW, 0.0), NOW)
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
        return [(one.kind, one.subject) for one in notices]

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
    found = looks.readings.make_readings(Observation(dead={"ledger": None}), NOW, looks.at_s + 60.0)
    assert not [one for one in found if one.rule == "unknown"], "what is over isn't remembered"


def test_unknown_events_that_fired_before_a_restart_are_not_over_while_their_journal_is_read() -> None:
    looks = UnknownLooks()
    looks.fire()
    looks.readings = Readings(unknown=[WHAT])
    assert [looks.look(ledger=None, notify=0) for _ in range(5)] == [[]] * 5
    assert looks.look(ledger=1, notify=0) == []


def downstream(since_s: float | None = None, failing_s: float | None = None, why: str = "") -> dict[str, Any]:
    """As a status has it, ``since_s`` and ``failing_s`` after the first look."""

    def at(after_s: float | None) -> str | None:
        return None if after_s is None else to_rfc3339(NOW + timedelta(seconds=after_s))

    return {"state": "open", "since": at(since_s), "failing_since": at(failing_s), "why": why, "next_try_at": at(4_000)}


class Alerting:
    """Looks every 15 s, and the notices that come of it."""

    def __init__(self, remembered: Collection[Alert] = ()) -> None:
        subjects = [alert.subject for alert in remembered]
        self.readings, self.engine = (
            Readings(downstreams=subjects),
            AlertEngine(make_rules(AlertsSettings()), remembered),
        )
        self.at_s = 0.0

    def look(self, seen: Observation, after_s: float = 15.0) -> list[tuple[str, str, NoticeKind]]:
        self.at_s += after_s
        now = NOW + timedelta(seconds=self.at_s)
        of_waits = [one for one in self.readings.make_readings(seen, now, self.at_s) if one.rule in BY_DOWNSTREAM]
        self.notices = self.engine.judge_readings(of_waits, now)
        return [(one.rule, one.subject, one.kind) for one in self.notices]


def saying(**downstreams: dict[str, Any]) -> Observation:
    named = {name.replace("_", ":"): one for name, one in downstreams.items()}
    return Observation(statuses={"notify": {**WELL, "downstreams": named}})


FAILING = saying(subscriber_shop=downstream(0, 0, "NotTaken: answered 500"))
BREAKER, SUBSCRIBER = ("breaker_open", "notify subscriber:shop"), ("subscriber_failing", "notify subscriber:shop")


def test_a_subscriber_that_is_down_is_told_of_and_over_when_it_takes_events_again() -> None:
    alerts = Alerting()
    assert alerts.look(FAILING, DOWN_S_MAX) == []
    assert alerts.look(FAILING, 1) == [(*BREAKER, NoticeKind.FIRING)]
    [notice] = alerts.notices
    assert notice.text == (
        "notify subscriber:shop has not been called as usual for 301 s; its events wait; "
        "NotTaken: answered 500, next try at 2026-01-31T13:06:40.000000Z"
    )
    assert alerts.look(FAILING, FAILING_S_MAX - DOWN_S_MAX) == [(*SUBSCRIBER, NoticeKind.FIRING)]
    well = saying(subscriber_shop=downstream())
    assert alerts.look(well) == []
    assert alerts.look(well, 120) == [(*BREAKER, NoticeKind.RECOVERED), (*SUBSCRIBER, NoticeKind.RECOVERED)]


def test_a_subscriber_that_refuses_every_event_is_told_of_though_its_breaker_is_closed() -> None:
    refusing = saying(subscriber_shop=downstream(None, 0, "NotTaken: answered 404"))
    assert Alerting().look(refusing, FAILING_S_MAX + 1) == [(*SUBSCRIBER, NoticeKind.FIRING)]


def test_a_downstream_of_the_ledger_is_told_of_as_down_alone() -> None:
    seen = Observation(statuses={"ledger": {**WELL, "downstreams": {"merchants": downstream(0, 0)}}})
    assert Alerting().look(seen, 2_000) == [("breaker_open", "ledger merchants", NoticeKind.FIRING)]


def test_a_stream_that_says_nothing_now_ends_no_alert_and_one_that_is_gone_recovers_none() -> None:
    alerts = Alerting()
    alerts.look(FAILING, 1_000)
    for silent in (None, {"ready": False, "state": "failed"}):
        assert alerts.look(Observation(statuses={"notify": silent}), 400) == []
    later = Alerting(alerts.engine.alerts)
    later.at_s = alerts.at_s
    assert later.look(Observation(statuses={"notify": None}), 400) == [], "a process that begins knows of it"
    assert {kind for *_, kind in later.look(Observation(statuses={}))} == {NoticeKind.UNWATCHED}


def test_after_a_restart_a_downstream_at_rest_that_is_named_no_more_is_over() -> None:
    alerts = Alerting()
    alerts.look(FAILING, 1_000)
    assert alerts.look(saying()) == []
    assert {kind for *_, kind in alerts.look(saying(), 120)} == {NoticeKind.RECOVERED}


def test_a_subscriber_that_answered_410_is_told_of_at_once_and_over_once_it_is_enabled() -> None:
    alerts = Alerting()
    about = "subscriber_failing", "subscriber:shop"
    assert alerts.look(Observation(subscribers={"shop": NOW, "bank": None})) == [(*about, NoticeKind.FIRING)]
    assert "payhook notify enable shop" in alerts.notices[0].text
    assert alerts.look(Observation(subscribers=None)) == [], "the file can't be read"
    assert alerts.look(Observation(subscribers={"shop": None, "bank": None})) == []
    assert alerts.look(Observation(subscribers={"shop": None, "bank": None}), 120) == [(*about, NoticeKind.RECOVERED)]
    alerts.look(Observation(subscribers={"shop": NOW}))
    assert alerts.look(Observation(subscribers={})) == [(*about, NoticeKind.UNWATCHED)]


# what providers generate and don't deliver


def test_an_endpoint_that_falls_silent_is_read_and_unknown_while_no_receiver_answers(tmp_path: Path) -> None:
    begun = int(NOW.timestamp()) // SLOT_S - 3 * WEEK
    counts = dict.fromkeys(range(begun, begun + 3 * WEEK - 12), 10)
    kept = {"slot_s": SLOT_S, "sources": {"stripe/eu": {"begun": begun, "counts": counts}}}
    (tmp_path / "rhythms.json").write_text(json.dumps(kept), "utf-8")
    readings = Readings(silence=Silence(tmp_path / "rhythms.json"))
    answered = counter("payhook_ingest_answers_total", 5.0, provider="stripe", process="ingest")
    verified = counter("payhook_ingest_verified_total", 5.0, endpoint="stripe/eu", process="ingest")
    [quiet] = [
        one
        for one in readings.make_readings(Observation(samples=dict([answered, verified])), NOW, 0.0)
        if one.rule == "quiet"
    ]
    assert (quiet.subject, quiet.value) == ("stripe/eu", 1.0)
    assert "that are usual" in quiet.note
    [unknown] = [one for one in readings.make_readings(Observation(), NOW, 15.0) if one.rule == "quiet"]
    assert (unknown.subject, unknown.value) == ("stripe/eu", None)


def test_a_list_that_cannot_be_read_has_an_age_and_what_came_in_by_it_is_counted() -> None:
    said = {"problem": "stripe: no answer", "since": to_rfc3339(NOW - timedelta(minutes=20)), "fetched_day": 3}
    found = {one.rule: one for one in Readings().make_readings(Observation(caught_up={"stripe": said}), NOW, 0.0)}
    assert (found["catch_up"].value, found["catch_up"].note) == (1_200.0, "stripe: no answer")
    assert (found["caught_up"].subject, found["caught_up"].value) == ("stripe", 3.0)
    well = {"problem": None, "since": None, "fetched_day": 0}
    found = {one.rule: one for one in Readings().make_readings(Observation(caught_up={"stripe": well}), NOW, 0.0)}
    assert (found["catch_up"].value, found["caught_up"].value) == (0.0, 0.0)


@pytest.mark.parametrize(("reported", "value"), [(True, 1.0), (False, 0.0), (None, 0.0)])
def test_an_endpoint_that_its_provider_switched_off_is_an_alert(reported: bool | None, value: float) -> None:
    said = {"problem": None, "since": None, "fetched_day": 0, "switched_off": reported}
    found = {one.rule: one for one in Readings().make_readings(Observation(caught_up={"stripe": said}), NOW, 0.0)}
    assert (found["switched_off"].subject, found["switched_off"].value) == ("stripe", value)
