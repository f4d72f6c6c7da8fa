"""Settings come from a file and the environment, a wrong one is named, and docs/settings.md lists them all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from core.errors import SettingError
from stack.machine import CHECKOUT
from stack.settings import load_settings
from tests.settings_page import FIRST, TOPICS, settings_page


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_anything_the_defaults_hold() -> None:
    settings = load_settings()
    assert settings.kafka.events_partitions == 4
    assert settings.data_dir.name == "data"


def test_the_file_here_is_read_and_the_environment_wins(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty_folder / "payhook.toml").write_text(
        'data_dir = "d"\n[kafka]\nevents_partitions = 8\n[topics]\nevents_retention_days = 8\n'
    )
    monkeypatch.setenv("PAYHOOK_KAFKA__EVENTS_PARTITIONS", "16")
    settings = load_settings()
    assert (settings.kafka.events_partitions, settings.topics.events_retention_days) == (16, 8)
    assert settings.data_dir == empty_folder / "d"


def test_a_named_file_is_read_instead_of_the_one_here(empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (empty_folder / "payhook.toml").write_text('[redis]\nurl = "redis://here"\n')
    (empty_folder / "other.toml").write_text('[redis]\nurl = "redis://other"\n')
    assert load_settings(Path("other.toml")).redis.url == "redis://other"
    monkeypatch.setenv("PAYHOOK_CONFIG", "other.toml")
    assert load_settings().redis.url == "redis://other"


def test_secrets_and_merchants_are_in_the_data_folder_unless_they_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYHOOK_DATA_DIR", "/somewhere")
    assert load_settings().ledger.merchants_file == "/somewhere/merchants.toml"
    assert load_settings().ingest.secrets_dir == "/somewhere/secrets"
    monkeypatch.setenv("PAYHOOK_LEDGER__MERCHANTS_FILE", "/elsewhere.toml")
    monkeypatch.setenv("PAYHOOK_INGEST__SECRETS_DIR", "/elsewhere")
    assert load_settings().ledger.merchants_file == "/elsewhere.toml"
    assert load_settings().ingest.secrets_dir == "/elsewhere"


def test_settings_that_contradict_each_other_are_named_by_their_section(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYHOOK_INGEST__KNOWN_ENDPOINTS_ONLY", "true")
    with pytest.raises(SettingError, match=r"setting ingest .*known_endpoints_only without endpoints"):
        load_settings()


@pytest.mark.parametrize(
    ("variable", "value", "reported"),
    [
        (
            "PAYHOOK_KAFKA__EVENTS_PARTITIONS",
            "none",
            r"kafka\.events_partitions \(PAYHOOK_KAFKA__EVENTS_PARTITIONS\)",
        ),
        ("PAYHOOK_KAFKA__EVENTS_PARTITION", "4", r"kafka\.events_partition \(.*\): no such setting"),
        ("PAYHOOK_TOPCIS__REPLICATION", "4", r"PAYHOOK_TOPCIS__REPLICATION: no such setting; known are "),
        (
            "PAYHOOK_STREAMS__LEDGER__CONCURRENCY",
            "0",
            r"PAYHOOK_STREAMS__.*: \[ledger\] concurrency: .*greater than or equal to 1",
        ),
        ("PAYHOOK_CONFIG", "missing.toml", r"missing\.toml: the file can't be read"),
    ],
)
def test_a_wrong_setting_is_named(variable: str, value: str, reported: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingError, match=reported):
        load_settings()


def test_a_misspelt_section_of_the_file_is_named(empty_folder: Path) -> None:
    (empty_folder / "payhook.toml").write_text("[topcis]\nreplication = 8\n")
    with pytest.raises(SettingError, match=r"setting topcis \(PAYHOOK_TOPCIS\): no such setting"):
        load_settings()


def test_a_file_that_is_no_toml_is_named(empty_folder: Path) -> None:
    (empty_folder / "payhook.toml").write_text("topics: 8\n")
    with pytest.raises(SettingError, match=r"payhook\.toml: the file can't be read"):
        load_settings()


def test_what_tests_and_load_tests_read_is_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYHOOK_TESTING", "1")
    monkeypatch.setenv("PAYHOOK_TEST_WEBHOOKS", "somewhere")
    monkeypatch.setenv("PAYHOOK_CRASH_AT", "somewhere")
    load_settings()


@pytest.mark.parametrize(
    ("reported", "own", "embedded", "replicas"),
    [
        (None, "replicated", "single", 3),
        ("single", "single", "single", 1),
        ("replicated", "replicated", "replicated", 3),
    ],
)
def test_one_broker_is_enough_only_where_that_is_set_or_it_is_the_embedded_one(
    reported: str | None, own: str, embedded: str, replicas: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reported is not None:
        monkeypatch.setenv("PAYHOOK_KAFKA__DURABILITY", reported)
    settings = load_settings()
    assert (settings.kafka.durability, settings.kafka.durability_of_up) == (own, embedded)
    assert settings.topics.count_replicas(settings.kafka.durability) == replicas
    assert settings.topics.count_replicas(embedded) == (3 if embedded == "replicated" else 1)  # type: ignore[arg-type]


def test_replicas_that_are_set_are_what_topics_get(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAYHOOK_TOPICS__REPLICATION", "5")
    assert {load_settings().topics.count_replicas("single"), load_settings().topics.count_replicas("replicated")} == {5}


PAGE = Path(__file__).parents[3] / "docs" / "settings.md"


def test_the_page_in_docs_is_made_from_the_code_as_it_is() -> None:
    assert PAGE.read_text("utf-8") == settings_page(), "run `make docs`"


def test_every_setting_says_what_it_is() -> None:
    rows = [line for line in settings_page().splitlines() if line.startswith("| `")]
    assert len(rows) > 40
    assert all(len(row.split("|")[3].strip()) > 5 for row in rows)


def test_every_setting_stands_once_under_its_topic_and_what_people_set_first_is_there() -> None:
    page = settings_page()
    sections = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", page, re.MULTILINE))
    listed = [name for text in sections.values() for name in re.findall(r"^\| `([a-zA-Z_.]+)`", text, re.MULTILINE)]
    assert list(sections) == [title for title, _, _ in TOPICS]
    assert len(listed) == len(set(listed)) > 100
    assert all(re.search(r"^\| `", text, re.MULTILINE) for text in sections.values())
    assert len(FIRST) == 10 and FIRST.keys() <= set(listed)


def test_every_variable_that_a_test_sets_is_a_setting() -> None:
    """Of one that is gone a test of `make test-faults` would tell at its next run only."""
    listed = re.findall(r"^\| `([a-z_.]+)", settings_page(), re.MULTILINE)
    known = tuple("PAYHOOK_" + name.upper().replace(".", "__") for name in listed)
    tests = [file for file in CHECKOUT.glob("tests/**/*.py") if file != Path(__file__)]
    named = {(found, file.name) for file in tests for found in re.findall(r"PAYHOOK_\w+?__\w+\w", file.read_text())}
    assert len(named) > 50
    assert [one for one in sorted(named) if not one[0].startswith(known)] == []
