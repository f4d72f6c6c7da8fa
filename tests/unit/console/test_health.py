"""The management listener says what the processes say, and never more."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from console.health import Marks, WatchedServices, create_app
from console.received import AskReceived, not_read
from core.clock import ManualClock
from core.status_file import StreamStatuses
from tests.live_processes import processor_elsewhere
from tests.received_hour import busy_hour

NOW = datetime(2026, 1, 31, 12, 0, 10, tzinfo=UTC)
STATUS = {"pid": 1, "at": "2026-01-31T12:00:09.500000Z", "ready": True, "marks": {"events": {"0": 7, "1": 9}}}
INGEST = "# HELP a_total A\n# TYPE a_total counter\na_total 3\n# HELP shared S\n# TYPE shared gauge\nshared 1\n"
PROCESSOR = '# HELP b B\n# TYPE b gauge\nb{stream="ledger"} 2\n# HELP shared S\n# TYPE shared gauge\nshared 5\n'


class HealthListener:
    """The app over processes that answer as a test wants."""

    def __init__(self, folder: Path) -> None:
        self.status_file = folder / "processor-ledger.json"
        self.ingest_ready = 200
        self.end = 20
        self.pages = {"/ingest": INGEST, "/processor": PROCESSOR}
        self.others: dict[str, dict[str, object]] = {}
        self.streams = {"ledger": self.status_file}
        self.received: AskReceived = not_read

    def get(self, path: str) -> httpx2.Response:
        return asyncio.run(self._get(path))

    async def _get(self, path: str) -> httpx2.Response:
        metrics = {"ingest": "http://m/ingest", "processor": "http://m/processor"}
        with ExitStack() as stack:
            urls = [stack.enter_context(processor_elsewhere({"ledger": status})) for status in self.others.values()]
            statuses = StreamStatuses(self.streams, urls)
            watched = WatchedServices("http://i/readyz", statuses, metrics, self._lag, lambda mode: self.received(mode))
            async with httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer)) as client:
                app = create_app(watched, client, ManualClock(NOW))
                async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://ops") as caller:
                    return await caller.get(path)

    def _lag(self, marks: Marks) -> dict[str, int] | None:
        return {topic: self.end - sum(partitions.values()) for topic, partitions in marks.items()}

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/readyz":
            if self.ingest_ready == 0:
                raise httpx2.ConnectError("refused")
            return httpx2.Response(self.ingest_ready)
        page = self.pages.get(request.url.path)
        if page is None:
            raise httpx2.ConnectError("refused")
        return httpx2.Response(200, text=page)


@pytest.fixture
def listener(tmp_path: Path) -> HealthListener:
    made = HealthListener(tmp_path)
    made.status_file.write_text(json.dumps(STATUS))
    return made


def test_it_lives_whatever_the_others_do(listener: HealthListener) -> None:
    listener.ingest_ready = 0
    listener.status_file.unlink()
    assert listener.get("/healthz").status_code == 200


def test_it_is_ready_when_the_receiver_and_the_processor_are(listener: HealthListener) -> None:
    assert listener.get("/readyz").status_code == 200
    assert listener.get("/status").json() == {
        "ready": True,
        "ingest": {"ready": True},
        "processor": {**STATUS, "age_s": 0.5},
        "streams": {"ledger": {**STATUS, "age_s": 0.5}},
        "lag": {"events": 4},
    }


def test_the_status_counts_what_was_refused_within_the_last_hour(listener: HealthListener) -> None:
    listener.received = busy_hour
    refused = listener.get("/status").json()["refused"]
    assert next(iter(refused.items())) == ("not_published", 433)
    assert refused["signature_mismatch"] == 12


@pytest.mark.parametrize("answer", [0, 503])
def test_it_is_not_ready_without_the_receiver(listener: HealthListener, answer: int) -> None:
    listener.ingest_ready = answer
    assert listener.get("/readyz").status_code == 503
    assert listener.get("/status").json()["ingest"] == {"ready": False}


@pytest.mark.parametrize("text", ["", "{", '{"ready": true}', '{"ready": false, "at": "2026-01-31T12:00:09.500000Z"}'])
def test_it_is_not_ready_while_the_processor_does_not_say_so(listener: HealthListener, text: str) -> None:
    listener.status_file.write_text(text)
    assert listener.get("/readyz").status_code == 503


def test_an_old_word_of_the_processor_is_not_believed(listener: HealthListener) -> None:
    listener.status_file.write_text(json.dumps({**STATUS, "at": "2026-01-31T11:59:39.000000Z"}))
    assert listener.get("/readyz").status_code == 503
    said = listener.get("/status").json()["processor"]
    assert (said["ready"], said["age_s"], said["pid"]) == (False, 31.0, 1)


def test_a_word_of_a_clock_that_ran_ahead_is_not_believed(listener: HealthListener) -> None:
    """One of another processor, whose clock is right, is shown instead."""
    ahead = {**STATUS, "at": "2026-01-31T13:00:00.000000Z", "pid": 2}
    listener.status_file.write_text(json.dumps(ahead))
    assert listener.get("/readyz").status_code == 503
    assert listener.get("/status").json()["processor"]["pid"] == 2
    listener.others = {"a": ahead, "b": STATUS}
    said = listener.get("/status").json()["processor"]
    assert (said["ready"], said["pid"]) == (True, 1)


@pytest.mark.parametrize("here", ["standby", "running", None])
def test_of_processors_with_one_stream_the_one_that_decides_it_is_shown(
    listener: HealthListener, here: str | None
) -> None:
    running, standby = {**STATUS, "state": "running", "ready": False}, {**STATUS, "state": "standby"}
    listener.others = {"a": standby, "b": running, "c": standby}
    if here is None:
        listener.status_file.unlink()
    else:
        listener.status_file.write_text(json.dumps(standby if here == "standby" else running))
    said = listener.get("/status").json()
    assert (said["processor"]["state"], said["ready"]) == ("running", False)
    del listener.others["b"]
    if here != "running":
        assert listener.get("/status").json()["processor"]["state"] == "standby"


@pytest.fixture
def sharded(listener: HealthListener) -> HealthListener:
    """The events are divided between two shards; each reads its own partitions, and all commands."""
    listener.streams = {
        name: listener.status_file.with_name(f"{name}.json") for name in ("ledger", "ledger.1", "notify")
    }
    for name, marks in (
        ("ledger", {"events": {"0": 7}, "control": {"0": 5}}),
        ("ledger.1", {"events": {"1": 9}, "control": {"0": 3}}),
    ):
        listener.streams[name].write_text(json.dumps({**STATUS, "stream": name, "marks": marks}))
    return listener


def test_what_is_not_decided_is_counted_over_all_shards(sharded: HealthListener) -> None:
    said = sharded.get("/status").json()
    assert said["lag"] == {"events": 20 - 7 - 9, "control": 20 - 3}
    assert said["processor"]["stream"] == "ledger"
    assert list(said["streams"]) == ["ledger", "ledger.1", "notify"]


def test_it_is_ready_when_every_shard_is(sharded: HealthListener) -> None:
    assert sharded.get("/readyz").status_code == 200
    sharded.streams["ledger.1"].write_text(json.dumps({**STATUS, "ready": False}))
    assert sharded.get("/readyz").status_code == 503
    assert sharded.get("/status").json()["processor"]["ready"], "the first shard's own words"


def samples(page: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    found = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    series = {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in found}
    assert len(series) == len(found), "one series twice"
    return series


def test_all_metrics_are_on_one_page_and_no_series_is_there_twice(listener: HealthListener) -> None:
    found = samples(listener.get("/metrics").text)
    own = {series for series in found if ("process", "console") in series[1]}
    assert ("process_cpu_seconds_total", (("process", "console"),)) in own
    assert {series: value for series, value in found.items() if series not in own} == {
        ("a_total", ()): 3.0,
        ("b", (("stream", "ledger"),)): 2.0,
        ("shared", (("process", "ingest"),)): 1.0,
        ("shared", (("process", "processor"),)): 5.0,
        ("payhook_process_up", (("process", "ingest"),)): 1.0,
        ("payhook_process_up", (("process", "processor"),)): 1.0,
    }


def test_a_process_that_does_not_answer_is_down_and_takes_no_other_s_metrics_with_it(listener: HealthListener) -> None:
    del listener.pages["/processor"]
    found = samples(listener.get("/metrics").text)
    assert found[("payhook_process_up", (("process", "processor"),))] == 0.0
    assert found[("a_total", ())] == 3.0


def test_histograms_keep_their_buckets(listener: HealthListener) -> None:
    page = '# HELP h H\n# TYPE h histogram\nh_bucket{le="0.01"} 1\nh_bucket{le="+Inf"} 2\nh_count 2\nh_sum 3\n'
    listener.pages["/ingest"] = page
    text = listener.get("/metrics").text
    assert "# TYPE h histogram" in text
    assert samples(text)[("h_bucket", (("le", "0.01"),))] == 1.0


def test_test_traffic_is_reported_apart_and_live_traffic_is_ready_without_it(
    listener: HealthListener, tmp_path: Path
) -> None:
    listener.streams["ledger-test"] = test_status = tmp_path / "processor-ledger-test.json"
    said = listener.get("/status").json()
    assert (said["ready"], said["test"]) == (True, {"ready": False, "processor": {"ready": False}, "lag": {}})
    test_status.write_text(json.dumps({**STATUS, "marks": {"events.test": {"0": 19}}}))
    said = listener.get("/status").json()
    assert (said["test"]["ready"], said["test"]["lag"], said["lag"]) == (True, {"events.test": 1}, {"events": 4})
    listener.status_file.unlink()
    said = listener.get("/status").json()
    assert (said["ready"], said["test"]["ready"]) == (False, True)
