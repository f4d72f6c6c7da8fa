"""The rules file is what the table makes; its rules ask for what there is, and say where help is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts.prometheus import ONLY_HERE, build_alerting, file_of
from alerts.rules import COUNTED_MIN, WINDOW_S, make_rules
from alerts.settings import AlertsSettings
from tests.unit.deploy.exposed import samples
from tests.unit.deploy.promql import Matcher, Selector, selectors

CHECKOUT = Path(__file__).parents[3]
DEPLOY = CHECKOUT / "deploy"
RULES = [
    rule
    for file in sorted((DEPLOY / "prometheus" / "rules").glob("*.yml"))
    for group in yaml.safe_load(file.read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
RECORDED: dict[str, str] = {rule["record"]: rule["expr"] for rule in RULES if "record" in rule}
ALERTS: dict[str, Any] = {rule["alert"]: rule for rule in RULES if "alert" in rule}
OWN = make_rules(AlertsSettings())


def runbook_anchors() -> set[str]:
    headings = re.findall(r"^#+ (.+)$", (CHECKOUT / "docs" / "runbook.md").read_text("utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def unknown(selector: Selector) -> str | None:
    """Why nothing is ever found by a selector; None where something may be."""
    if selector.metric == "up" or selector.metric in RECORDED:
        return None
    exposed = samples().get(selector.metric)
    if not exposed:
        return f"nothing exposes {selector.metric}"
    for matcher in selector.matchers:
        values = {labels.get(matcher.label) for labels in exposed}
        if None in values:
            return f"{selector.metric} has no label {matcher.label}"
        if "$" not in matcher.value and not any(matcher.fits(value) for value in values if value is not None):
            return f"no {selector.metric} has {matcher.label}{matcher.operator}{matcher.value}"
    return None


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert", rule.get("record")))
def test_a_rule_asks_for_series_that_are_exposed(rule: Any) -> None:
    asked = list(selectors(rule["expr"]))
    assert asked, "it asks for nothing"
    assert [reported for one in asked if (reported := unknown(one))] == []


@pytest.mark.parametrize(
    ("expression", "reported"),
    [
        ("rate(payhook_nothing_total[5m])", "nothing exposes payhook_nothing_total"),
        ('payhook_dlq_depth{queue="a"}', "payhook_dlq_depth has no label queue"),
        ('payhook_redis_claim_seconds_bucket{le="0.02"}', "no payhook_redis_claim_seconds_bucket has le=0.02"),
        ("rate(stream:payhook_nothing:rate5m[5m])", "nothing exposes stream:payhook_nothing:rate5m"),
        ('sum(payhook_sli_events_total{outcome=~"lat|fail"})', "no payhook_sli_events_total has outcome=~lat|fail"),
    ],
)
def test_what_nobody_exposes_would_be_found(expression: str, reported: str) -> None:
    assert [unknown(one) for one in selectors(expression)] == [reported]


def test_a_selector_is_read_with_its_matchers() -> None:
    (found,) = selectors('sum by (stream) (rate(payhook_a_total{b=~"c|d", e!="f"}[5m]))')
    assert found == Selector("payhook_a_total", (Matcher("b", "=~", "c|d"), Matcher("e", "!=", "f")))


def test_the_bounds_of_the_promises_are_edges_of_the_histograms() -> None:
    edges = {name: {labels["le"] for labels in samples()[f"{name}_bucket"]} for name in HISTOGRAMS}
    assert "5.0" in edges["payhook_processing_seconds"]
    assert "0.01" in edges["payhook_redis_claim_seconds"]


HISTOGRAMS = ("payhook_processing_seconds", "payhook_redis_claim_seconds")


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_is_wrong_how_much_it_matters_and_where_help_is(name: str) -> None:
    alert = ALERTS[name]
    assert alert["labels"]["severity"] in ("warning", "critical")
    assert alert["annotations"].keys() == {"summary", "runbook"}
    page, _, anchor = alert["annotations"]["runbook"].partition("#")
    assert page == "docs/runbook.md" and anchor in runbook_anchors(), "the runbook says nothing of it"


def test_the_file_is_what_the_table_makes() -> None:
    """`make docs` writes it."""
    assert (DEPLOY / "prometheus" / "rules" / "payhook.yml").read_text("utf-8") == file_of(AlertsSettings())


@pytest.mark.parametrize("name", OWN)
def test_an_own_alert_has_its_place_in_the_runbook_and_its_like_in_prometheus(name: str) -> None:
    assert OWN[name].anchor in runbook_anchors()
    alike = ALERTS[build_alerting(OWN[name]).alert]
    assert alike["annotations"]["runbook"] == f"docs/runbook.md#{OWN[name].anchor}"
    assert alike["labels"]["severity"] == OWN[name].severity
    assert f"> {OWN[name].threshold:g}" in alike["expr"]


def test_the_runbook_lists_what_only_prometheus_can_say() -> None:
    runbook = (CHECKOUT / "docs" / "runbook.md").read_text("utf-8")
    [listed] = re.findall(r"^Prometheus' alone are (.+), and a slow `slo_burn`\.$", runbook, re.M)
    assert set(re.findall(r"`(\w+)`", listed)) == {alert.anchor for alert in ONLY_HERE} - OWN.keys()


def test_other_thresholds_are_in_the_file_that_they_make() -> None:
    made = yaml.safe_load(file_of(AlertsSettings(depth_max=7, retry_share_max=0.2)))
    exprs = {rule.get("alert"): rule["expr"] for group in made["groups"] for rule in group["rules"]}
    assert exprs["PayhookDlqDepth"].endswith("> 7") and "> 0.2 and" in exprs["PayhookRetryRate"]


def test_shares_are_over_the_same_window_in_both() -> None:
    assert WINDOW_S == 300, "the rules' shares are over [5m]"


def test_the_burn_of_the_promise_asks_for_events_enough_in_the_hour_alone() -> None:
    """As `alerts.readings` does: a stream of few events has too few in five minutes."""
    counted = re.findall(r"(\S+) >= (\d+)", ALERTS["PayhookSloBurnFast"]["expr"])
    assert counted == [("stream:payhook_sli_counted:increase1h", str(COUNTED_MIN))]


def test_every_alert_fires_in_a_test() -> None:
    firing = {
        case["alertname"]
        for file in (DEPLOY / "prometheus" / "tests").glob("*.yml")
        for test in yaml.safe_load(file.read_text("utf-8"))["tests"]
        for case in test.get("alert_rule_test", [])
        if case["exp_alerts"]
    }
    assert firing == ALERTS.keys()


def test_the_escalation_goes_first_and_on() -> None:
    config = yaml.safe_load((DEPLOY / "alertmanager" / "alertmanager.yml").read_text("utf-8"))
    first, *others = config["route"]["routes"]
    assert first["matchers"] == ['escalation = "true"'] and first["continue"] is True
    assert not any(route.get("continue") for route in others)
    known = {receiver["name"] for receiver in config["receivers"]}
    assert {config["route"]["receiver"], *(route["receiver"] for route in config["route"]["routes"])} == known
    escalating = [name for name, alert in ALERTS.items() if alert["labels"].get("escalation") == "true"]
    assert escalating == ["PayhookDlqEscalation"]
