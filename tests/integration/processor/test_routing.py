"""Two streams divide a topic by its events' headers, one of them delays: on real Kafka, Spark and Delta."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.event import ELSEWHERE_TYPE
from core.settings import KafkaSettings
from journal.anchors import AnchorKeys
from ledger.verify import Lake, Options, verify
from ledger.verify.duckdb_engine import duckdb_engine
from ledger.verify.evidence import VerifyLimits
from ledger.verify.kafka import RealKafka
from ledger.verify.kafka_checks import Division
from processor.streams import StreamInvalid, load_streams
from tests.integration.processor.own_streams import OwnStreams, says

pytestmark = pytest.mark.more(reason="a minute on Spark and Kafka; tests/unit/processor/decide has it on the engine")

DELAY_S = 3.0
STREAMS = """
[east]
source = "kafka:{topic}"
handler = "greeting:build"
hooks = "told_hooks:build"
settings = {{ greeting = "hello" }}
where = {{ tenant = "eu-*" }}
dlq = {{ create_topic = true }}
[east.errors.kinds]
LookupError = "SNBE"
[east.retry]
transient = "fixed(9s x9)"
waits_for_data = "FixedDelayRetryPolicy(200x2)"

[west]
source = "kafka:{topic}"
handler = "greeting:build"
settings = {{ greeting = "hello" }}
where = {{ tenant = "!eu-*" }}
delay = "{delay_s}s"
dlq = {{ create_topic = true }}
"""
HOOKS = """
from pathlib import Path

class Told:
    def before(self, event, error, route):
        with Path(__file__).with_name("told.txt").open("a") as file:
            file.write(f"before {event.event_key} {error.error_class} {route}\\n")

    def after(self, event, error, route, failure):
        with Path(__file__).with_name("told.txt").open("a") as file:
            file.write(f"after {event.event_key} {error.error_class} {route} {failure}\\n")
        raise RuntimeError("a hook that fails costs its event nothing")

def build():
    return Told()
"""
PROMISES = ("offsets_accounted", "topic_divided", "elsewhere_is_others", "records_are_those_decided", "chain_whole")


@pytest.fixture
def divided(streams: OwnStreams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OwnStreams:
    (tmp_path / "told_hooks.py").write_text(HOOKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    with (streams.folder / "streams.toml").open("a") as file:
        file.write(STREAMS.format(topic=streams.topic, delay_s=int(DELAY_S)))
    return streams


def test_two_streams_divide_a_topic_without_a_gap_and_one_of_them_delays(
    divided: OwnStreams, record_property: Callable[[str, object], None]
) -> None:
    east = [f"e-{number}" for number in range(40)]
    west = [f"w-{number}" for number in range(40)]
    with divided.running("east", "west") as wait_for:
        for stream in ("east", "west"):
            wait_for(partial(runs, divided, stream), stream)
        for one, other in zip(east, west, strict=True):
            divided.post(one, tenant="eu-shop")
            divided.post(other, tenant=None if other.endswith("0") else "us-shop")
        divided.post("bad", kind="breaks", tenant="eu-shop")
        wait_for(lambda: len(divided.applied("west")) == 40, "what isn't European")
        wait_for(lambda: len(divided.applied("east")) == 40, "what is European")
        wait_for(lambda: says(divided, "east").get("dead") == 1, "the one that fails, after its retries")
        wait_for(lambda: says(divided, "east").get("published_upto", 0) >= says(divided, "east")["seq"], "its letter")
    # The control topic is the broker's, and may hold commands of others.
    rows_of = {
        stream: [row for row in divided.rows(stream) if row.topic == divided.topic] for stream in ("east", "west")
    }
    own = {stream: {row.event_key for row in rows if row.event_key} for stream, rows in rows_of.items()}
    assert own["east"] == {f"door:{name}:guest" for name in east} | {"door:bad:breaks"}
    assert len(own["west"]) == 40 and not own["east"] & own["west"]
    elsewhere = {stream: sum(row.event_type == ELSEWHERE_TYPE for row in of_it) for stream, of_it in rows_of.items()}
    record_property("rows that stand for others' events", elsewhere)
    handled = [row for row in rows_of["west"] if row.decision == "applied"]
    waited = [row.decided_at - row.received_at for row in handled if row.received_at is not None]
    record_property("delayed by, at least, s", min(waited).total_seconds())
    assert len(waited) == 40 and min(waited) >= timedelta(seconds=DELAY_S)
    bad = [row for row in rows_of["east"] if row.event_key and "bad" in row.event_key]
    assert [(row.decision.value, row.retry_policy) for row in bad] == [
        *[("retry", "FixedDelayRetryPolicy(200x2)")] * 2,
        ("dead", "FixedDelayRetryPolicy(200x2)"),
    ]
    told = (divided.folder / "told.txt").read_text().splitlines()
    route, key = "FixedDelayRetryPolicy(200x2)", bad[0].event_key
    assert told == [
        *[f"before {key} LookupError {route}", f"after {key} LookupError {route} None"] * 2,
        *[f"before {key} LookupError None", f"after {key} LookupError None None"],
    ]
    assert_divided(divided)


def runs(divided: OwnStreams, stream: str) -> bool:
    return bool(says(divided, stream).get("state") == "running")


def assert_divided(divided: OwnStreams) -> None:
    """By `payhook verify`'s own queries, from Kafka and both journals."""
    kafka = RealKafka(KafkaSettings(bootstrap_servers=divided.bootstrap, durability="single"))
    options = Options(division=Division(divided.topic, {"east": ["east"], "west": ["west"]}))
    for stream in ("east", "west"):
        lake = Lake.from_data_dir(divided.folder, stream)
        with duckdb_engine(divided.folder, "1g") as engine:
            found = verify(
                engine, lake, kafka, AnchorKeys(["k" * 32]), VerifyLimits(), SystemClock(), options, names=PROMISES
            )
        assert found.ok, found.as_json()
        figures = {one.name: one.figures for one in found.findings}
        assert figures["topic_divided"] == {"offsets": 81}
        assert figures["elsewhere_is_others"]["compared"] == (40 if stream == "east" else 41)


def test_a_header_that_no_event_has_is_refused_before_anything_starts(divided: OwnStreams) -> None:
    file = divided.folder / "streams.toml"
    file.write_text(file.read_text().replace('{ tenant = "eu-*" }', '{ tenat = "eu-*" }'))
    with pytest.raises(StreamInvalid, match="tenat: events have no such header; they have mode"):
        load_streams(str(file))
