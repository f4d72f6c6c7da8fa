"""docs/alerts.md: its examples are taken, and its notice is what goes out."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from alerts.engine import AlertEngine
from alerts.observation import DeadSummary, Observation
from alerts.readings import Readings
from alerts.rules import make_rules
from alerts.settings import AlertsSettings
from dead_letters.rates import Rate

PAGE = (Path(__file__).parents[3] / "docs" / "alerts.md").read_text("utf-8")
AT = datetime(2026, 1, 31, 12, tzinfo=UTC) + timedelta(seconds=15)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)


def test_the_settings_of_the_page_are_taken() -> None:
    read = [AlertsSettings(**tomllib.loads(text)["alerts"]) for text in blocks("toml")]
    assert [next(iter(settings.receivers)) for settings in read] == ["team", "escalation", "local"]


def test_the_notice_of_the_page_is_what_goes_out() -> None:
    (page,) = blocks("json")
    engine = AlertEngine(make_rules(AlertsSettings()))
    came = {900: (132, 0), 3_600: (140, 8), 86_400: (150, 600)}
    rates = tuple(Rate.from_counts(window_s, inflow, outflow, 132) for window_s, (inflow, outflow) in came.items())
    (notice,) = engine.judge_readings(
        Readings().make_readings(Observation(dead={"ledger": DeadSummary(132, AT, rates)}), AT, 0.0), AT
    )
    notice = replace(notice, cause="MerchantUnknown: no merchant for <text>", amounts={"EUR": 1_234_500})
    notice = replace(notice, link="https://payhook.example/dlq?stream=ledger")
    assert json.loads(page) == notice.as_tree() == json.loads(notice.as_json())


def test_every_rule_is_on_the_page() -> None:
    listed = dict(re.findall(r"^\| `(\w+)` \|.*\| (\w+) \|$", PAGE, re.M))
    assert listed == {name: rule.severity.value for name, rule in make_rules(AlertsSettings()).items()}
