"""The containers are watched as processes of one's own are: same rules, and metrics where they are looked for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from stack.addresses import metrics_urls
from stack.alerting import collect_places
from stack.settings import load_settings
from tests.containers.compose import load

CHECKOUT = Path(__file__).parents[3]
SERVICES: dict[str, Any] = load(CHECKOUT / "docker-compose.yml", env={"RECEIVERS": "3"})["services"]
IN_SHARDS: dict[str, Any] = load(CHECKOUT / "docker-compose.yml", env={"SHARDS": "2"})["services"]


def configs(folder: str, name: str) -> list[Any]:
    return [yaml.safe_load((CHECKOUT / "deploy" / folder / one).read_text("utf-8")) for one in (name, "compose.yml")]


def test_the_containers_prometheus_differs_in_addresses_alone() -> None:
    here, there = configs("prometheus", "prometheus.yml")
    for config in (here, there):
        (scraped,), (reported,) = config.pop("scrape_configs"), config.pop("alerting")["alertmanagers"]
        assert scraped["job_name"] == "payhook", "rules ask for up of this job"
        assert len(scraped["static_configs"]) == len(reported["static_configs"]) == 1
    assert here == there


def test_the_containers_grafana_differs_in_an_address_alone() -> None:
    here, there = configs("grafana", "datasources.yml")
    urls = [config["datasources"][0].pop("url") for config in (here, there)]
    assert urls == ["http://127.0.0.1:9090", "http://prometheus:9090"]
    assert here == there


def test_the_dashboard_is_where_grafana_is_told_to_look() -> None:
    (provider,) = configs("grafana", "dashboards.yml")[0]["providers"]
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"])
    assert mounts["./deploy/grafana/dashboards"] == provider["options"]["path"]
    home = Path(SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert home.parent == Path(provider["options"]["path"])
    assert (CHECKOUT / "deploy" / "grafana" / "dashboards" / home.name).is_file()


def test_every_metrics_page_is_where_the_listener_and_the_alerts_look(monkeypatch: Any) -> None:
    """Three processes of the receiver; the settings as the service itself reads them."""
    for name in ("console", "alerts"):
        for variable, value in SERVICES[name]["environment"].items():
            if variable != "PAYHOOK_CONFIG":
                monkeypatch.setenv(variable, str(value))
        urls = {process: url for process, url in metrics_urls(load_settings()).items() if "127.0.0.1" not in url}
        assert urls == {
            "ingest": "http://ingest:9101/metrics",
            "ingest-1": "http://ingest:9102/metrics",
            "ingest-2": "http://ingest:9103/metrics",
            "processor": "http://processor:9102/metrics",
            "alerts": "http://alerts:9103/metrics",
        }
    for name in ("ingest", "processor", "alerts"):
        parts, said = urlsplit(urls[name]), SERVICES[name]["environment"]
        assert parts.hostname == name
        assert said[f"PAYHOOK_{name.upper()}__METRICS_PORT"] == str(parts.port)
        assert said["PAYHOOK_METRICS_HOST"] == "0.0.0.0"


def test_a_second_shard_is_looked_at_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in IN_SHARDS["alerts"]["environment"].items():
        if variable != "PAYHOOK_CONFIG":
            monkeypatch.setenv(variable, str(value))
    settings = load_settings()
    processors = {name: url for name, url in metrics_urls(settings).items() if name.startswith("processor")}
    assert processors == {
        "processor": "http://processor:9102/metrics",
        "processor.1": "http://processor-1:9102/metrics",
    }
    assert {*collect_places(settings).statuses} == {"ledger", "ledger.1", "notify"}


def test_monitoring_is_started_only_where_it_is_asked_for() -> None:
    for name in ("prometheus", "alertmanager", "grafana"):
        assert SERVICES[name]["profiles"] == ["monitoring"]
        mounted = [volume.split(":")[0] for volume in SERVICES[name]["volumes"] if volume.startswith("./")]
        assert mounted and all((CHECKOUT / path).exists() for path in mounted)


def test_the_settings_that_are_shipped_as_an_example_are_accepted(tmp_path: Path) -> None:
    """Those that are commented out too."""
    example = (CHECKOUT / "deploy" / "config.example" / "payhook.toml").read_text("utf-8")
    used = tmp_path / "payhook.toml"
    used.write_text(re.sub(r"(?m)^# (?=\[|\w+ = )", "", example), "utf-8")
    settings = load_settings(used)
    assert settings.alerts.receivers["oncall"].token_file.startswith("/run/secrets/alerts/")
