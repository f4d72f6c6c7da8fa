"""docker-compose.yml as it is written, without a container engine: every service in namespaces of its own.

The image is built from the Dockerfile (`tests.containers.image`), the preparation is what docs/deployment.md prints,
and each service gets the user, volumes, environment, secrets, tmpfs and rights that the file gives it, nothing else.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from load.samples import sign
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from tests.containers import roles
from tests.containers.compose import Project, bytes_of, load, missing, until
from tests.containers.image import Image, build

CHECKOUT = Path(__file__).parents[3]
WHY_NOT = missing(["unshare", "nsenter", "ip", "mmdebstrap", "setpriv"])
pytestmark = [
    pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or ""),
    pytest.mark.timeout(2_400),
]

NOT_RUN = """not run here, without a container engine: `docker build` itself, and its base image (a Debian of the same
release with its own Python 3.11 stands for it); the images of Kafka and Redis (the servers that are installed here
stand for them, with the same users and variables); Prometheus, Alertmanager, Grafana; published ports; restarts by the
engine; limits (what the services use is measured and compared with them)"""

SECRET = "whsec_containers0123456789abcdef0123"
BACKUPS = "/mnt/backup/payhook"
RUNNING = ("kafka", "redis", "ingest", "processor", "maintenance", "catch-up", "alerts", "console")


@pytest.fixture(scope="module")
def image() -> Image:
    kept = CHECKOUT / ".payhook" / "image"
    kept.mkdir(parents=True, exist_ok=True)
    return build(CHECKOUT, kept)


Prepare = Callable[[str], Project]
Tell = Callable[[str], None]


@pytest.fixture(scope="module")
def tell(request: pytest.FixtureRequest) -> Tell:
    """Figures, and what wasn't run: on the terminal whatever becomes of the test."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def shown(text: str) -> None:
        with capture.global_and_fixture_disabled():
            sys.stdout.write(f"\n{text}")
            sys.stdout.flush()

    return shown


@pytest.fixture(scope="module")
def prepare(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Prepare:
    """A checkout that has been prepared as the docs say, and its compose file."""
    here = tmp_path_factory.mktemp("containers", numbered=True)
    for folder in (here, *here.parents[:2]):
        folder.chmod(0o755)
    made = {"kafka": roles.kafka(here, image), "redis": roles.redis(here, image)}

    def prepared(name: str) -> Project:
        checkout = here / name / "checkout"
        checkout.mkdir(parents=True)
        shutil.copy(CHECKOUT / "docker-compose.yml", checkout)
        shutil.copytree(CHECKOUT / "deploy", checkout / "deploy", ignore=shutil.ignore_patterns("secrets", "config"))
        (checkout / "whsec.txt").write_text(f"{SECRET}\n", "utf-8")
        subprocess.run(["sh", "-euc", documented_steps()], cwd=checkout, check=True)
        settings = checkout / "deploy" / "config" / "payhook.toml"
        settings.write_text(settings.read_text("utf-8") + "\n[ledger.maintain]\nevery_s = 20\n", "utf-8")
        file = load(checkout / "docker-compose.yml", write_override(checkout), env={"RECEIVERS": "2"})
        return Project(checkout, here / name / "work", file, image, made)

    return prepared


def write_override(checkout: Path) -> Path:
    """The override file that docs/deployment.md names, for backups: a folder of another disk, whose owner is 10001."""
    folder, file = checkout / "backups", checkout / "compose.backups.yml"
    folder.mkdir(mode=0o700)
    os.chown(folder, 10001, 10001)
    volumes = {"volumes": [f"./backups:{BACKUPS}"]}
    file.write_text(json.dumps({"services": {"maintenance": volumes, "console": volumes}}), "utf-8")
    return file


def documented_steps() -> str:
    """What docs/deployment.md says to do before `docker compose up`; this is root already."""
    page = (CHECKOUT / "docs" / "deployment.md").read_text("utf-8")
    found = re.search(r"```sh\n(.*?)docker compose up", page, re.S)
    assert found is not None
    return found[1].replace("sudo ", "")


@pytest.fixture(scope="module")
def running(prepare: Prepare, tell: Tell) -> Iterator[Project]:
    with prepare("whole") as project:
        project.up()
        for name in RUNNING:
            took_s = project.await_health(name)
            tell(f"{name}: its health check passes after {took_s:.0f} s more")
        yield project
    tell(NOT_RUN)


def post(project: Project, number: int) -> int:
    """A signed webhook from beside the services; the answer's status."""
    event = {
        "id": f"evt_{number}",
        "object": "event",
        "type": "charge.succeeded",
        "livemode": True,
        "created": int(datetime.now(UTC).timestamp()),
        "account": "acct_1ExampleAccount",
        "data": {
            "object": {
                "id": f"ch_{number}",
                "object": "charge",
                "amount": 1250,
                "amount_captured": 1250,
                "captured": True,
                "currency": "eur",
                "payment_intent": f"pi_{number}",
                "status": "succeeded",
            }
        },
    }
    adapter = build_adapters(ProvidersSettings())["stripe"]
    signed = sign(adapter, json.dumps(event).encode(), SECRET, datetime.now(UTC))
    asked = project.client(
        sys.executable,
        "-c",
        "import json, sys, urllib.error, urllib.request as u\n"
        "url, headers = sys.argv[1], json.loads(sys.argv[2])\n"
        "try: print(u.urlopen(u.Request(url, sys.stdin.buffer.read(), headers), timeout=30).status)\n"
        "except urllib.error.HTTPError as refused: print(refused.status)",
        "http://ingest:8080/webhooks/stripe",
        json.dumps(signed.headers),
        input=signed.body.decode(),
    )
    assert asked.returncode == 0, asked.stderr
    return int(asked.stdout)


def booked(project: Project) -> int:
    """Events that the ledger has applied, as an operator asks for them."""
    asked = project.containers["console"].execute("payhook", "ledger", "search", "--json", timeout=120.0)
    assert asked.returncode == 0, asked.stderr
    found = json.loads(asked.stdout)
    rows = found if isinstance(found, list) else next(value for value in found.values() if isinstance(value, list))
    return sum(row["decision"] == "applied" for row in rows)


@pytest.mark.row("F6")
def test_a_webhook_gets_from_the_port_to_the_ledger(running: Project) -> None:
    assert post(running, 1) == 200
    assert post(running, 1) == 200, "a redelivery"
    until(lambda: booked(running) == 1, 60.0, "the event is booked")


def test_every_process_is_on_the_one_page_of_metrics(running: Project) -> None:
    page = running.client("curl", "-sf", "http://console:8081/metrics").stdout
    up = dict(re.findall(r'payhook_process_up\{process="([\w-]+)"\} (\S+)', page))
    assert up == dict.fromkeys(("ingest", "ingest-1", "processor", "alerts", "console"), "1.0")


def test_operators_run_commands_in_the_console(running: Project) -> None:
    added = running.containers["console"].execute(
        *("payhook", "users", "add", "night", "--role", "admin", "--password-stdin"),
        text="seven lamps along the quay\n",
    )
    assert added.returncode == 0, added.stderr
    verified = running.containers["console"].execute("payhook", "verify", timeout=400.0)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_the_image_has_the_jars_of_an_object_store_and_none_of_a_broker(running: Project) -> None:
    code = (
        "from core.location import LakeUrl; from stack.jars import spark_jars; print(*spark_jars(LakeUrl('s3://a/b')))"
    )
    asked = running.containers["console"].execute("python", "-c", code)
    assert asked.returncode == 0 and "hadoop-aws-" in asked.stdout, asked.stderr
    assert running.containers["console"].execute("ls", "/opt/payhook/.payhook/jars").stdout.split() == [
        "spark",
        "spark-store",
    ]
    tools = ("pip", "make", "redis-server", "gcc")
    found = running.containers["console"].execute("sh", "-c", f"which {' '.join(tools)} || true")
    assert not found.stdout
    tests = running.containers["console"].execute("python", "-c", "import pytest")
    assert "ModuleNotFoundError" in tests.stderr


def test_the_broker_may_load_what_a_compressor_needs(running: Project) -> None:
    """Native code, which it unpacks into /tmp; engines mount a tmpfs without the right to execute by default."""
    producing = (
        "from confluent_kafka import Producer; from confluent_kafka.admin import AdminClient, NewTopic\n"
        "servers = {'bootstrap.servers': 'kafka:9092'}\n"
        "admin = AdminClient(servers)\n"
        "admin.create_topics([NewTopic('trial', 1, 1)])['trial'].result()\n"
        "failed = []\n"
        "producer = Producer({**servers, 'compression.type': 'zstd', 'message.timeout.ms': 20000, 'linger.ms': 100})\n"
        "for _ in range(100): producer.produce('trial', b'a' * 1000, on_delivery=lambda e, m: e and failed.append(e))\n"
        "producer.flush()\n"
        "raise SystemExit(str(failed[0]) if failed else 0)\n"
    )
    produced = running.client(sys.executable, "-c", producing, timeout=60)
    assert produced.returncode == 0, produced.stderr


@pytest.mark.parametrize("name", RUNNING)
def test_a_service_has_no_rights_that_it_could_misuse(running: Project, name: str) -> None:
    container, service = running.containers[name], running.services[name]
    said = dict(
        line.split(":", 1)
        for line in Path(f"/proc/{container.pid}/status").read_text("utf-8").splitlines()
        if ":" in line
    )
    assert said["Uid"].split()[0] == str(container.user[0]) != "0"
    assert int(said["CapEff"], 16) == int(said["CapBnd"], 16) == 0 and said["NoNewPrivs"].strip() == "1"
    wrote = container.execute("sh", "-c", "touch /opt/anything /etc/anything 2>&1; ls /opt/anything /etc/anything")
    assert wrote.returncode != 0 and "Read-only file system" in wrote.stdout
    secrets = container.execute("sh", "-c", "ls /run/secrets 2>/dev/null || true").stdout.split()
    assert sorted(secrets) == sorted(service.get("secrets", []))


@pytest.mark.parametrize("name", RUNNING)
def test_a_service_stays_within_its_limits(running: Project, name: str, tell: Tell) -> None:
    limits = running.services[name]["deploy"]["resources"]["limits"]
    memory, threads = running.containers[name].used()
    tell(f"{name}: {memory >> 20} MiB of {limits['memory']}, {threads} threads of {limits['pids']}")
    assert memory < 0.8 * bytes_of(limits["memory"]) and threads < 0.8 * int(limits["pids"])


def test_a_secret_that_is_replaced_counts_without_a_restart(running: Project) -> None:
    """The folder is mounted, not the file: one that is put in its place is seen."""
    secrets = running.folder / "deploy" / "secrets" / "receiver"
    fresh = secrets / "adyen"
    fresh.write_text("0123456789abcdef" * 4 + "\n", "utf-8")
    os.chown(fresh, 0, 10001)
    fresh.chmod(0o640)
    seen = running.containers["ingest"].execute("cat", "/run/secrets/receiver/adyen")
    assert seen.returncode == 0, seen.stderr


def test_every_service_ends_in_time_and_goes_on_when_it_is_started_again(running: Project, tell: Tell) -> None:
    for name in reversed(RUNNING):
        code, took_s, grace_s = running.stop(name)
        tell(f"{name}: ended with {code} after {took_s:.1f} s of {grace_s:.0f}")
        assert took_s < grace_s and code in (0, 143), running.containers[name].said()[-2000:]
    running.up()
    for name in RUNNING:
        running.await_health(name)
    assert post(running, 1) == 200, "the redelivery of an event from before"
    assert post(running, 2) == 200
    until(lambda: booked(running) == 2, 60.0, "the second event is booked, the first one once")


def test_a_backup_is_restored_as_the_page_says(running: Project, tell: Tell) -> None:
    """The receiver goes on: what it takes is decided afterwards, once."""
    page = (CHECKOUT / "docs" / "backups.md").read_text("utf-8")
    steps = re.search(r"docker compose stop (.*)\ndocker compose run --rm console payhook restore (.*)\n", page)
    assert steps is not None
    before = booked(running)
    backed_up = running.containers["console"].execute("payhook", "backup", "--to", BACKUPS, timeout=400.0)
    assert backed_up.returncode == 0, backed_up.stdout + backed_up.stderr
    assert post(running, 71) == 200
    until(lambda: booked(running) == before + 1, 60.0, "an event after the backup is booked")
    stopped = steps[1].split()
    for name in stopped:
        running.stop(name)
    assert post(running, 72) == 200
    folder, *options = shlex.split(steps[2])
    assert folder == BACKUPS
    refused = running.run_once("console", "sh", "-c", f"payhook restore {folder} --reason trial; echo ended with $?")
    assert "ended with 2" in refused and "--replace-newer" in refused
    tell(running.run_once("console", "payhook", "restore", folder, *options, "--replace-newer"))
    running.up(*stopped)
    for name in stopped:
        running.await_health(name)
    until(lambda: booked(running) == before + 2, 60.0, "both events after the backup are booked")
    verified = running.containers["console"].execute("payhook", "verify", timeout=400.0)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_without_kafka_nothing_ends_and_everything_can_be_stopped(prepare: Prepare, tell: Tell) -> None:
    """At night the broker is down, and somebody starts the machine again."""
    with prepare("no-kafka") as project:
        project.up("redis")
        for name in ("ingest", "processor", "alerts", "console", "maintenance", "catch-up"):
            project.start(name)
        until(lambda: "Kafka" in project.containers["ingest"].said(), 60.0, "the receiver says what it waits for")
        until(lambda: project.containers["console"].pid != 0, 10.0, "")
        for name in ("ingest", "processor", "console"):
            assert project.containers[name].outer.poll() is None, project.containers[name].said()[-2000:]
        for name in ("ingest", "processor", "alerts", "console", "maintenance", "catch-up"):
            code, took_s, grace_s = project.stop(name)
            tell(f"without Kafka {name}: ended with {code} after {took_s:.1f} s of {grace_s:.0f}")
            assert took_s < grace_s, project.containers[name].said()[-2000:]


def test_a_secret_that_is_missing_or_cannot_be_read_is_named(prepare: Prepare) -> None:
    with prepare("secrets") as project:
        secrets = project.folder / "deploy" / "secrets"
        (secrets / "receiver" / "masking").rename(secrets / "masking")
        assert "/run/secrets/receiver/masking" in ended(project, "ingest")
        (secrets / "masking").rename(secrets / "receiver" / "masking")
        (secrets / "receiver" / "stripe").chmod(0o600)
        said = ended(project, "ingest")
        assert "/run/secrets/receiver/stripe" in said and "Permission denied" in said
        (secrets / "anchors").chmod(0o600)
        said = ended(project, "processor")
        assert "/run/secrets/anchors" in said and "Permission denied" in said
        shutil.rmtree(secrets / "receiver")
        with pytest.raises(AssertionError, match="bind source path does not exist"):
            project.start("ingest")


def test_a_volume_of_another_user_is_named(prepare: Prepare) -> None:
    with prepare("volume") as project:
        (project.work / "volumes" / "payhook-data").mkdir(parents=True)
        for name in ("processor", "console", "alerts", "maintenance", "catch-up"):
            said = ended(project, name)
            assert "/var/lib/payhook can't be used by user 10001: Permission denied: it is user 0's" in said
            assert "Traceback" not in said, said


def test_settings_that_are_wrong_are_named(prepare: Prepare) -> None:
    with prepare("settings") as project:
        settings = project.folder / "deploy" / "config" / "payhook.toml"
        settings.write_text("[ingest]\nportt = 8080\n", "utf-8")
        for name in ("topics", "ingest", "processor", "console", "alerts", "maintenance", "catch-up"):
            said = ended(project, name)
            assert "ingest.portt" in said and "Traceback" not in said, said
        settings.unlink()
        assert "/etc/payhook/payhook.toml" in ended(project, "ingest")


def ended(project: Project, name: str) -> str:
    """What a service said that ends by itself with an error."""
    container = project.start(name)
    before = len(container.said())
    assert container.outer.wait(120.0) != 0
    return container.said()[before:] or container.said()
