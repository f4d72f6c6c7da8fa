"""Streams say in their statuses how long downstreams and subscribers have been down."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from alerts.engine import Alert, AlertEngine, NoticeKind
from alerts.observation import Observation
from alerts.readings import BY_DOWNSTREAM, Readings
from alerts.rules import DOWN_S_MAX, FAILING_S_MAX, make_rules
from alerts.settings import AlertsSettings
from core.clock import to_rfc3339
from tests.unit.alerts.looks import NOW, WELL


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
        of_waits = [
            reading for reading in self.readings.make_readings(seen, now, self.at_s) if reading.rule in BY_DOWNSTREAM
        ]
        self.notices = self.engine.judge_readings(of_waits, now)
        return [(notice.rule, notice.subject, notice.kind) for notice in self.notices]


def saying(**downstreams: dict[str, Any]) -> Observation:
    named = {name.replace("_", ":"): state for name, state in downstreams.items()}
    return Observation(statuses={"notify": {**WELL, "downstreams": named}})


FAILING = saying(subscriber_shop=downstream(0, 0, "NotTaken: answered 500"))


BREAKER, SUBSCRIBER = ("breaker_open", "notify subscriber:shop"), ("subscriber_failing", "notify subscriber:shop")


def test_a_subscriber_that_is_down_is_told_of_and_over_when_it_takes_events_again() -> None:
    alerts = Alerting()
    assert alerts.look(FAILING, DOWN_S_MAX) == []
    assert alerts.look(FAILING, 1) == [(*BREAKER, NoticeKind.FIRING)]
    [notice] = alerts.notices
    assert notice.text == (
        "calls to notify subscriber:shop have been held back for 301 s; its events wait; "
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
