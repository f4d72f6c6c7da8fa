"""The overview's live figures, from real metrics pages over a minute of a test's own clock."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import httpx2
import pytest

from alerts.settings import AlertsSettings
from console.pulse import UNKNOWN, Pulse, find_quantile
from core.decision import Decision
from tests.live_processes import LiveProcesses, live_processes


@pytest.fixture
def house() -> Iterator[LiveProcesses]:
    with live_processes() as processes:
        yield processes


def test_the_four_figures_are_of_the_last_minute(house: LiveProcesses) -> None:
    house.receive("claimed", 1_000)
    house.decide("ledger", Decision.APPLIED, 1_000, took_s=30)
    house.looks(0, 90)
    house.receive("claimed", 75)
    house.receive("duplicate", 25)
    house.decide("ledger", Decision.APPLIED, 60)
    house.decide("ledger", Decision.RETRY, 15)
    house.streams["ledger"].set_dead(
        {"dead": 7, "open": 9, "unpublished": 0, "unpublished_s": 0, "index_memory_bytes": 1}
    )
    house.looks(30)
    assert house.figures() == {
        "latency": ("0.50 s", ""),
        "retry rate": ("20.0%", "warn"),
        "dead letters": ("7", ""),
        "idempotency hits": ("25.0%", ""),
    }


def test_the_picture_has_the_rate_of_each_arrow(house: LiveProcesses) -> None:
    house.receive("claimed", 1)
    house.decide("ledger", Decision.APPLIED, 1)
    house.looks(0)
    house.receive("claimed", 600)
    house.receive("duplicate", 60)
    house.decide("ledger", Decision.APPLIED, 540)
    house.decide("ledger", Decision.DEAD, 60)
    house.decide("notify", Decision.APPLIED, 300)
    house.streams["ledger"].set_blocked("StorageDown: the disk is full")
    house.looks(30)
    texts = house.texts()
    assert [one for one in texts if one.endswith("/s")] == ["22/s", "20/s", "20/s", "18/s", "2/s", "10/s"]
    assert [one for one in texts if one in ("Receiver", "Kafka", "Processor", "Ledger", "Dead letters", "Subscribers")]
    assert "blocked" in texts and 'class="box bad"' in str(house.pulse.draw_pipelines("live")["wide"])


def test_what_nobody_tells_is_not_known_rather_than_none(house: LiveProcesses) -> None:
    nobody = Pulse({}, httpx2.AsyncClient(trust_env=False), house.clock, AlertsSettings())
    asyncio.run(nobody.read_metrics())
    assert {one.value for one in nobody.list_figures("ledger")} == {UNKNOWN}
    assert re.findall(r">([^<]+/s)<", str(nobody.draw_pipelines("live")["wide"])) == []
    house.looks(0)
    assert house.figures()["idempotency hits"] == (UNKNOWN, ""), "of nothing there is no share"


def test_a_slow_minute_is_marked(house: LiveProcesses) -> None:
    house.looks(0)
    house.decide("ledger", Decision.APPLIED, 10, took_s=9)
    house.looks(30)
    value, level = house.figures()["latency"]
    assert 5 < float(value.removesuffix(" s")) <= 10 and level == "bad"


@pytest.mark.parametrize(
    ("share", "counts", "every", "found"),
    [
        (0.5, [(1.0, 0.0), (2.0, 10.0)], 10.0, 1.5),
        (0.99, [(1.0, 100.0), (2.0, 100.0)], 100.0, 0.99),
        (0.99, [(1.0, 5.0), (2.0, 5.0)], 10.0, 2.0),
        (0.5, [(1.0, 0.0)], 0.0, None),
    ],
)
def test_a_quantile_is_as_prometheus_has_it(
    share: float, counts: list[tuple[float, float | None]], every: float, found: float | None
) -> None:
    assert find_quantile(share, counts, every) == pytest.approx(found)


def test_the_figures_are_of_all_shards_together(house: LiveProcesses) -> None:
    house.receive("claimed", 1)
    house.decide("ledger", Decision.APPLIED, 1)
    house.looks(0)
    house.receive("claimed", 100)
    for stream, applied, retried, dead in (("ledger", 60, 0, 7), ("ledger.1", 20, 20, 5)):
        house.decide(stream, Decision.APPLIED, applied)
        house.decide(stream, Decision.RETRY, retried)
        said = {"dead": dead, "open": 9, "unpublished": 0, "unpublished_s": 0, "index_memory_bytes": 1}
        house.streams[stream].set_dead(said)
    house.decide("ledger-test", Decision.RETRY, 50)
    house.streams["ledger.1"].set_blocked("StorageDown: the disk is full")
    house.looks(30)
    assert house.figures()["retry rate"] == ("20.0%", "warn")
    assert house.figures()["dead letters"] == ("12", "")
    assert [one.value for one in house.pulse.list_figures("ledger.1")] == [
        one.value for one in house.pulse.list_figures("ledger")
    ]
    texts = house.texts()
    assert {"12 wait", "blocked"} <= set(texts)
    assert [one for one in texts if one.endswith("/s")][3] == "2.67/s", "80 applied in 30 s"
