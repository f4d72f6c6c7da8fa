"""One event that fails and holds back all others is dead-lettered where followers go on: on real Kafka and Spark."""

from __future__ import annotations

import pytest

from tests.integration.processor.own_streams import OwnStreams, says

pytestmark = pytest.mark.more(reason="a minute on Spark and Kafka; tests/unit/processor/decide has it on the engine")

STREAM = """
[queue]
source = "kafka:{topic}"
handler = "greeting:build"
settings = {{ greeting = "hello" }}
retry = "fixed(1s x600)"
dead_head = "continue"
dlq = {{ create_topic = true }}
errors = {{ kinds = {{ LookupError = "SNBE" }} }}
"""


def test_a_head_that_holds_back_all_others_goes_to_the_dead_letters_and_the_others_go_on(streams: OwnStreams) -> None:
    with (streams.folder / "streams.toml").open("a") as file:
        file.write(STREAM.format(topic=streams.topic))
    with streams.running("queue") as wait_for:
        wait_for(lambda: says(streams, "queue").get("state") == "running", "the stream")
        streams.post("head", kind="breaks", entity="shop")
        streams.post(*(f"behind-{number}" for number in range(60)), entity="shop")
        wait_for(lambda: says(streams, "queue")["heads"].get("head_of_line"), "utilisation and uncommitted share")
        assert says(streams, "queue")["heads"]["held_by"] == "door:head:breaks"
        wait_for(lambda: len(streams.applied("queue")) == 60, "those behind it")
        wait_for(lambda: says(streams, "queue")["published_upto"] >= says(streams, "queue")["seq"], "its letter")
    head = [row for row in streams.rows("queue") if row.event_key == "door:head:breaks"]
    assert (head[-1].decision.value, head[-1].error_class) == ("dead", "HeadOfLineBlocked")
    assert streams.applied("queue") == [f"door:behind-{number}:guest" for number in range(60)], "in their order"
    counted = streams.metrics["queue"].registry.get_sample_value("payhook_head_of_line_dead_total")
    assert counted == 1
