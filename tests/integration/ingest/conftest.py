"""A receiver of its own on servers that a test may stop: the process as `payhook up` starts it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition
from redis import Redis

from core.clock import SystemClock
from core.settings import KafkaSettings
from ingest.limits import ReceiverLimits
from load.bench.receiver import announce_generation
from load.samples import sign
from load.samples.adyen import AdyenItem, adyen_notification
from load.samples.stripe import stripe_event
from providers.registry import build_adapters
from providers.settings import ProvidersSettings, SquareSettings
from stack.children import answers_ok
from stack.servers.ports import LOOPBACK, free_ports
from stack.servers.redis import ADMIN, PAYHOOK, redis_server, redis_url
from stack.servers.server import RunningServer, Server, run_server
from stack.settings import Settings
from stack.topics import make_topics, plan_topics
from tests.integration.ingest.wire import Wire, wire
from tests.plain_kafka import kafka_server
from tests.processes import pause
from tests.receiver_process import LIMITS

PATIENT = ReceiverLimits(
    header_deadline_s=30.0,
    idle_s=60.0,
    read_deadline_s=30.0,
    publish_timeout_ms=4_900,
    in_flight_wait_s=4.0,
    lease_s=60.0,
    redis_reset_s=0.3,
)
"""A busy machine must not count as a slow sender, nor as Redis being down: then copies are published and the journal
tells them apart. A test of a limit starts a receiver whose limit is a tight one."""
SQUARE_URL = "https://hooks.example.com/webhooks/square"
PROVIDERS = ProvidersSettings(square=SquareSettings(notification_urls={"default": SQUARE_URL}))
SETTINGS = {
    "PAYHOOK_INGEST__REDIS_TIMEOUT_MS": "5000",
    "PAYHOOK_PROVIDERS__SQUARE__NOTIFICATION_URLS": json.dumps({"default": SQUARE_URL}),
}
READ_S = 60.0
"""A consumer of its own group sees its first record after a few seconds."""

Signed = tuple[bytes, dict[str, str]]
Record = tuple[bytes, bytes, dict[str, str]]
"""Key, value, headers."""


@dataclass
class Servers:
    """Kafka and Redis of this folder's tests."""

    folder: Path
    kafka: RunningServer
    redis: RunningServer
    bootstrap: str
    redis_url: str
    admin_url: str
    """As somebody who may do more than payhook."""
    secrets: dict[str, str] = field(default_factory=dict)

    @contextlib.contextmanager
    def paused(self, server: RunningServer) -> Iterator[None]:
        """It holds its connections and answers nothing."""
        pause(server.process_id)
        try:
            yield
        finally:
            os.killpg(server.process_id, signal.SIGCONT)

    @contextlib.contextmanager
    def publishing(self, count: int, topic: str = "payments.events") -> Iterator[list[Record]]:
        """Exactly so many records reach the topic meanwhile, found in the list afterwards.

        Every answer is given after Kafka's, so nothing has to be waited for.
        """
        found: list[Record] = []
        asking = Consumer({"bootstrap.servers": self.bootstrap, "group.id": uuid.uuid4().hex})
        try:
            before = _ends(asking, topic)
            yield found
            after = _ends(asking, topic)
            assert sum(after.values()) - sum(before.values()) == count
            asking.assign([TopicPartition(topic, each, offset) for each, offset in before.items()])
            until = time.monotonic() + READ_S
            while len(found) < count and time.monotonic() < until:
                message = asking.poll(0.5)
                if message is not None and message.error() is None:
                    found.append(_record(message))
            assert len(found) == count
        finally:
            asking.close()

    def empty_redis(self) -> Redis:
        """As if a processor announced the claims' generation at the same instant."""
        client = Redis.from_url(self.admin_url)
        with client.pipeline(transaction=True) as at_once:
            at_once.flushall()
            announce_generation(at_once)
            at_once.execute()
        return client


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder: Path = tmp_path_factory.mktemp("ingest")
    kafka_port, controller = free_ports(2)
    kafka = kafka_server(folder / "kafka", kafka_port, controller, folder / "kafka.log")
    store = redis_server(folder / "redis", folder / "redis.log")
    with run_server(kafka) as broker, run_server(store) as claims:
        bootstrap = f"{LOOPBACK}:{kafka_port}"
        make_topics(KafkaSettings(bootstrap_servers=bootstrap), plan_topics(Settings()), replication=1)
        url, admin_url = (redis_url(folder / "redis", user) for user in (PAYHOOK, ADMIN))
        announce_generation(Redis.from_url(url))
        made = Servers(folder, broker, claims, bootstrap, url, admin_url)
        (folder / "secrets").mkdir()
        for name, adapter in build_adapters(PROVIDERS).items():
            made.secrets[name] = adapter.new_secret()
            (folder / "secrets" / name).write_text(made.secrets[name] + "\n", "utf-8")
        yield made


def _ends(consumer: Consumer, topic: str) -> dict[int, int]:
    """Where the next record of each partition will be."""
    ends: dict[int, int] = {}
    for partition in consumer.list_topics(topic, timeout=60).topics[topic].partitions:
        marks = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60)
        assert marks is not None
        ends[partition] = marks[1]
    return ends


def _record(message: Message) -> Record:
    sent: Any = message.headers() or []
    return message.key() or b"", message.value() or b"", {name: raw.decode() for name, raw in sent}


class ReceiverUnderTest:
    """One receiver process, and what was published through it."""

    def __init__(self, servers: Servers, process: RunningServer, url: str, metrics_url: str) -> None:
        self.servers = servers
        self.process = process
        self.url = url
        self.metrics_url = metrics_url
        self.prefix = uuid.uuid4().hex[:8]
        # Another second would be other content.
        self._created = SystemClock().now()
        self._adapters = build_adapters(PROVIDERS)

    def stripe(self, event_id: str, amount: int = 500) -> Signed:
        body = stripe_event(
            f"evt_{self.prefix}_{event_id}",
            "charge.succeeded",
            payment=f"pi_{self.prefix}",
            account="acct_1",
            amount_minor=amount,
            currency="EUR",
            created=self._created,
        )
        return self.signed("stripe", body)

    def adyen(self, *references: str) -> Signed:
        now = SystemClock().now()
        items = [
            AdyenItem(f"{self.prefix}{r}", f"pay-{r}", "Shop", "o-1", "CAPTURE", 700, "EUR", now) for r in references
        ]
        return self.signed("adyen", adyen_notification(items, True))

    def signed(self, provider: str, body: bytes) -> Signed:
        request = sign(self._adapters[provider], body, self.servers.secrets[provider], SystemClock().now())
        return request.body, request.headers

    def post(self, signed: Signed, provider: str = "stripe") -> httpx2.Response:
        body, headers = signed
        return httpx2.post(f"{self.url}/webhooks/{provider}", content=body, headers=headers, timeout=60)

    def claims_made(self) -> float:
        """Claims that the first worker made: what it claimed, it publishes next."""
        return metric(self.metrics_url, "payhook_redis_claim_seconds_count")

    def wire(self) -> contextlib.AbstractContextManager[Wire]:
        """A connection that takes and gives bytes as they are."""
        return wire(self.url)

    def event_key(self, event_id: str) -> str:
        return f"stripe:evt_{self.prefix}_{event_id}:charge.succeeded"

    def published(self, count: int, topic: str = "payments.events") -> list[Record]:
        """This receiver's events once there are ``count``: key, value, headers. Waits a little for one too many."""
        found: list[Record] = []
        for message in self._messages(topic, lambda: len(found) >= count):
            key, value, headers = _record(message)
            if self.prefix in headers["event_key"] or self.prefix.encode() in value:
                found.append((key, value, headers))
        return found

    def receipts(self, count: int) -> list[dict[str, Any]]:
        """This receiver's receipts of events once there are ``count``."""
        found: list[dict[str, Any]] = []
        for message in self._messages("payments.receipts", lambda: len(found) >= count):
            for line in (message.value() or b"").splitlines():
                receipt = json.loads(line)
                if self.prefix in receipt.get("event_key", ""):
                    found.append(receipt)
        return found

    def _messages(self, topic: str, enough: Callable[[], bool]) -> Iterator[Message]:
        """All of a topic from its beginning, until there is enough and nothing more comes."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers.bootstrap,
                "group.id": uuid.uuid4().hex,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        # No group is joined: its coordinator takes its time after the broker was paused.
        partitions = consumer.list_topics(topic, timeout=READ_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        until = time.monotonic() + READ_S
        try:
            while True:
                message = consumer.poll(0.5)
                if message is not None and message.error() is None:
                    yield message
                elif enough() or time.monotonic() > until:
                    return
        finally:
            consumer.close()


def metric(url: str, series: str) -> float:
    """A series' value as the process at ``url`` tells it; 0 before it has one."""
    lines = httpx2.get(f"{url}/metrics", timeout=60).text.splitlines()
    return sum(float(line.removeprefix(f"{series} ")) for line in lines if line.startswith(f"{series} "))


@contextlib.contextmanager
def receiver_on(servers: Servers, limits: ReceiverLimits = PATIENT, **env: str) -> Iterator[ReceiverUnderTest]:
    """A receiver with settings of its own over `SETTINGS`."""
    port, metrics_port = free_ports(2)
    given: dict[str, Any] = {
        "PAYHOOK_DATA_DIR": str(servers.folder),
        "PAYHOOK_KAFKA__BOOTSTRAP_SERVERS": servers.bootstrap,
        "PAYHOOK_KAFKA__DURABILITY": "single",
        "PAYHOOK_REDIS__URL": servers.redis_url,
        "PAYHOOK_INGEST__PORT": str(port),
        "PAYHOOK_INGEST__METRICS_PORT": str(metrics_port),
        LIMITS: json.dumps(asdict(limits)),
        **SETTINGS,
        **env,
    }
    url = f"http://{LOOPBACK}:{port}"
    server = Server(
        name="ingest",
        command=(sys.executable, "-m", "tests.receiver_process"),
        log=servers.folder / f"ingest-{port}.log",
        env=given,
        answers=lambda: answers_ok(f"{url}/readyz"),
    )
    with run_server(server) as process:
        yield ReceiverUnderTest(servers, process, url, f"http://{LOOPBACK}:{metrics_port}")


@pytest.fixture(scope="module")
def shared_receiver(servers: Servers) -> Iterator[ReceiverUnderTest]:
    with receiver_on(servers) as receiver:
        yield receiver


@pytest.fixture
def receiver(shared_receiver: ReceiverUnderTest) -> ReceiverUnderTest:
    """The module's receiver, with event ids that no other test has."""
    shared = shared_receiver
    return ReceiverUnderTest(shared.servers, shared.process, shared.url, shared.metrics_url)
