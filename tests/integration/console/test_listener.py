"""The listener as it is started: its own process, a real Redis, a real broker, a journal with dead items."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import httpx2
from click.testing import CliRunner
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from cli.acting import this_account
from cli.main import main
from core.layout import Layout
from core.routing import topics_of
from core.settings import KafkaSettings
from journal.anchors import Anchor, AnchorKeys
from operations.audit_log import STREAM
from operations.command import CONTROL_TOPIC
from stack.servers.ports import LOOPBACK, free_ports
from stack.servers.server import Server, run_server
from stack.topics import Topic, make_topics
from tests.integration.console.conftest import seen

ONE_DAY_MS = 86_400_000
ANCHORS = topics_of("live").anchors
KEY = "0123456789abcdef" * 4
KEYS = AnchorKeys([KEY])
PASSWORD = "correct horse battery"


def listener(port: int, data_dir: Path, redis: str, kafka: str) -> Server:
    settings = {
        "PAYHOOK_DATA_DIR": str(data_dir),
        "PAYHOOK_REDIS__URL": redis,
        "PAYHOOK_KAFKA__BOOTSTRAP_SERVERS": kafka,
        "PAYHOOK_CONSOLE__PORT": str(port),
    }
    return Server(
        name="ops",
        command=(sys.executable, "-m", "stack.services.listener"),
        log=data_dir / "ops.log",
        answers=lambda: lives(port),
        env=settings,
    )


def lives(port: int) -> bool:
    try:
        return get(port, "/healthz").status_code == 200
    except httpx2.HTTPError:
        return False


def get(port: int, path: str) -> httpx2.Response:
    return httpx2.get(f"http://{LOOPBACK}:{port}{path}", trust_env=False)


def replay(
    port: int, token: str, key: str, item_seq: int = 1, headers: dict[str, str] | None = None
) -> httpx2.Response:
    body = {"items": [seen(item_seq)], "reason": "mended"}
    url = f"http://{LOOPBACK}:{port}/api/dlq/replay"
    sent = {"authorization": f"Bearer {token}", "idempotency-key": f'"{key}"', **(headers or {})}
    return httpx2.post(url, json=body, headers=sent, trust_env=False, timeout=60)


def payhook(data_dir: Path, *words: str, stdin: str | None = None) -> str:
    """The command line beside the running listener."""
    answer = CliRunner().invoke(main, [*words, "--data", str(data_dir)], input=stdin)
    assert answer.exit_code == 0, answer.output
    return answer.stdout.strip()


def sign_in(browser: httpx2.Client) -> httpx2.Response:
    token = re.search(r'name="csrf_token" value="(\w+)"', browser.get("/login").text)
    assert token is not None
    return browser.post("/login", data={"name": "ada", "password": PASSWORD, "csrf_token": token[1]})


def anchored(kafka: str, seq: int) -> Anchor:
    """The first anchor of the record of acts that covers so many."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "acts", "enable.auto.commit": False})
    consumer.assign([TopicPartition(ANCHORS, 0, OFFSET_BEGINNING)])
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            message = consumer.poll(1.0)
            if message is not None and message.key() == STREAM.encode():
                anchor = KEYS.decode(bytes(message.value() or b""))
                if anchor.seq >= seq:
                    return anchor
        raise AssertionError(f"no anchor of act {seq}")
    finally:
        consumer.close()


def test_an_order_is_taken_once_also_across_a_kill(
    empty_redis: str, kafka_broker: str, tmp_path: Path, journal: Path
) -> None:
    make_topics(
        KafkaSettings(bootstrap_servers=kafka_broker),
        [Topic(name, 1, ONE_DAY_MS) for name in (CONTROL_TOPIC, ANCHORS)],
        replication=1,
    )
    Layout(tmp_path).secrets.mkdir()
    Layout(tmp_path).anchor_keys.write_text(KEY)
    Layout(tmp_path).record_keys.write_text(KEY)
    payhook(tmp_path, "users", "add", "ada", "--role", "replayer", "--password-stdin", stdin=PASSWORD)
    token = payhook(tmp_path, "users", "token", "ada")
    (port,) = free_ports(1)
    server = listener(port, tmp_path, empty_redis, kafka_broker)
    browser = httpx2.Client(base_url=f"http://{LOOPBACK}:{port}", trust_env=False, timeout=60)
    with run_server(server) as process:
        assert "/dlq/replay" in get(port, "/openapi.json").json()["paths"]
        assert (get(port, "/metrics").status_code, get(port, "/").status_code) == (200, 303)
        assert sign_in(browser).status_code == 303
        assert browser.get("/").status_code == 200
        first = replay(port, token, "k-1")
        assert first.status_code == 202, first.text
        # The key is its user's, from wherever it comes.
        again = replay(port, token, "k-1", headers={"x-forwarded-for": "192.0.2.7"})
        assert again.headers["idempotent-replayed"] == "true"
        assert replay(port, token, "k-2", item_seq=99).status_code == 404
        assert replay(port, token, "k-3", headers={"origin": "http://evil.example"}).status_code == 403
        assert replay(port, "payhook_none", "k-4").status_code == 401
        process.kill_session()
    with run_server(server):
        assert browser.get("/").status_code == 200, "the session outlives the listener"
        copy = replay(port, token, "k-1")
        assert (copy.status_code, copy.content) == (202, first.content)
        assert copy.headers["idempotent-replayed"] == "true"
        payhook(tmp_path, "users", "roles", "ada", "--role", "viewer")
        assert browser.get("/").status_code == 303
        assert replay(port, token, "k-5", item_seq=2).status_code == 403
        acts = json.loads(payhook(tmp_path, "dlq", "audit", "--json"))
        reported = [(one["actor"], one["channel"], one["action"], one["outcome"]) for one in reversed(acts)]
        me = this_account()
        assert reported == [
            (me, "cli", "user_add", "done"),
            (me, "cli", "token_make", "done"),
            ("ada", "page", "sign_in", "done"),
            ("ada", "api", "replay", "done"),
            ("ada", "api", "replay", "refused"),
            (me, "cli", "user_roles", "done"),
            ("ada", "api", "order", "refused"),
        ]
        assert anchored(kafka_broker, len(acts)).chain == acts[0]["chain"]
