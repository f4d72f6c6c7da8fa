"""The rules ask for what there is, say where help is, and agree with the alerts that payhook sends by itself."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dlq.alerts.rules import PROMETHEUS, SECONDS_AN_HOUR, rules
from dlq.alerts.settings import AlertsSettings
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
OWN = rules(AlertsSettings())


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
    assert [told for one in asked if (told := unknown(one))] == []


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("rate(payhook_nothing_total[5m])", "nothing exposes payhook_nothing_total"),
        ('payhook_dlq_depth{queue="a"}', "payhook_dlq_depth has no label queue"),
        ('payhook_redis_claim_seconds_bucket{le="0.02"}', "no payhook_redis_claim_seconds_bucket has le=0.02"),
        ("rate(stream:payhook_nothing:rate5m[5m])", "nothing exposes stream:payhook_nothing:rate5m"),
        ('sum(payhook_sli_events_total{outcome=~"lat|fail"})', "no payhook_sli_events_total has outcome=~lat|fail"),
    ],
)
def test_what_nobody_exposes_would_be_found(expression: str, told: str) -> None:
    assert [unknown(one) for one in selectors(expression)] == [told]


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


@pytest.mark.parametrize("name", OWN)
def test_an_own_alert_has_its_place_in_the_runbook_and_its_like_in_prometheus(name: str) -> None:
    assert OWN[name].anchor in runbook_anchors()
    alike = ALERTS[PROMETHEUS[name]]
    assert alike["annotations"]["runbook"] == f"docs/runbook.md#{OWN[name].anchor}"
    assert alike["labels"]["severity"] == OWN[name].severity


@pytest.mark.parametrize(
    ("name", "expression", "threshold"),
    [
        ("dlq_depth", "> 100", 100),
        ("dlq_age", "> 24 * 3600", 24 * SECONDS_AN_HOUR),
        ("dlq_escalation", "> 48 * 3600", 48 * SECONDS_AN_HOUR),
        ("dlq_publish", "> 60", 60),
        ("lag", "> 10000", 10_000),
        ("retry_rate", "> 0.05", 0.05),
        ("redis_slow", "> 0.01", 0.01),
        ("slo_burn", "> 14.4 * 0.001", 14.4 * 0.001),
        ("backup", "> 1.5", 1.5),
        ("card_data", "> 0", 0),
    ],
)
def test_both_have_the_same_threshold(name: str, expression: str, threshold: float) -> None:
    assert re.search(re.escape(expression) + r"(?![\d.])", ALERTS[PROMETHEUS[name]]["expr"])
    assert OWN[name].threshold == pytest.approx(threshold)


def test_slow_claims_are_as_many_and_last_as_long_in_both() -> None:
    alike, own = ALERTS[PROMETHEUS["redis_slow"]], AlertsSettings()
    assert re.search(rf">= {own.redis_claims_min}(?!\d)", alike["expr"])
    assert alike["for"] == f"{OWN['redis_slow'].for_s / 60:g}m"
    assert own.window_s == 300, "the rule's shares are over [5m]"


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


@pytest.mark.skipif(
    not (shutil.which("promtool") and shutil.which("amtool")), reason="deploy/check.sh --fetch gets them"
)
def test_prometheus_and_alertmanager_find_the_same() -> None:
    checked = subprocess.run([str(DEPLOY / "check.sh")], capture_output=True, text=True, timeout=120, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
