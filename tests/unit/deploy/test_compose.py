"""What the compose file asks of every service. It runs in tests/faults/deploy."""

from __future__ import annotations

import os
import re
import subprocess
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from core.event import Mode
from stack.addresses import metrics_port
from stack.children import _list_side_servers
from stack.settings import Settings, load_settings
from tests.containers.compose import bytes_of, load, seconds
from tests.containers.image import allowed, instructions

CHECKOUT = Path(__file__).parents[3]
FILE = load(CHECKOUT / "docker-compose.yml", CHECKOUT / "deploy" / "compose.object-store.yml")
SERVICES: dict[str, Any] = FILE["services"]
OURS = {name: one for name, one in SERVICES.items() if "build" in one}
ENDING = ("topics",)
"""Services that do one thing and end."""

NEEDED = {
    "topics": set(),
    "ingest": {"receiver", "records"},
    "processor": {"anchors", "notify", "object-store", "records"},
    "processor-1": {"anchors", "notify", "object-store", "records"},
    "processor-test": {"anchors", "notify", "object-store", "records"},
    "processor-test-1": {"anchors", "notify", "object-store", "records"},
    "maintenance": {"anchors", "object-store"},
    "catch-up": {"receiver", "records", "object-store"},
    "alerts": {"alerts", "object-store"},
    "console": {"anchors", "object-store", "records"},
}
"""The providers' secrets are the receiver's and the catch-up's. Two services sign anchors and a third compares them to
the journals; four sign what they publish. The others can't."""

WITHOUT_DATA = ("topics", "ingest")


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_as_few_rights_as_it_can(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"] and "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service and "network_mode" not in service
    if name not in OURS:
        uid, _, _ = service["user"].partition(":")
        assert int(uid) > 0
    for port in service.get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port), "published to others than this machine"


@pytest.mark.parametrize("name", ["kafka", "redis"])
def test_what_asks_for_no_password_is_reached_on_the_projects_own_network_alone(name: str) -> None:
    assert "ports" not in SERVICES[name], "not on loopback either: other users of the machine are there"
    assert "networks" not in FILE, "one network, which no other project shares"
    assert all("networks" not in service for service in SERVICES.values())


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_limits_and_time_to_end(name: str) -> None:
    service = SERVICES[name]
    limits = service["deploy"]["resources"]["limits"]
    assert bytes_of(limits["memory"]) and float(limits["cpus"]) > 0 and int(limits["pids"]) > 0
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}, "logs fill the disk"
    if name not in ENDING:
        assert seconds(service["stop_grace_period"]) >= 30


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_watched(name: str) -> None:
    service = SERVICES[name]
    if name in ENDING:
        assert service["restart"] == "on-failure"
        return
    assert service["restart"] == "unless-stopped"
    check = service["healthcheck"]
    assert check["test"][0] in ("CMD", "CMD-SHELL") and check.keys() >= {"interval", "timeout", "retries"}
    assert seconds(check["start_period"]) > 0


def test_images_are_named_exactly() -> None:
    version = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    for name, service in SERVICES.items():
        tag = service["image"].rpartition(":")[2]
        assert re.match(r"v?\d+\.\d+\.\d+", tag), service["image"]
        if name in OURS:
            assert service["image"] == f"payhook:{version}"
    sources = [one.words.split()[0] for one in instructions(CHECKOUT / "Dockerfile") if one.name == "FROM"]
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-bookworm", sources[0]) and set(sources[1:]) == {"base"}


def test_a_service_has_the_secrets_that_it_needs_and_no_others() -> None:
    assert {name: set(service.get("secrets", [])) for name, service in OURS.items()} == NEEDED
    assert set().union(*NEEDED.values()) == FILE["secrets"].keys()
    assert not [name for name, service in SERVICES.items() if name not in OURS and service.get("secrets")]
    for service in SERVICES.values():
        assert not [volume for volume in service.get("volumes", []) if "secrets" in volume]


def test_a_service_has_the_data_only_where_it_keeps_something() -> None:
    for name, service in OURS.items():
        has_data = any(volume.startswith("payhook-data:") for volume in service["volumes"])
        assert has_data is (name not in WITHOUT_DATA)
        assert "./deploy/config:/etc/payhook:ro" in service["volumes"]


def test_what_stack_up_starts_beside_the_others_is_a_service_too() -> None:
    commands = {service["command"][-1] for service in OURS.values()}
    assert {module for _, _, module in _list_side_servers(Settings())} <= commands


def test_commands_run_where_the_page_says_that_their_secrets_are() -> None:
    told = (CHECKOUT / "docs" / "deployment.md").read_text("utf-8")
    assert "`catch-up` runs in `catch-up`, `notify` in `processor`, `alerts test` in `alerts`." in told
    wanted = {"catch-up": "receiver", "processor": "notify", "alerts": "alerts"}
    assert all(secret in OURS[name]["secrets"] for name, secret in wanted.items())
    assert not set(OURS["console"]["secrets"]) & set(wanted.values()), "console could run them"


def test_the_catch_up_reads_the_secrets_of_the_receiver() -> None:
    """Its masking key and credentials are the receiver's, or a webhook that comes later would be another event."""
    names = ("ingest", "catch-up")
    folders = {name: OURS[name]["environment"]["PAYHOOK_INGEST__SECRETS_DIR"] for name in names}
    assert folders == dict.fromkeys(names, "/run/secrets/receiver")
    assert OURS["catch-up"]["depends_on"]["redis"] == {"condition": "service_healthy"}


@pytest.mark.parametrize(
    ("has_credentials", "age_min", "healthy"),
    [(False, None, True), (True, 5, True), (True, 90, False), (True, None, False)],
)
def test_a_catch_up_is_healthy_while_its_rounds_end(
    tmp_path: Path, has_credentials: bool, age_min: int | None, healthy: bool
) -> None:
    """Without credentials of any API there is no round, and nothing is wrong."""
    (tmp_path / "receiver").mkdir()
    (tmp_path / "receiver" / "masking").touch()
    if has_credentials:
        (tmp_path / "receiver" / "stripe-api").touch()
    if age_min is not None:
        (report := tmp_path / "caught-up.json").touch()
        then = time.time() - age_min * 60
        os.utime(report, (then, then))
    kind, line = OURS["catch-up"]["healthcheck"]["test"]
    line = line.replace("/run/secrets", str(tmp_path)).replace("/var/lib/payhook/run", str(tmp_path))
    assert kind == "CMD-SHELL" and str(tmp_path) in line
    assert (subprocess.run(["sh", "-c", line], check=False).returncode == 0) is healthy


def test_kafkas_log_is_on_its_volume() -> None:
    kafka = SERVICES["kafka"]
    (volume,) = kafka["volumes"]
    assert volume.split(":")[1] == kafka["environment"]["KAFKA_LOG_DIRS"]


def test_there_is_one_processor_in_each_mode_and_shard() -> None:
    """A container with a name of its own can't be scaled."""
    named = {name: service["container_name"] for name, service in OURS.items() if "container_name" in service}
    processors = ("processor", "processor-1", "processor-test", "processor-test-1")
    assert named == {name: f"payhook-{name}" for name in processors}


@pytest.mark.parametrize(("mode", "name"), [("live", "processor"), ("test", "processor-test")])
def test_a_second_shard_is_the_same_but_for_its_number(mode: Mode, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both listen where their health is asked for; what is asked for with one shard alone is the first one."""
    services = load(CHECKOUT / "docker-compose.yml", env={"SHARDS": "2"})["services"]
    first, second = services[name], services[f"{name}-1"]
    assert second["profiles"] == [{"live": "shards", "test": "test-shards"}[mode]]
    assert second["command"] == [*first["command"], "--shard", "1"]
    differ = {key for key in second if second[key] != first.get(key)}
    assert differ == {"profiles", "command", "container_name", "environment"}
    for shard, service in enumerate((first, second)):
        with monkeypatch.context() as patched:
            for variable, value in service["environment"].items():
                if variable != "PAYHOOK_CONFIG":
                    patched.setenv(variable, str(value))
            settings = load_settings(reaches_lake=False)
        assert settings.processor.shards == 2
        assert f":{metrics_port(settings, mode, shard)}/readyz" in service["healthcheck"]["test"][-1]
    assert {one["environment"]["PAYHOOK_PROCESSOR__SHARDS"] for one in services.values() if "build" in one} == {"2"}
    assert {one["environment"]["PAYHOOK_PROCESSOR__SHARDS"] for one in OURS.values()} == {"1"}


def test_the_image_holds_what_runs_and_nothing_else() -> None:
    files = allowed(CHECKOUT, ["."])
    folders = {file.split("/")[0] for file in files}
    assert folders == {
        *("alerts", "cli", "console", "core", "dead_letters", "dlq", "ingest", "journal", "ledger", "notify"),
        *("operations", "processor", "providers", "stack"),
        "requirements-runtime.lock",
    }
    assert {"processor/streams.toml", "stack/services/receiver.py", "stack/spark-store-jars.lock"} <= set(files)
    assert not [file for file in files if "__pycache__" in file]


def test_the_image_runs_as_a_user_that_has_a_number() -> None:
    users = [one.words for one in instructions(CHECKOUT / "Dockerfile") if one.name == "USER"]
    assert users == ["10001:10001"], "Kubernetes checks runAsNonRoot by the number alone"
    packages = " ".join(one.words for one in instructions(CHECKOUT / "Dockerfile") if "apt-get install" in one.words)
    assert not {"make", "redis-server", "procps"} & set(packages.split())


def lock(name: str) -> dict[str, str]:
    entries = re.split(r"(?m)^(?=[A-Za-z0-9])", (CHECKOUT / name).read_text("utf-8"))
    return {entry.split(" ", 1)[0]: entry.strip() for entry in entries if entry.strip()}


def test_what_runs_is_locked_as_what_is_tested() -> None:
    """Made by: uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
    --no-annotate --constraint requirements.lock pyproject.toml - <<< setuptools -o requirements-runtime.lock
    """
    tested, runs = lock("requirements.lock"), lock("requirements-runtime.lock")
    assert [name for name in runs if runs[name] != tested.get(name)] == []
    wanted = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
    there = {name.partition("==")[0] for name in runs}
    assert [one for one in map(name_of, wanted["dependencies"]) if one not in there] == []
    needed = set(map(name_of, wanted["dependencies"])) | {"setuptools"}
    assert [one for one in map(name_of, wanted["optional-dependencies"]["dev"]) if one in there - needed] == []


def name_of(requirement: str) -> str:
    return re.split(r"[\[<>=;~! ]", requirement)[0].lower()
