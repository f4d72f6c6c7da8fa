"""Another user of the machine tries every port and every file of a running stack, and it goes on deciding."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from core.layout import Layout
from stack.endpoints import recorded_supervisor
from tests import local_attacker
from tests.e2e.conftest import assert_once
from tests.e2e.killing import MortalStack
from tests.local_attacker import OBJECT, as_another_user, listeners, send

pytestmark = pytest.mark.more(reason="a stack of its own; tests/security has each door by itself")


@pytest.fixture
def ports(one_stack: MortalStack) -> dict[int, str]:
    supervisor = recorded_supervisor(Layout(one_stack.data_dir))
    assert supervisor is not None
    return listeners(supervisor.pid)


@pytest.mark.row("G11")
def test_every_port_is_on_loopback(ports: dict[int, str]) -> None:
    assert len(ports) > 5
    assert {address.removeprefix("::ffff:") for address in ports.values()} == {"127.0.0.1"}


def test_what_is_sent_to_its_ports_changes_nothing_and_webhooks_are_decided(
    one_stack: MortalStack, ports: dict[int, str]
) -> None:
    before = dict(one_stack.endpoints["pids"])
    for attack in (local_attacker.spark_rpc, local_attacker.py4j_command, local_attacker.python_worker_secret):
        for port in ports:
            answered = as_another_user(send, port, attack())
            assert OBJECT not in answered, f"port {port} deserialised what a stranger sent"
            assert not answered.startswith(b"!y"), f"port {port} ran a command without its token"
    sent = one_stack.captures(5, "beside-an-attacker")
    assert {answer.status for answer in one_stack.post(*sent)} == {200}
    assert_once(one_stack, sent)
    assert one_stack.endpoints["pids"] == before


def test_no_file_below_the_data_folder_is_another_users_to_read(one_stack: MortalStack) -> None:
    places = [one_stack.data_dir, *one_stack.data_dir.rglob("*")]
    assert any(path.parts[-2:-1] == ("offsets",) for path in places), "Spark's checkpoint is among them"
    readable = [path for path in places if not path.is_symlink() and _mode(path) & 0o077]
    assert readable == []


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return 0
