"""Streams from files: laid over one another key by key, and wrong ones named with file, stream and key."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from core.layout import LAKE_FOLDERS, StreamLayout
from core.routing import base_of
from notify.settings import TIMEOUT_S_MAX
from processor.streams import SHIPPED, StreamInvalid, list_enabled, load_streams
from stack.backup.manifest import list_tables
from stack.settings import Settings

OWN = """
[greet]
source = "kafka:guests"
handler = "greeting:build"
"""


def load(folder: Path, text: str, settings: dict[str, Any] | None = None):
    file = folder / "my-streams.toml"
    file.write_text(text)
    return load_streams(str(file), settings)


def test_the_ledger_and_the_notifications_are_shipped() -> None:
    shipped = load_streams()
    assert {name: stream.source for name, stream in shipped.items()} == {"ledger": "kafka", "notify": "journal:ledger"}
    assert [stream.name for stream in list_enabled(shipped, "live")] == ["ledger", "notify"]


def test_a_subscribers_longest_request_ends_before_its_handlers_deadline() -> None:
    assert load_streams()["notify"].handler_deadline_s > TIMEOUT_S_MAX


@pytest.mark.row("B6")
def test_a_stream_of_ones_own_stands_beside_the_shipped_ones(tmp_path: Path) -> None:
    streams = load(tmp_path, OWN)
    assert list(streams) == ["ledger", "notify", "greet"]
    greet = streams["greet"]
    assert (greet.events_topic("live"), greet.events_topic("test")) == ("guests", "guests.test")
    assert (greet.dlq_topic("live"), greet.dlq_topic("test")) == ("dlq.greet", "dlq.greet-test")


def test_the_last_layer_wins_key_by_key(tmp_path: Path) -> None:
    text = '[ledger]\nconcurrency = 4\n[ledger.errors.kinds]\nKeyError = "SLE"\n'
    settings = {"ledger": {"concurrency": 8, "errors": {"kinds": {"OSError": "SBE"}}}}
    ledger = load(tmp_path, text, settings)["ledger"]
    assert ledger.handler == "ledger.handler:build"
    assert ledger.concurrency == 8
    assert ledger.errors.kinds == {"KeyError": "SLE", "OSError": "SBE"}


def test_defaults_hold_where_a_stream_says_nothing_else(tmp_path: Path) -> None:
    streams = load(tmp_path, "[defaults]\nconcurrency = 3\n[defaults.dlq]\ncopy_record = false\n" + OWN)
    assert (streams["ledger"].concurrency, streams["greet"].concurrency) == (3, 3)
    assert streams["notify"].concurrency == load_streams()["notify"].concurrency
    assert not streams["greet"].dlq.copy_record


def test_the_prefix_of_dead_letter_topics_is_a_setting_and_may_be_empty(tmp_path: Path) -> None:
    greet = load(tmp_path, OWN + 'dlq = { prefix = "emea." }\n')["greet"]
    assert (greet.dlq_topic("live"), greet.dlq_topic("test")) == ("emea.greet", "emea.greet-test")
    named = load(tmp_path, OWN + 'dlq = { prefix = "", topic = "graveyard" }\n')["greet"]
    assert named.dlq_topic("live") == "graveyard"
    everywhere = load(tmp_path, '[defaults]\ndlq = { prefix = "" }\n' + OWN)
    assert everywhere["ledger"].dlq_topic("live") == "ledger"


def test_a_stream_that_is_switched_off_does_not_run(tmp_path: Path) -> None:
    streams = load(tmp_path, "[notify]\nenabled = false\n")
    assert [stream.name for stream in list_enabled(streams, "live")] == ["ledger"]


@pytest.mark.row("D3")
def test_a_stream_takes_the_traffic_that_it_names(tmp_path: Path) -> None:
    streams = load(tmp_path, OWN + 'modes = ["test"]\n')
    assert [stream.name for stream in list_enabled(streams, "live")] == ["ledger", "notify"]
    assert [stream.name for stream in list_enabled(streams, "test")] == ["ledger", "notify", "greet"]


@pytest.mark.parametrize(
    ("text", "stream", "key", "reported"),
    [
        ("[ledger]\nconcurency = 4", "ledger", "concurency", "did you mean concurrency"),
        ("[ledger]\nconcurrency = 0", "ledger", "concurrency", "greater than or equal to 1"),
        ('[greet]\nsource = "kafka"', "greet", "handler", "it is missing: module:function"),
        (OWN + 'dead_head = "die_with_it"', "greet", "dead_head", "'continue' or 'wait'"),
        ('[greet]\nhandler = "greeting.build"', "greet", "handler", "module:function"),
        (OWN.replace("kafka:guests", "rabbit"), "greet", "source", "expected kafka"),
        (OWN.replace("kafka:guests", "journal:nobody"), "greet", "source", "no stream nobody"),
        (OWN.replace("kafka:guests", "journal:notify"), "greet", "source", "reads a journal itself"),
        (OWN + 'feed = "a:b"', "greet", "feed", "leave it out"),
        (OWN + 'dlq = { topic = "graveyard" }', "greet", "dlq.topic", "doesn't begin with 'dlq.'"),
        (OWN + 'dlq = { prefix = "", topic = "guests" }', "greet", "dlq.topic", "the stream greet reads it"),
        (OWN + 'dlq = { prefix = "", topic = "payments.control" }', "greet", "dlq.topic", "payhook's own"),
        (OWN + 'dlq = { topic = "dlq.ledger" }', "ledger", "dlq.topic", "each stream has its own"),
        (OWN + 'dlq = { topic = "dlq.ledger-test" }', "ledger", "dlq.topic", "each stream has its own"),
        (OWN + 'dlq = { topic = "dlq.ledger.1" }', "ledger", "dlq.topic", "greet has dlq.ledger.1"),
        (OWN + 'dlq = { topic = "dlq.notify-test.12" }', "notify", "dlq.topic", "each stream has its own"),
        (OWN + 'derived = { postings = "a:B" }', "ledger", "derived.postings", "greet keeps postings,"),
        (OWN + 'derived = { postings-test = "a:B" }', "ledger", "derived.postings", "greet keeps postings-test,"),
        (OWN + 'derived = { sums = "a:B", sums-test = "a:B" }', "greet", "derived.sums", "sums-test"),
        (OWN + 'derived = { bodies = "a:B" }', "greet", "derived.bodies", "payhook's own"),
        (OWN + 'derived = { bodies-greet = "a:B" }', "greet", "derived.bodies-greet", "payhook's own"),
        (OWN + 'derived = { leases = "a:B" }', "greet", "derived.leases", "payhook's own"),
        (OWN + 'derived = { reconciliation-runs-test = "a:B" }', "greet", "derived.reconciliation-runs-test", "own"),
        (OWN + 'derived = { sums = "a.B" }', "greet", "derived.sums", "module:class"),
        (OWN + 'name = "hello"', "greet", "name", "leave it out"),
        ("greet = 1", "greet", "", r"write \[greet\]"),
        ("[greet-test]", "greet-test", "", "doesn't end in -test"),
        ("[Greet]", "Greet", "", "small letters"),
        ('[ledger]\nmodes = ["live"]', "notify", "modes", "ledger takes no test traffic"),
        ("[ledger]\nenabled = false", "notify", "source", "there is no stream ledger, or it isn't enabled"),
        ("ledger:\n", "*", "", "can't be read"),
    ],
)
def test_what_is_wrong_is_named_with_stream_key_and_what_to_do(
    tmp_path: Path, text: str, stream: str, key: str, reported: str
) -> None:
    with pytest.raises(StreamInvalid, match=reported) as raised:
        load(tmp_path, text)
    assert (raised.value.stream, raised.value.key) == (stream, key)
    assert f"[{stream}] {key}".strip() in str(raised.value)


def test_every_folder_of_the_lake_is_one_that_no_stream_may_keep_a_table_in(tmp_path: Path) -> None:
    lake, ledger = Path("lake"), StreamLayout(Path("data"), Path("lake"), "ledger")
    of_streams = [getattr(ledger, name) for name, one in vars(StreamLayout).items() if isinstance(one, property)]
    folders = {place.parts[1] for place in of_streams if isinstance(place, Path) and place.is_relative_to(lake)}
    folders |= {base_of(one.path.partition("/")[0]) for one in list_tables(Settings(data_dir=tmp_path))}
    assert folders - {"bodies-notify", *load_streams()["ledger"].derived} == LAKE_FOLDERS


def test_the_file_that_says_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(StreamInvalid) as raised:
        load(tmp_path, "[ledger]\nconcurrency = 0\n")
    assert raised.value.where == str(tmp_path / "my-streams.toml")
    with pytest.raises(StreamInvalid, match="PAYHOOK_STREAMS__"):
        load_streams("", {"ledger": {"concurrency": 0}})
    with pytest.raises(StreamInvalid) as raised:
        load_streams("", {"ledger": {"enabled": False}})
    assert raised.value.where == str(SHIPPED), "the reader's source is named where it stands"


def test_the_error_travels_between_processes() -> None:
    wrong = StreamInvalid("file", "greet", "handler", "it is missing")
    assert str(pickle.loads(pickle.dumps(wrong))) == str(wrong)


@pytest.mark.parametrize(
    ("line", "key", "said"),
    [
        ('where = { tennant = "eu-*" }', "where", "tennant: events have no such header"),
        ('where = { tenant = "eu-[a" }', "where", "tenant: the [ in 'eu-[a' is never closed"),
        ('where = { mode = "prod" }', "where", "fits neither live nor test"),
        ('delay = "soon"', "delay", "isn't a delay such as 250ms, 30s, 2m or 1h"),
    ],
)
def test_a_where_or_a_delay_that_can_t_be_read_is_named_at_start(
    tmp_path: Path, line: str, key: str, said: str
) -> None:
    with pytest.raises(StreamInvalid) as refused:
        load(tmp_path, OWN + line)
    assert (refused.value.stream, refused.value.key) == ("greet", key)
    assert said in refused.value.problem and refused.value.where == str(tmp_path / "my-streams.toml")


def test_a_stream_that_reads_a_journal_has_no_where(tmp_path: Path) -> None:
    with pytest.raises(StreamInvalid, match="it is for streams that read a topic of Kafka"):
        load(tmp_path, '[notify]\nwhere = { tenant = "eu-*" }')


FOREIGN = """
[orders]
source = { topic = "shop.orders", identity = "shop.identity:of" }
handler = "greeting:build"
"""


def test_another_programs_topic_is_a_table_and_has_live_traffic_alone(tmp_path: Path) -> None:
    orders = load(tmp_path, FOREIGN)["orders"]
    assert orders.foreign_source is not None
    assert (orders.foreign_source.topic, orders.foreign_source.identity) == ("shop.orders", "shop.identity:of")
    assert (orders.source_stream, orders.is_dividable, orders.modes) == (None, False, ("live",))
    assert orders.events_topic("live") == "shop.orders"


def test_another_programs_topic_of_test_traffic_is_one_that_the_stream_asks_for(tmp_path: Path) -> None:
    orders = load(tmp_path, FOREIGN + 'modes = ["live", "test"]\n')["orders"]
    assert orders.events_topic("test") == "shop.orders.test"


def test_without_an_identity_its_records_are_cloudevents(tmp_path: Path) -> None:
    orders = load(tmp_path, FOREIGN.replace(', identity = "shop.identity:of"', ""))["orders"]
    assert orders.foreign_source is not None and orders.foreign_source.identity == "cloudevents"


@pytest.mark.parametrize(
    ("source", "key", "reported"),
    [
        ('{ identity = "shop.identity:of" }', "source.topic", "it is missing"),
        ('{ topic = "or ders" }', "source.topic", "pattern"),
        ('{ topic = "orders", identity = "of" }', "source.identity", "pattern"),
        ('{ topic = "orders", identiti = "a:b" }', "source.identiti", "no such key"),
        ('{ topic = "payments.events" }', "source.topic", "payhook's own"),
        ('{ topic = "payments.control.test" }', "source.topic", "payhook's own"),
        ('"orders"', "source", "pattern"),
        ("7", "source", "string"),
    ],
)
def test_a_wrong_source_is_named(tmp_path: Path, source: str, key: str, reported: str) -> None:
    text = f'[orders]\nhandler = "greeting:build"\nsource = {source}\n'
    with pytest.raises(StreamInvalid, match=reported) as wrong:
        load(tmp_path, text)
    assert wrong.value.key == key
