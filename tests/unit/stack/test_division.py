"""Which streams divide a topic among them, as a verification asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from processor.streams import load_streams
from stack.maintenance.verification import division_of

STREAM = '[{name}]\nsource = "{source}"\nhandler = "greeting:build"\n{more}\n'
EU, REST = 'where = { tenant = "eu-*" }', 'where = { tenant = "!eu-*" }'


@pytest.mark.parametrize(
    ("streams", "divide"),
    [
        ([("east", "kafka:orders", EU), ("west", "kafka:orders", REST)], ["east", "west"]),
        ([("east", "kafka:orders", EU), ("west", "kafka:orders", "")], None),
        ([("east", "kafka:orders", EU), ("west", "kafka:refunds", REST)], None),
        ([("east", "kafka:orders", EU), ("west", "kafka:orders", REST + "\nenabled = false")], None),
        ([("east", "kafka:orders", EU), ("west", "kafka:orders", REST + '\nmodes = ["test"]')], None),
        ([("east", "kafka", EU)], None),
        ([("east", "kafka", EU), ("ledger", "kafka", REST)], ["east", "ledger"]),
    ],
    ids=[
        "two",
        "one takes all",
        "other topics",
        "one is off",
        "other modes",
        "the ledger takes all",
        "with the ledger",
    ],
)
def test_streams_divide_a_topic_where_each_of_several_says_what_it_takes(
    tmp_path: Path, streams: list[tuple[str, str, str]], divide: list[str] | None
) -> None:
    file = tmp_path / "streams.toml"
    file.write_text("".join(STREAM.format(name=name, source=source, more=more) for name, source, more in streams))
    known = load_streams(str(file))
    division = division_of(known, known["east"], "live")
    assert (None if division is None else sorted(division.streams)) == divide
    if division is not None:
        assert (division.topic, division.streams["east"]) == (known["east"].events_topic("live"), ["east"])


@pytest.mark.parametrize("other", ["", STREAM.format(name="east", source="kafka", more=REST + "\nenabled = false")])
def test_what_the_only_stream_of_the_receivers_leaves_out_is_proven_to_be_nothing(tmp_path: Path, other: str) -> None:
    """Its webhooks were answered 2xx, and nobody else decides them."""
    file = tmp_path / "streams.toml"
    file.write_text(f"[ledger]\n{EU}\n" + other)
    known = load_streams(str(file))
    division = division_of(known, known["ledger"], "live")
    assert division is not None
    assert (division.topic, list(division.streams)) == ("payments.events", ["ledger"])
