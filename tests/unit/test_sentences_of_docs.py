"""What docs/alerts.md, docs/runbook.md and the console's pages say happens next, done."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from alerts.engine import AlertEngine as AlertEngine
from alerts.engine import NoticeKind
from alerts.observation import Observation
from alerts.readings import Readings
from alerts.rules import AlertReading, make_rules
from alerts.settings import AlertsSettings
from console.waits import stream_wait
from core.clock import ManualClock, to_rfc3339
from core.metrics import CATALOGUE
from journal.errors import StreamRefused
from journal.journals import ShardsChanged
from ledger.reconcile.repair import Repair, RepairEvent, SkippedDifference, plan_repair
from processor.calls.budget import CallReport
from processor.calls.downstream import Downstream
from processor.decide.arrivals import OffsetHole
from processor.history.check import PartitionsChanged
from processor.rules import DUE_PER_BATCH_MAX
from processor.settings import DownstreamSettings
from processor.source.sources import TICK_S
from stack.catching_up import schedule_catch_up
from stack.settings import Settings
from tests.unit.alerts.looks import Looks
from tests.unit.alerts.test_readings_of_counters import claims
from tests.unit.console.pages.conftest import made
from tests.unit.console.pages.test_operators import text
from tests.unit.ledger.test_repair import MISSING, RUN

CHECKOUT = Path(__file__).parents[2]
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
TEMPLATES = CHECKOUT / "console" / "templates"


def page(name: str) -> str:
    return (CHECKOUT / "docs" / f"{name}.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("rule", "firing", "still", "over"),
    [
        ("dlq_depth", 101.0, 81.0, 80.0),
        ("disk", 0.91, 0.86, 0.855),
        ("memory", 0.91, 0.86, 0.855),
        ("dlq_age", 86_401.0, 86_401.0, 86_400.0),
        ("not_ready", 1.0, 1.0, 0.0),
    ],
)
def test_an_alert_is_over_two_minutes_after_its_value_is_as_low_as_the_page_says(
    rule: str, firing: float, still: float, over: float
) -> None:
    assert "at most 80 % of the threshold (`disk` and `memory`: 95 %, which is 85.5 % used) for two min" in page(
        "alerts"
    )
    assert "One of payhook's own is over two minutes after what its entry says" in page("runbook")
    engine, now = AlertEngine(make_rules(AlertsSettings())), NOW
    for seconds, value, kinds in (
        (0, firing, None),
        (600, firing, None),
        (600, still, []),
        (0, over, []),
        (119, over, []),
        (1, over, [NoticeKind.RECOVERED]),
    ):
        now += timedelta(seconds=seconds)
        notices = [notice.kind for notice in engine.judge_readings([AlertReading(rule, "x", value)], now)]
        assert kinds is None or notices == kinds


def test_a_list_that_nobody_asks_for_any_more_ends_its_alert_without_saying_that_it_recovered() -> None:
    entry = page("runbook").split("### Alert: catch_up\n")[1].split("\n### ")[0]
    assert "nobody looks any more: the alert ends with a notice of kind `unwatched`" in entry
    engine, readings = AlertEngine(make_rules(AlertsSettings())), Readings()
    failing = {"stripe": {"problem": "the key was revoked", "since": "2026-01-31T11:00:00Z"}}
    kinds: list[list[NoticeKind]] = []
    for at_s, caught_up in enumerate((failing, {})):
        found = readings.make_readings(Observation(caught_up=caught_up), NOW, float(at_s))
        kinds.append([notice.kind for notice in engine.judge_readings(found, NOW) if notice.rule == "catch_up"])
    assert kinds == [[NoticeKind.FIRING], [NoticeKind.UNWATCHED]]


@pytest.mark.parametrize(
    ("refused", "remedy"),
    [
        (PartitionsChanged("ledger", 4, 8, 17), "set 4 again"),
        (ShardsChanged("ledger", 2, 1), "processor.shards"),
        (OffsetHole("payments.events", 0, 7, 9), "see `payhook recover`"),
    ],
)
def test_who_is_told_of_a_refused_stream_is_sent_to_what_its_refusal_names(refused: StreamRefused, remedy: str) -> None:
    """`payhook recover` finds nothing where a setting isn't the journal's."""
    entry = page("runbook").split("### Alert: refused\n")[1].split("\n### ")[0]
    assert "`payhook status` says it" in entry and "`kafka.events_partitions` or `processor.shards`" in entry
    status = {"at": to_rfc3339(NOW), "ready": False, "state": "refused", "why": str(refused)}
    engine = AlertEngine(make_rules(AlertsSettings()))
    found = Readings().make_readings(Observation(statuses={"ledger": status}), NOW, 0.0)
    [notice] = [one for one in engine.judge_readings(found, NOW) if one.rule == "refused"]
    assert notice.text == "ledger is stopped and needs an operator: run payhook status"
    wait = stream_wait(status, NOW)
    assert wait is not None
    for told in (notice.cause, wait[1]):
        assert remedy in told and ("recover" in told) == ("recover" in remedy), told


def test_five_slow_claims_are_a_share_and_no_thousand_claims_are_needed() -> None:
    assert "10 refused requests in 5 min, or 5 slow claims in 5 min" in page("alerts")
    looks = Looks()
    looks.samples(claims(0, 0))
    assert looks.samples(claims(5, 9))["redis_slow", ""] != pytest.approx(4 / 9)
    assert looks.samples(claims(5, 10))["redis_slow", ""] == pytest.approx(5 / 10)


def test_limits_that_the_page_of_alerts_names_are_those_of_the_settings() -> None:
    settings, alerts = AlertsSettings(), page("alerts")
    assert f"more than `depth_max` ({settings.depth_max}) events" in alerts
    assert f"more than `lag_max` ({settings.lag_max:,}) events" in alerts
    assert f"more than `retry_share_max` ({settings.retry_share_max:.0%}".replace("%", " %") in alerts


def test_a_due_retry_waits_for_what_the_processors_page_names() -> None:
    told = page("processor").split("### A retry is late\n")[1].split("\n### ")[0]
    assert "One begins each second, even if nothing arrives" in told and TICK_S == 1
    assert f"more than {DUE_PER_BATCH_MAX:,} are due" in told
    named = set(re.findall(r"`(payhook_\w+)`", told))
    assert len(named) == 7 and {name.removesuffix("_total") for name in named} <= CATALOGUE.keys()


@pytest.mark.parametrize("name", ["architecture", "processor"])
def test_code_that_a_page_names_is_in_the_file_that_it_names(name: str) -> None:
    named = re.findall(r"((?:`\w+`(?:,| and)? )+)of `([\w/]+\.py)`", page(name))
    assert len(named) >= 1
    for functions, file in named:
        code = (CHECKOUT / file).read_text("utf-8")
        assert [function for function in re.findall(r"`(\w+)`", functions) if f"def {function}(" not in code] == []


def test_one_good_answer_ends_an_open_breakers_alert_and_three_let_all_out_as_the_runbook_says() -> None:
    entry = page("runbook").split("### Alert: breaker_open")[1].split("\n### ")[0]
    assert "Its first good answer ends the alert's condition; three good ones in a row close the breaker" in entry
    assert "One that fails before that opens it again, for twice as long" in entry
    clock = ManualClock(NOW)
    downstream = Downstream("bank", DownstreamSettings(), clock)

    def answer(good: int, failed: int) -> None:
        downstream.learn_calls(CallReport(calls=good + failed, failed=failed, failed_in_a_row=failed))

    answer(0, 5)
    clock.advance(5)
    answer(1, 0)
    assert downstream.status()["since"] is None and downstream.make_budget().calls == 2
    answer(0, 1)
    clock.advance(9)
    assert not downstream.may_be_called
    clock.advance(1)
    answer(1, 0)
    answer(1, 0)
    assert downstream.make_budget().calls == 1
    answer(1, 0)
    assert downstream.state == "closed" and downstream.make_budget().calls > 1


def test_ages_are_coloured_by_the_settings_of_the_alerts(tmp_path: Path) -> None:
    for hours, classes in ((0, {"age"}), (3, {"age warn"}), (6, {"age bad"})):
        pages = made(tmp_path / str(hours))
        pages.listener.dead[0].index.ages = AlertsSettings(age_h_max=2, escalate_h=5)
        pages.letters.clock.advance(hours * 3_600)
        listed = pages.browser("eve").get("/dlq?view=items").text
        assert {one.split('"')[0] for one in listed.split('<span class="')[1:] if one.startswith("age")} == classes


def test_a_repair_books_what_the_journal_never_saw_and_says_why_it_leaves_out_the_rest() -> None:
    told = "books once what the journal has never seen, and says why it leaves out the rest"
    assert told in (TEMPLATES / "ledger" / "reconciliation.html").read_text("utf-8")
    dead = replace(MISSING, fact_key="stripe:re_2:refund", absent=False, decision="dead")
    new, left_out = plan_repair(Repair(RUN, "live", "ada", "why"), [MISSING, dead], "payments")
    assert isinstance(new, RepairEvent)
    assert isinstance(left_out, SkippedDifference) and "the journal knows it: dead" in left_out.why


@pytest.mark.parametrize("every_s", [0.0, 60.0])
def test_credentials_are_taken_by_the_next_round_of_catch_up_unless_it_is_off(tmp_path: Path, every_s: float) -> None:
    pages = made(tmp_path / "pages")
    shown = text(pages.browser("eve").get("/catch-up").text)
    assert "the next round ( ingest.catch_up_every_s ; 0: no schedule) uses it" in shown
    settings = Settings(data_dir=tmp_path, ingest={"catch_up_every_s": every_s, "secrets_dir": str(tmp_path)})
    rounds = schedule_catch_up(settings)
    assert [one.every_s for one in rounds] == ([every_s] if every_s else [])
    for one in rounds:
        assert not one.is_wanted()
        (tmp_path / "stripe-api").write_text("rk_live_1\n", "utf-8")
        assert one.is_wanted()
