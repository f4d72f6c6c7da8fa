"""What a stream is put together from, without Spark: functions that are named, what they ask for, what travels."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pydantic import BaseModel

from core.clock import SystemClock
from core.errors import SettingError
from core.layout import Layout
from core.routing import Shard
from core.settings import KafkaSettings, TopicsSettings
from core.source_record import NotAnEvent, SourceRecord
from journal.anchors import AnchorKeys
from notify.errors import SubscriberGone
from notify.settings import NotifySettings
from processor.backlog.sizing import FixedExecutors
from processor.source.opening import open_source
from processor.streams import load_streams
from processor.topics import SharedResources
from processor.wiring import Wired, bind_function, wire_stream
from tests.unit.notify.place import item

SUBSCRIBERS = """
[shop]
url = "https://hooks.example.com/in"

[bank]
url = "https://bank.example.com/in"
"""
WITHOUT_SHOP = SUBSCRIBERS[SUBSCRIBERS.index("[bank]") :]
ONE = FixedExecutors(1, 1)
SHARED = SharedResources(None, KafkaSettings(), TopicsSettings(), {}, SystemClock(), ONE, AnchorKeys(["k" * 32]), None)  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "subscribers.toml"
    path.write_text(SUBSCRIBERS)
    return path


@pytest.fixture
def wired(tmp_path: Path, file: Path) -> Wired:
    sections: dict[type, BaseModel] = {NotifySettings: NotifySettings(subscribers_file=str(file))}
    return wire_stream(load_streams()["notify"], "live", Layout(tmp_path).stream, sections)


def test_a_shard_lets_one_person_do_its_part_alone(tmp_path: Path, file: Path) -> None:
    """Each counts by itself; together they allow what the stream's settings say."""
    sections: dict[type, BaseModel] = {NotifySettings: NotifySettings(subscribers_file=str(file))}

    def wired_in(shards: int) -> Wired:
        config = load_streams(shards=shards)["notify"].model_copy(update={"source": "kafka"})
        return wire_stream(config, "live", Layout(tmp_path).stream, sections, shards - 1)

    whole, part = wired_in(1), wired_in(2)
    assert (part.name, part.shard) == ("notify.1", Shard(1, 2))
    assert whole.alone == whole.config.dlq.alone_limits
    assert part.alone.items_max == whole.alone.items_max // 2


def test_a_worker_that_starts_later_knows_whom_its_stream_was_started_with(wired: Wired, file: Path) -> None:
    open_source(wired, SHARED)
    file.write_text(WITHOUT_SHOP)
    handler = pickle.loads(pickle.dumps(wired.task)).build_handler()
    with pytest.raises(SubscriberGone, match="shop is no longer in"):
        handler(item("shop"))


def test_who_was_named_once_is_known_until_the_process_ends(wired: Wired, file: Path) -> None:
    open_source(wired, SHARED)
    file.write_text(WITHOUT_SHOP)
    open_source(wired, SHARED)
    assert wired.reads is not None
    assert wired.reads.receivers.names == ("bank", "shop")


def test_a_handlers_files_travel_with_its_task(wired: Wired) -> None:
    assert pickle.loads(pickle.dumps(wired.task)).files._sent is not None


class UrlSection(BaseModel):
    url: str


class Own(BaseModel):
    greeting: str
    times: int = 1


def build_of_both(own: Own, section: UrlSection, clock: object = None) -> tuple[object, ...]:
    return own, section, clock


def build_of_nothing() -> str:
    return "built"


def build_of_what_nobody_has(path: Path) -> object:
    return path


HERE = __name__
SECTION = UrlSection(url="http://here")


def test_a_section_by_its_type_and_a_model_of_its_own() -> None:
    built = bind_function("[s] handler", f"{HERE}:build_of_both", {UrlSection: SECTION}, {"greeting": "hi"})
    assert built() == (Own(greeting="hi"), SECTION, None)


def test_it_travels_by_name() -> None:
    built = bind_function("[s] handler", f"{HERE}:build_of_nothing", {}, {})
    assert pickle.loads(pickle.dumps(built))() == "built"


@pytest.mark.parametrize(
    ("name", "own", "reported"),
    [
        ("nobody.there:build", {}, "no module nobody: install it, or put its folder on PYTHONPATH"),
        (f"{HERE}:missing", {}, "has no missing"),
        (f"{HERE}:build_of_nothing", {"greeting": "hi"}, "takes no settings of its own: leave the table"),
        (f"{HERE}:build_of_both", {}, r"settings\.greeting: Field required"),
        (f"{HERE}:build_of_both", {"greeting": "hi", "times": "often"}, r"settings\.times"),
        (f"{HERE}:build_of_what_nobody_has", {}, "its parameter path has the type"),
    ],
)
def test_what_is_not_there_is_named_before_anything_starts(name: str, own: dict[str, object], reported: str) -> None:
    with pytest.raises(SettingError, match=reported) as raised:
        bind_function("[s] handler", name, {UrlSection: SECTION}, own)
    assert str(raised.value).startswith("setting [s] handler")


def wired_foreign(folder: Path, source: str, more: str = "") -> Wired:
    file = folder / "streams.toml"
    table = f'source = {{ topic = "orders", {source} }}'
    file.write_text(f'[orders]\nhandler = "notify.handler:build"\n{table}\n{more}', "utf-8")
    (folder / "subscribers.toml").write_text(SUBSCRIBERS, "utf-8")
    sections: dict[type, BaseModel] = {
        NotifySettings: NotifySettings(subscribers_file=str(folder / "subscribers.toml"))
    }
    return wire_stream(load_streams(str(file))["orders"], "live", Layout(folder).stream, sections)


def identify(_: SourceRecord) -> NotAnEvent:
    return NotAnEvent("a test")


NO_FUNCTION = 7


def test_the_function_that_names_another_programs_records_travels_by_name(tmp_path: Path) -> None:
    wired = wired_foreign(tmp_path, 'identity = "tests.unit.processor.test_wiring:identify"')
    assert wired.foreign is not None
    assert (wired.foreign.topic, wired.events_topic) == ("orders", "orders")
    assert wired.event_keys is None, "no signature is asked of it"
    travelled = pickle.loads(pickle.dumps(wired.foreign))
    assert travelled.identity is identify


@pytest.mark.parametrize(
    ("source", "more", "reported"),
    [
        ('identity = "nowhere.at_all:of"', "", r"\[orders\] source.identity: there is no module nowhere"),
        ('identity = "core.work:of"', "", r"source.identity: the module core.work has no of"),
        ('identity = "tests.unit.processor.test_wiring:NO_FUNCTION"', "", "isn't a function"),
        ('identity = "cloudevents"', 'payload = "avro"\n', "set payload_schemas"),
        ('identity = "cloudevents"', 'payload = "avro"\npayload_schemas = "/nowhere"\n', "there is no folder /nowhere"),
        ('identity = "cloudevents"', 'payload = "avro:/nowhere.avsc"\n', "/nowhere.avsc can't be read"),
        ('identity = "cloudevents"', 'payload_schemas = "/nowhere"\n', "it is for payload = avro"),
    ],
)
def test_what_a_foreign_topic_lacks_is_named_before_anything_starts(
    tmp_path: Path, source: str, more: str, reported: str
) -> None:
    with pytest.raises(SettingError, match=reported):
        wired_foreign(tmp_path, source, more)
