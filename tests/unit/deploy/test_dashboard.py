"""The dashboard asks for what there is, and shows what it must."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.deploy.promql import selectors
from tests.unit.deploy.test_rules import RECORDED, unknown

DEPLOY = Path(__file__).parents[3] / "deploy"
BOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "dashboards" / "payhook.json").read_text("utf-8"))
PANELS: list[dict[str, Any]] = BOARD["panels"]

MUST_SHOW = {
    "latency": "payhook_processing_seconds_bucket",
    "retry rate": "stream:payhook_retries:ratio_rate5m",
    "DLQ depth": "stream:payhook_dlq_depth:max",
    "idempotency hit rate": "payhook_idempotency_hits:ratio_rate5m",
    "share within 5 s": "stream:payhook_sli_missed:ratio_rate5m",
    "breakers": "payhook_downstream_state",
    "lag": "payhook_lag_events",
    "dead letters written": "payhook_dlq_written_total",
    "dead letters asked to be written": "payhook_dlq_produce_requests_total",
    "dead letters refused": "payhook_dlq_produce_failures_total",
}


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_asks_for_series_that_are_exposed(panel: dict[str, Any]) -> None:
    assert panel["targets"] and panel["description"]
    for target in panel["targets"]:
        asked = list(selectors(target["expr"]))
        assert asked and [reported for one in asked if (reported := unknown(one))] == []
        assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@pytest.mark.row("A18")
@pytest.mark.row("B8")
@pytest.mark.parametrize("what", MUST_SHOW)
def test_it_shows(what: str) -> None:
    asked = {one.metric for panel in PANELS for target in panel["targets"] for one in selectors(target["expr"])}
    assert MUST_SHOW[what] in asked


def test_it_shows_first_tries_retries_by_attempt_and_dead_letters_apart() -> None:
    [panel] = [panel for panel in PANELS if panel["title"] == "First tries, retries by attempt, dead letters"]
    shown = {target["legendFormat"]: target["expr"] for target in panel["targets"]}
    assert shown.keys() == {"first tries", "retry {{attempt}} scheduled", "done by retry {{attempt}}", "dead letters"}
    by_attempt = [expr for legend, expr in shown.items() if "{{attempt}}" in legend]
    assert all(expr.startswith("sum by (attempt) (rate(payhook_decisions_total{") for expr in by_attempt)


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    for panel in PANELS:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24 and min(place.values()) >= 0
    for one, other in itertools.combinations((panel["gridPos"] for panel in PANELS), 2):
        apart_x = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart_y = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart_x or apart_y


def test_it_can_be_imported_anywhere() -> None:
    """No number of somebody's own Grafana in it, and the data source is chosen there."""
    assert BOARD["id"] is None and BOARD["uid"] == "payhook"
    assert BOARD["schemaVersion"] >= 36
    variables = {variable["name"]: variable for variable in BOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource" and variables["datasource"]["query"] == "prometheus"
    assert [reported for one in selectors(variables["stream"]["definition"]) if (reported := unknown(one))] == []


def test_every_recorded_rule_is_used() -> None:
    used = {one.metric for panel in PANELS for target in panel["targets"] for one in selectors(target["expr"])}
    rules = "".join(path.read_text("utf-8") for path in (DEPLOY / "prometheus" / "rules").glob("*.yml"))
    assert [name for name in RECORDED if name not in used and rules.count(name) < 2] == []
