"""Live and test traffic share servers and nothing else: no topic, no file, no process of the processor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.errors import SettingError
from core.event import Mode
from core.layout import Layout
from core.settings import KafkaSettings
from ingest.settings import EndpointSettings, IngestSettings
from ledger.verify import Lake
from stack.addresses import list_processors, metrics_port, metrics_ports
from stack.children import build_endpoints, choose_ports, list_servers
from stack.servers.server import Server
from stack.settings import Settings, load_settings
from stack.topics import plan_topics
from stack.up import open_supervisor

BOTH: tuple[Mode, ...] = ("live", "test")
PLACES = ("journal", "bodies_table", "postings", "index", "checkpoint", "status", "trying_file")


@pytest.fixture(autouse=True)
def nothing_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its settings file nor its Java, jars and Redis."""
    monkeypatch.chdir(tmp_path)
    for name in ("kafka", "redis"):
        server = Server(name, ("true",), tmp_path / "log", answers=lambda: True)
        monkeypatch.setattr(f"stack.children.{name}_server", lambda *_, server=server: server)


def of_both(data_dir: Path) -> Settings:
    return Settings(data_dir=data_dir, ingest=IngestSettings(test_traffic=True))


def test_no_place_of_one_mode_is_the_others(tmp_path: Path) -> None:
    live, test = (Layout(tmp_path).ledger(mode) for mode in BOTH)
    for name in PLACES:
        one, other = getattr(live, name), getattr(test, name)
        assert one != other
        assert one not in other.parents
        assert other not in one.parents


def test_the_live_places_are_where_they_always_were(tmp_path: Path) -> None:
    live = Layout(tmp_path).ledger()
    assert [str(getattr(live, name).relative_to(tmp_path)) for name in PLACES] == [
        "lake/journal/ledger",
        "lake/bodies",
        "lake/postings",
        "index/ledger",
        "checkpoints/ledger",
        "run/processor-ledger.json",
        "run/trying-ledger.json",
    ]


@pytest.mark.parametrize("mode", BOTH)
def test_verify_looks_where_the_processor_writes(tmp_path: Path, mode: Mode) -> None:
    places = Layout(tmp_path).ledger(mode)
    lake = Lake.from_data_dir(tmp_path, places.stream)
    for name in ("journal", "bodies_table", "postings", "index"):
        assert getattr(lake, name) == getattr(places, name)


def test_test_topics_are_made_only_for_test_traffic() -> None:
    live = {topic.name for topic in plan_topics(Settings())}
    both = {
        topic.name: topic
        for topic in plan_topics(
            Settings(kafka=KafkaSettings(events_partitions=8), ingest=IngestSettings(test_traffic=True))
        )
    }
    assert both.keys() - live == {
        "payments.events.test",
        "payments.control.test",
        "payments.receipts.test",
        "payments.anchors.test",
        "dlq.ledger-test",
        "dlq.notify-test",
    }
    assert both["payments.events.test"].partitions == 8


def test_a_processor_of_its_own_runs_only_where_test_traffic_is_taken(tmp_path: Path) -> None:
    ports = choose_ports(Settings())
    without = {server.name: server for server in list_servers(Settings(data_dir=tmp_path), ports, None)}
    both = {server.name: server for server in list_servers(of_both(tmp_path), ports, None)}
    assert both.keys() - without.keys() == {"processor-test"}
    assert without["processor"].command[-4:] == ("--mode", "live", "--shard", "0")
    assert both["processor-test"].command[-4:-2] == ("--mode", "test")
    assert both["processor-test"].log != both["processor"].log


def test_each_processor_is_ready_by_its_own_word(tmp_path: Path) -> None:
    layout, settings = Layout(tmp_path), of_both(tmp_path)
    servers = {server.name: server for server in list_servers(settings, choose_ports(settings), None)}
    layout.run.mkdir()
    layout.ledger("live").status.write_text('{"ready": true}')
    assert not servers["processor"].answers()
    layout.stream("notify").status.write_text('{"ready": false, "state": "failed"}')
    assert servers["processor"].answers()
    assert not servers["processor-test"].answers()
    servers["processor-test"].prepare()
    assert servers["processor"].answers()
    servers["processor"].prepare()
    assert not servers["processor"].answers()


def test_shards_have_a_process_a_log_and_a_metrics_port_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYHOOK_PROCESSOR__SHARDS", "2")
    monkeypatch.setenv("PAYHOOK_PROCESSOR__METRICS_PORT", "9100")
    monkeypatch.setenv("PAYHOOK_DATA_DIR", str(tmp_path))
    settings = load_settings()
    assert list_processors(settings, "live") == {"processor": ["ledger", "notify"], "processor.1": ["ledger.1"]}
    assert list(list_processors(settings, "test")) == ["processor-test", "processor-test.1"]
    found = list_servers(settings, choose_ports(settings), None)
    shards = {server.name: server for server in found if server.name.startswith("processor")}
    assert {name: server.command[-2:] for name, server in shards.items()} == {
        "processor": ("--shard", "0"),
        "processor.1": ("--shard", "1"),
    }
    assert len({server.log for server in shards.values()}) == 2
    assert metrics_ports(settings, "live") == {"processor": 9100, "processor.1": 9101}
    assert metrics_ports(settings, "test") == {"processor-test": 9102, "processor-test.1": 9103}
    assert [metrics_port(settings, "live", shard) for shard in range(3)] == [9100, 9101, None]


def test_partitions_that_cant_be_divided_evenly_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYHOOK_PROCESSOR__SHARDS", "3")
    with pytest.raises(SettingError, match="kafka.events_partitions is 4, processor.shards 3: it must be a multiple"):
        load_settings()


def test_a_broken_stream_holds_no_other_back_when_the_stack_comes_up(tmp_path: Path) -> None:
    settings, layout = Settings(data_dir=tmp_path), Layout(tmp_path)
    (processor,) = (one for one in list_servers(settings, choose_ports(settings), None) if one.name == "processor")
    layout.run.mkdir()
    for ready in (False, True):
        layout.stream("ledger").status.write_text(json.dumps({"ready": ready}))
        layout.stream("notify").status.write_text('{"ready": false, "state": "failed"}')
        assert processor.answers()


def test_the_test_journal_is_named_only_where_there_is_one(tmp_path: Path) -> None:
    layout, ports = Layout(tmp_path), choose_ports(Settings())
    assert build_endpoints(layout, ports, {}, ("live",)).test_journal is None
    assert build_endpoints(layout, ports, {}, BOTH).test_journal == str(tmp_path / "lake" / "journal" / "ledger-test")


def test_listed_endpoints_get_a_secret_each_the_first_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "payhook.toml").write_text(
        "[ingest]\ntest_traffic = true\n"
        '[ingest.endpoints."adyen/t"]\nmode = "test"\n[ingest.endpoints."stripe/eu"]\nzone = "eu"\n'
    )
    monkeypatch.setenv("PAYHOOK_DATA_DIR", str(tmp_path / "data"))
    with open_supervisor(load_settings(), None, print):
        made = {path.name: path.read_text() for path in (tmp_path / "data" / "secrets").iterdir()}
    assert made["stripe.eu"] != made["stripe"]
    assert made["adyen.t"] != made["adyen"]


def test_settings_name_endpoints_in_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYHOOK_INGEST__ENDPOINTS", '{"stripe/eu": {"tenant": "shop-a"}}')
    assert load_settings().ingest == IngestSettings(
        endpoints={"stripe/eu": EndpointSettings(tenant="shop-a")},
        secrets_dir=load_settings().ingest.secrets_dir,
    )
