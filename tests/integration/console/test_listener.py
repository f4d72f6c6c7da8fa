"""The listener as it is started: its own process, a real Redis, a real broker, a journal with dead items."""

from __future__ import annotations

import sys
from pathlib import Path

import httpx
from confluent_kafka.admin import AdminClient

from dlq.commands import CONTROL_TOPIC
from stack.ports import LOOPBACK, free_ports
from stack.server import Server, running
from stack.topics import Topic, make_topics

ONE_DAY_MS = 86_400_000


def listener(port: int, data_dir: Path, redis: str, kafka: str) -> Server:
    settings = {
        "PAYHOOK_DATA_DIR": str(data_dir),
        "PAYHOOK_REDIS__URL": redis,
        "PAYHOOK_KAFKA__BOOTSTRAP_SERVERS": kafka,
        "PAYHOOK_CONSOLE__PORT": str(port),
    }
    return Server(
        name="ops",
        command=(sys.executable, "-m", "console"),
        log=data_dir / "ops.log",
        answers=lambda: lives(port),
        env=settings,
    )


def lives(port: int) -> bool:
    try:
        return get(port, "/healthz").status_code == 200
    except httpx.HTTPError:
        return False


def get(port: int, path: str) -> httpx.Response:
    return httpx.get(f"http://{LOOPBACK}:{port}{path}", trust_env=False)


def replay(port: int, key: str, item_seq: int = 1, headers: dict[str, str] | None = None) -> httpx.Response:
    body = {"items": [{"item_seq": item_seq}], "reason": "mended"}
    url = f"http://{LOOPBACK}:{port}/api/dlq/replay"
    return httpx.post(
        url, json=body, headers={"idempotency-key": f'"{key}"', **(headers or {})}, trust_env=False, timeout=30
    )


def test_an_order_is_taken_once_also_across_a_kill(
    empty_redis: str, kafka_broker: str, tmp_path: Path, journal: Path
) -> None:
    if CONTROL_TOPIC not in AdminClient({"bootstrap.servers": kafka_broker}).list_topics(timeout=20).topics:
        make_topics(kafka_broker, [Topic(CONTROL_TOPIC, 1, ONE_DAY_MS)], replication=1)
    (port,) = free_ports(1)
    server = listener(port, tmp_path, empty_redis, kafka_broker)
    with running(server) as process:
        assert "/dlq/replay" in get(port, "/openapi.json").json()["paths"]
        first = replay(port, "k-1")
        assert first.status_code == 202, first.text
        # A header can't make a caller out of another one: the key is still known.
        assert replay(port, "k-1", headers={"x-forwarded-for": "192.0.2.7"}).headers["idempotent-replayed"] == "true"
        assert replay(port, "k-2", item_seq=99).status_code == 404
        assert replay(port, "k-3", headers={"origin": "http://evil.example"}).status_code == 403
        process.kill()
    with running(server):
        copy = replay(port, "k-1")
        assert (copy.status_code, copy.content) == (202, first.content)
        assert copy.headers["idempotent-replayed"] == "true"
        other = replay(port, "k-4", item_seq=2)
        assert other.json()["control"]["offset"] == first.json()["control"]["offset"] + 1
