"""Shares of what counters gained: retries, slow claims, the promise, refused requests."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

import pytest

from alerts.engine import AlertEngine, NoticeKind
from alerts.observation import Observation, Series, Window
from alerts.readings import Readings
from alerts.rules import SLOW_S, SLOW_SHARE_MAX, make_rules
from alerts.settings import AlertsSettings
from core.metrics import REQUEST_BUCKETS_S
from tests.unit.alerts.looks import NOW, Looks, counter


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


def test_the_share_of_retries_is_of_tries_alone() -> None:
    looks = Looks(window_s=60)
    looks.samples(decisions(applied=1_000, duplicate=50, retry=0))
    values = looks.samples(decisions(applied=1_085, duplicate=90_000, retry=10, dead=5))
    assert values["retry_rate", "ledger"] == pytest.approx(0.1)


def test_too_few_tries_are_no_share_and_unknown_before_the_window_is_full() -> None:
    looks = Looks(window_s=60)
    assert looks.samples(decisions(applied=0, retry=0))["retry_rate", "ledger"] is None
    values = [looks.samples(decisions(applied=0, retry=number))["retry_rate", "ledger"] for number in range(1, 6)]
    assert values == [None, None, None, 0.0, 0.0]


def test_a_process_that_began_anew_is_counted_from_zero() -> None:
    looks = Looks(window_s=60)
    looks.samples(decisions(applied=9_000, retry=900))
    looks.samples({})
    values = looks.samples(decisions(applied=190, retry=10))
    assert values["retry_rate", "ledger"] == pytest.approx(0.05)


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
        values = looks.samples(claims(0, every))
    assert values["redis_slow", ""] == 0.0
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
        values = readings.make_readings(Observation(samples=claims(quick, (look + 1) * claims_a_look)), now, at_s)
        reported += [
            (look, notice.kind) for notice in engine.judge_readings(values, now) if notice.rule == "redis_slow"
        ]
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


def test_a_bound_that_is_no_edge_says_nothing() -> None:
    looks = Looks(window_s=60)
    for every in (0, 9_000):
        name = "payhook_redis_claim_seconds"
        values = looks.samples(dict([counter(f"{name}_bucket", 0, le="0.02"), counter(f"{name}_count", every)]))
    assert values["redis_slow", ""] is None


def test_the_bound_of_slow_claims_is_an_edge_of_the_histogram() -> None:
    assert SLOW_S in REQUEST_BUCKETS_S


@pytest.mark.row("A17")
def test_the_promise_burns_when_it_is_missed_now_and_over_the_hour() -> None:
    looks = Looks(window_s=300)
    looks.samples(answers(in_time=0, late=0, failed=0, waited=0))
    values = looks.samples(answers(in_time=900, late=60, failed=40, waited=5_000, set_aside=7_000))
    assert values["slo_burn", "ledger"] == pytest.approx(0.1)
    values = looks.samples(answers(in_time=1_900, late=60, failed=40), after_s=600)
    assert values["slo_burn", "ledger"] == 0.0, "it was, and isn't any more"
    values = looks.samples(answers(in_time=99_900, late=160, failed=40), after_s=600)
    assert values["slo_burn", "ledger"] == pytest.approx(100 / 98_100)


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
