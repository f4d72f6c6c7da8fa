"""The containers are watched as processes of one's own are: same rules, and metrics where they are looked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

CHECKOUT = Path(__file__).parents[3]
SERVICES: dict[str, Any] = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text("utf-8"))["services"]


def test_the_containers_prometheus_differs_in_addresses_alone() -> None:
    here, there = (
        yaml.safe_load((CHECKOUT / "deploy/prometheus" / name).read_text("utf-8"))
        for name in ("prometheus.yml", "compose.yml")
    )
    for config in (here, there):
        (scraped,), (reported,) = config.pop("scrape_configs"), config.pop("alerting")["alertmanagers"]
        assert scraped["job_name"] == "payhook", "rules ask for up of this job"
        assert len(scraped["static_configs"]) == len(reported["static_configs"]) == 1
    assert here == there


def test_every_metrics_page_is_where_the_listener_and_the_alerts_look() -> None:
    urls = json.loads(SERVICES["console"]["environment"]["PAYHOOK_CONSOLE__METRICS_URLS"])
    assert urls == json.loads(SERVICES["alerts"]["environment"]["PAYHOOK_CONSOLE__METRICS_URLS"])
    assert set(urls) == {"ingest", "processor", "alerts"}
    for name, url in urls.items():
        parts, reported = urlsplit(url), SERVICES[name]["environment"]
        assert (parts.hostname, parts.path) == (name, "/metrics")
        assert reported[f"PAYHOOK_{name.upper()}__METRICS_PORT"] == str(parts.port)
        assert reported[f"PAYHOOK_{name.upper()}__METRICS_HOST"] == "0.0.0.0"


def test_monitoring_is_started_only_where_it_is_asked_for_and_reached_from_here_alone() -> None:
    for name in ("prometheus", "alertmanager"):
        assert SERVICES[name]["profiles"] == ["monitoring"]
        assert all(port.startswith("127.0.0.1:") for port in SERVICES[name]["ports"])
        mounted = [volume.split(":")[0] for volume in SERVICES[name]["volumes"] if volume.startswith("./")]
        assert mounted and all((CHECKOUT / path).exists() for path in mounted)
