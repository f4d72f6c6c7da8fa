"""A site on hosts of their own: services on one, Spark's master and its two workers on three, the driver on a fifth."""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyarrow.compute as pc
import pyspark
import pytest
from deltalake import DeltaTable

from core.clock import SystemClock
from core.kafka import open_admin
from core.layout import Layout
from core.settings import KafkaSettings
from core.store import StorageSettings, store_variables
from journal.anchors import new_key
from journal.reader import dataset_of
from load.embedded import payhook
from load.open_loop import post_at_once
from load.subscriber import Subscriber
from load.traffic import Traffic, Webhook
from notify.signature import new_secret
from stack.jars import STORE_LIST, is_installed
from stack.machine import find_java, find_redis
from stack.servers import kafka
from stack.servers.ports import LOOPBACK
from tests.hosts import NETWORK, Host, missing, network, until
from tests.object_store import ObjectStore
from tests.object_store.programs import NotBuilt
from tests.object_store.server import KEYS, versity_command, with_bucket
from tests.plain_kafka import plain_properties

CHECKOUT = Path(__file__).parents[3]
SPARK = Path(pyspark.__file__).parent
HIDDEN = (f"/{CHECKOUT.parts[1]}", "/root", "/home")
"""Of a worker's host: there is nothing of payhook's."""

CODE = {str(CHECKOUT): CHECKOUT}
"""Where payhook runs, the checkout is there, also one that lies in the `/tmp` that a host doesn't share."""

LAKE = "s3://payhook/cluster"
NAMES = ("services", "master", "worker1", "worker2", "driver1", "driver2")
START_S = 240.0
DECIDED_S = 120.0


@dataclass
class ClusterSite:
    """``env`` is what each of payhook's processes gets; ``settings`` is a folder with its files, to be copied."""

    folder: Path
    make: Callable[..., Host]
    env: dict[str, str]
    settings: Path
    shop: Subscriber
    hosts: dict[str, Host] = field(default_factory=dict)
    drivers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def host(self, name: str, **more: Any) -> Host:
        self.hosts[name] = self.make(name, **more)
        return self.hosts[name]

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def python(self, host: Host, module: str, *words: str, data: str, **env: str) -> subprocess.Popen[bytes]:
        full = {**self.env, "PAYHOOK_DATA_DIR": data, "PYTHONPATH": str(CHECKOUT), **env}
        name = f"{host.name}-{module.rpartition('.')[2]}"
        return host.run(sys.executable, "-m", module, *words, env=full, log=self.log(name))

    def traffic(self) -> Traffic:
        return Traffic(self.settings / "secrets", SystemClock(), random.Random(7), prefix=uuid.uuid4().hex[:8])

    def post(self, webhooks: Sequence[Webhook]) -> None:
        receiver = f"http://{self.hosts['services'].address}:8080"
        answers = asyncio.run(post_at_once(receiver, list(webhooks)))
        assert {one.status for one in answers} == {200}, answers[:3]

    @property
    def journal(self) -> str:
        return str(Layout(self.settings, self.env["PAYHOOK_STORAGE__URL"]).ledger().journal)

    def decided(self, webhooks: Sequence[Webhook]) -> list[str]:
        """The decisions on the webhooks' events so far."""
        wanted = {key for one in webhooks for key in one.event_keys}
        table = dataset_of(DeltaTable(self.journal)).to_table(
            columns=["event_key", "decision"], filter=pc.field("topic") == "payments.events"
        )
        return [row["decision"] for row in table.to_pylist() if row["event_key"] in wanted]

    def decide(self, webhooks: Sequence[Webhook], limit_s: float = DECIDED_S) -> float:
        """Waits until each is decided; the seconds that it took."""
        count = sum(len(one.event_keys) for one in webhooks)
        took_s = until(lambda: len(self.decided(webhooks)) >= count, limit_s, f"{count} decisions")
        assert self.decided(webhooks) == ["applied"] * count
        return took_s

    def start_driver(self, name: str, cores: int, **own: str) -> Host:
        """A processor on a host with an empty disk, but for its settings and secrets. ``own``: more environment."""
        host = self.host(name, binds=CODE)
        shutil.copytree(self.settings, host.disk / "data")
        conf = host.disk / "conf"
        conf.mkdir()
        shutil.copyfile(self.folder / "spark-defaults.conf", conf / "spark-defaults.conf")
        with (conf / "spark-defaults.conf").open("a") as file:
            file.write(f"spark.cores.max {cores}\nspark.executor.cores 1\nspark.executor.memory 512m\n")
        env = {"SPARK_CONF_DIR": "/srv/conf", "PAYHOOK_PROCESSOR__MASTER": self.master, "TMPDIR": "/tmp", **own}
        self.drivers[name] = self.python(host, "stack.services.processor", data="/srv/data", **env)
        return host

    @property
    def master(self) -> str:
        return f"spark://{self.hosts['master'].address}:7077"

    def status(self, host: Host, stream: str = "ledger") -> dict[str, Any]:
        try:
            return dict(json.loads((host.disk / "data" / "run" / f"processor-{stream}.json").read_text("utf-8")))
        except (OSError, ValueError):
            return {}

    def await_ready(self, host: Host, limit_s: float = START_S) -> float:
        def ready() -> bool:
            assert self.drivers[host.name].poll() is None, self.said(host)
            return all(self.status(host, stream).get("ready") for stream in ("ledger", "notify"))

        try:
            return until(ready, limit_s, "the processor is ready")
        except AssertionError:
            sys.stdout.write(self.said(host))
            raise

    def said(self, host: Host) -> str:
        return self.log(f"{host.name}-processor").read_text("utf-8", "replace")[-6_000:]

    def end_applications(self) -> int:
        """As docs/cluster.md says for a driver that has vanished; how many there were."""
        web = f"http://{self.hosts['master'].address}:8090"
        with urlopen(f"{web}/json/", timeout=10) as answer:
            active = [one["id"] for one in json.loads(answer.read())["activeapps"]]
        for one in active:
            urlopen(f"{web}/app/kill/?id={one}&terminate=true", data=b"", timeout=10).close()
        return len(active)

    def start_worker(self, name: str, cores: int) -> Host:
        binds = {"/srv/spark": SPARK, **({sys.base_prefix: Path(sys.base_prefix)} if _is_hidden() else {})}
        host = self.host(name, hides=HIDDEN, binds=binds)
        conf = host.disk / "conf"
        conf.mkdir(exist_ok=True)
        shutil.copyfile(self.folder / "spark-defaults.conf", conf / "spark-defaults.conf")
        words = ("--host", host.address, "--cores", str(cores), "--memory", "2g", "--work-dir", "/srv/work")
        self.spark(host, "org.apache.spark.deploy.worker.Worker", *words, self.master)
        return host

    def spark(self, host: Host, name: str, *words: str) -> None:
        env = {
            "PATH": f"{sys.base_prefix}/bin:/usr/bin:/bin",
            "JAVA_HOME": str(find_java().home),
            "SPARK_HOME": "/srv/spark",
            "SPARK_CONF_DIR": "/srv/conf",
            "SPARK_LOCAL_IP": host.address,
            "SPARK_DAEMON_MEMORY": "256m",
        }
        host.run("/srv/spark/bin/spark-class", name, *words, env=env, log=self.log(host.name))

    def verify(self, host: Host) -> str:
        """What `payhook verify` says on a driver's disk."""
        said = payhook("verify", "--data", str(host.disk / "data"), env=self.env)
        assert said.returncode == 0, said.stdout + said.stderr
        return said.stdout


def _is_hidden() -> bool:
    return any(sys.base_prefix.startswith(f"{folder}/") for folder in HIDDEN)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterSite]:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    if not is_installed(*STORE_LIST):
        pytest.skip("no jars for an object store: make setup OBJECT_STORE=1")
    folder = tmp_path_factory.mktemp("cluster")
    shop = Subscriber([new_secret()], SystemClock(), host="0.0.0.0")
    with pytest.MonkeyPatch.context() as patch, network(folder, *NAMES) as make, shop:
        address = f"{NETWORK}.10"
        env = _environment(address, shop)
        reached = StorageSettings(url=LAKE, endpoint=f"http://{address}:9000", allow_http=True)
        for name, value in {**env, **store_variables(reached, LAKE), **KEYS}.items():
            patch.setenv(name, value)
        site = ClusterSite(folder, make, {**os.environ, **env}, folder / "settings", shop)
        _write_settings(site)
        try:
            _start_services(site, address)
        except NotBuilt as missing_program:
            pytest.skip(str(missing_program))
        for name in NAMES[1:4]:
            _start_spark(site, name)
        yield site


def _environment(address: str, shop: Subscriber) -> dict[str, str]:
    allowed = {"networks": [f"{NETWORK}.0/24"], "ports": [shop.port], "http": True}
    return {
        "PAYHOOK_KAFKA__BOOTSTRAP_SERVERS": f"{address}:9092",
        "PAYHOOK_KAFKA__DURABILITY": "single",
        "PAYHOOK_REDIS__URL": f"redis://{address}:6379/0",
        "PAYHOOK_STORAGE__URL": LAKE,
        "PAYHOOK_STORAGE__ENDPOINT": f"http://{address}:9000",
        "PAYHOOK_STORAGE__ALLOW_HTTP": "true",
        "PAYHOOK_NOTIFY__ALLOW": json.dumps({"shop": allowed, "gone": allowed}),
        "PAYHOOK_LOG_FORMAT": "text",
    }


def _write_settings(site: ClusterSite) -> None:
    keys = site.settings / "secrets"
    keys.mkdir(parents=True, mode=0o700)
    for name in ("anchors", "records", "masking"):
        (keys / name).write_text(new_key() + "\n")
    (keys / "stripe").write_text("whsec_" + secrets.token_hex(16) + "\n")
    (keys / "object-store").write_text("\n".join(KEYS.values()) + "\n")
    (keys / "notify.shop").write_text(site.shop._secrets[0] + "\n")
    (site.settings / "merchants.toml").write_text('[stripe]\n"*" = "merchant-main"\n')
    url = f"http://{NETWORK}.1:{site.shop.port}/payhook"
    (site.settings / "subscribers.toml").write_text(f'[shop]\nurl = "{url}"\n')
    secret = secrets.token_hex(16)
    (site.folder / "spark-defaults.conf").write_text(
        f"spark.authenticate true\nspark.authenticate.secret {secret}\nspark.network.crypto.enabled true\n"
        "spark.worker.timeout 15\n"
    )


def _start_services(site: ClusterSite, address: str) -> None:
    host = site.host("services", binds=CODE)
    own = host.disk / "kafka"
    own.mkdir()
    logging, config = kafka.write_logging_file(own), own / "server.properties"
    text = plain_properties(own, 9092, 9093)
    config.write_text(text.replace(f"CLIENT://{LOOPBACK}", f"CLIENT://{address}").replace(str(own), "/srv/kafka"))
    java = tuple(word.replace(str(own), "/srv/kafka") for word in kafka.java_command(logging))
    tool = ("kafka.tools.StorageTool", "format", "-t", "A" * 22, "-c", "/srv/kafka/server.properties")
    assert host.run(*java, *tool, log=site.log("kafka")).wait(60) == 0, site.log("kafka").read_text()
    host.run(*java, "kafka.Kafka", "/srv/kafka/server.properties", log=site.log("kafka"))
    redis = ("--port", "6379", "--bind", address, "--protected-mode", "no", "--save", "", "--dir", "/srv")
    host.run(str(find_redis()), *redis, log=site.log("redis"))
    store = host.disk / "store"
    command = versity_command(store, 9000, address)
    host.run(*(word.replace(str(store), "/srv/store") for word in command), log=site.log("store"))
    until(lambda: _answers(f"http://{address}:9000/"), 60, "the object store answers")
    with_bucket(ObjectStore(f"http://{address}:9000", KEYS))
    until(lambda: _broker_answers(address), 90, "Kafka answers")
    shutil.copytree(site.settings, host.disk / "data")
    made = site.python(host, "stack.topics", data="/srv/data")
    assert made.wait(90) == 0, site.log("services-topics").read_text()
    env = {"PAYHOOK_INGEST__HOST": address, "PAYHOOK_INGEST__PORT": "8080"}
    site.python(host, "stack.services.receiver", data="/srv/data", **env)
    until(lambda: _answers(f"http://{address}:8080/readyz"), 60, "the receiver answers")


def _start_spark(site: ClusterSite, name: str) -> None:
    if name != "master":
        site.start_worker(name, cores=3)
        return
    binds = {"/srv/spark": SPARK}
    host = site.host("master", hides=HIDDEN, binds=binds)
    (host.disk / "conf").mkdir()
    shutil.copyfile(site.folder / "spark-defaults.conf", host.disk / "conf" / "spark-defaults.conf")
    words = ("--host", host.address, "--port", "7077", "--webui-port", "8090")
    site.spark(host, "org.apache.spark.deploy.master.Master", *words)
    until(lambda: _answers(f"http://{host.address}:8090/json/"), 60, "Spark's master answers")


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:
            return bool(answer.status < 500)
    except OSError as failed:
        return getattr(failed, "code", 600) < 500


def _broker_answers(address: str) -> bool:
    try:
        return bool(open_admin(KafkaSettings(bootstrap_servers=f"{address}:9092")).list_topics(timeout=2).brokers)
    except Exception:
        return False


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """A figure, on the terminal whatever becomes of the test."""

    def say(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{text}")
            sys.stdout.flush()

    return say
