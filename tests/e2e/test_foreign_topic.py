"""docs/streams.md, the part on another program's topic, followed on a running stack: Avro in two versions of a schema,
one record that can't be named, one call that is slow, a schema that comes later."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from load.client import wait_for
from load.embedded import DOWN_S_MAX, UP_S_MAX, payhook
from tests.e2e.conftest import DECIDED_S, Stack
from tests.e2e.streams_page import DownstreamServer, set_streams, write_page

pytestmark = pytest.mark.more(reason="a whole stack with one stream more")
SLOW_S = 1.5
"""Longer than the handler's client waits."""

BEGUN_S = 300.0
"""A stream that failed begins again after a minute at most, and reads at once."""


class Shipping(DownstreamServer):
    """Takes orders; its first answers to those in ``slow`` come too late."""

    def __init__(self) -> None:
        self.slow: list[str] = []
        self.shipped: list[dict[str, Any]] = []

    def take(self, headers: Message[str, str], body: bytes) -> int:
        order = json.loads(body)
        if order["event"] in self.slow:
            self.slow.remove(order["event"])
            time.sleep(SLOW_S)
        else:
            self.shipped.append(order)
        return 201


@pytest.fixture(scope="module")
def shipping() -> Iterator[Shipping]:
    with (shipping := Shipping()).serve():
        yield shipping


@pytest.fixture(scope="module")
def shop(shipping: Shipping, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's folder, with the newer schema not yet in it."""
    shop = write_page(tmp_path_factory.mktemp("page"), "shop", shipping.port)
    for file in shop.rglob("*.toml"):
        file.write_text(file.read_text("utf-8").replace("shop/schemas", str(shop / "schemas")), "utf-8")
    return shop


@pytest.fixture(scope="module")
def stack(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """It runs, and says that the shop hasn't made its topic yet."""
    with pytest.MonkeyPatch.context() as patch:
        set_streams(patch, shop)
        data_dir = tmp_path_factory.mktemp("stack")
        try:
            up = payhook("up", "--detach", "--data", str(data_dir), timeout_s=UP_S_MAX)
            said = " ".join((up.stdout + up.stderr).split())
            assert (up.returncode, "the Kafka topic orders doesn't exist" in said) == (3, True), said
            yield Stack(data_dir)
        finally:
            payhook("down", "--data", str(data_dir), timeout_s=DOWN_S_MAX)


@pytest.fixture(autouse=True)
def settings(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of a test know the streams that its stack knows."""
    set_streams(monkeypatch, shop)


def write(stack: Stack, program: Path) -> None:
    """Another program writes: it imports nothing of payhook's."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, str(program), str(stack.data_dir)],
        cwd=program.parent,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def dead(stack: Stack) -> list[dict[str, Any]]:
    said = payhook("dlq", "list", "--stream", "orders", "--data", str(stack.data_dir), "--json")
    return list(json.loads(said.stdout)["items"]) if said.returncode == 0 else []


def test_a_topic_that_another_program_wrote_is_decided_and_proven(stack: Stack, shipping: Shipping, shop: Path) -> None:
    here = ("--data", str(stack.data_dir))
    of_orders = ("--stream", "orders", *here)

    def status() -> str:
        return " ".join(payhook("status", *here).stdout.split())

    shipping.slow = ["e2"]
    write(stack, shop / "write.py")
    assert wait_for(lambda: len(shipping.shipped) == 3, BEGUN_S), (shipping.shipped, status())
    begun = "new: begins in orders at earliest (starting_offsets): 4 records wait, none is left out"
    assert begun in status()
    by_order = {name: [one["event"] for one in shipping.shipped if one["order"] == name] for name in ("o1", "o2")}
    assert by_order == {"o1": ["e1", "e3"], "o2": ["e2"]}
    assert {one["event"]: one["country"] for one in shipping.shipped} == {"e1": "DE", "e2": "AT", "e3": "FR"}
    assert wait_for(lambda: len(dead(stack)) == 1, DECIDED_S), dead(stack)
    assert dead(stack)[0]["error_class"] == "IdentityFailed"
    assert dead(stack)[0]["provider"] == "kafka/orders"
    shown = payhook("dlq", "show", str(dead(stack)[0]["item_seq"]), *of_orders)
    assert "it names no schema" in shown.stdout, shown.stdout + shown.stderr
    write(stack, shop / "write.py")
    assert wait_for(lambda: len(dead(stack)) == 2, DECIDED_S), dead(stack)
    verified = payhook("verify", *of_orders)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert len(shipping.shipped) == 3, "copies have no effect"


def test_what_a_schema_of_later_reads_is_replayed(stack: Stack, shipping: Shipping, shop: Path, tmp_path: Path) -> None:
    """The program writes by a schema that the folder lacks; with it in the folder the replay is decided."""
    here = ("--data", str(stack.data_dir))
    of_orders = ("--stream", "orders", *here)
    newer = json.loads((shop / "schemas" / "2.avsc").read_text())
    newer["fields"].append({"name": "gift", "type": "boolean"})
    program = shop / "write_3.py"
    text = (shop / "write.py").read_text()
    before, _, _ = text.partition('producer.produce("orders", framed(1')
    order = '{"event": "e4", "order": "o4", "kind": "placed", "country": "CH", "gift": True}'
    program.write_text(
        before + f'producer.produce("orders", framed(3, {order}), key="o4")\nassert not producer.flush(30)\n'
    )
    (shop / "schemas" / "3.avsc").write_text(json.dumps(newer))
    write(stack, program)
    (shop / "schemas" / "3.avsc").rename(tmp_path / "3.avsc")

    def unknown() -> list[dict[str, Any]]:
        return [one for one in dead(stack) if "3.avsc" in (one["message"] or "")]

    assert wait_for(lambda: len(unknown()) == 1, DECIDED_S), dead(stack)
    (tmp_path / "3.avsc").rename(shop / "schemas" / "3.avsc")
    stack.kill("processor")
    chosen = payhook("dlq", "select", "--text", "3.avsc", *of_orders)
    assert chosen.returncode == 0, chosen.stdout + chosen.stderr
    replayed = payhook("dlq", "replay", "s1", "--reason", "the schema is there", *of_orders)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert wait_for(lambda: "e4" in [one["event"] for one in shipping.shipped], BEGUN_S), dead(stack)
    assert wait_for(lambda: not unknown(), DECIDED_S), dead(stack)
    verified = payhook("verify", *of_orders)
    assert verified.returncode == 0, verified.stdout + verified.stderr
