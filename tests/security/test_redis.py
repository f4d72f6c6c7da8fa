"""The embedded Redis does what payhook asks of it, and nothing for anybody else."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from redis.exceptions import NoPermissionError

from stack.ports import LOOPBACK, free_ports
from stack.redis import ADMIN, redis_server, redis_url
from stack.server import running

FOLDER = "redis"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    root = tmp_path_factory.mktemp("data")
    (found,) = free_ports(1)
    with running(redis_server(root / FOLDER, found, root / "redis.log")):
        yield root / FOLDER, found


@pytest.mark.parametrize("user", ["", "default:@", "payhook:guessed@", "admin:@"])
def test_without_the_password_nothing_is_answered(port: tuple[Path, int], user: str) -> None:
    with (
        redis.Redis.from_url(f"redis://{user}{LOOPBACK}:{port[1]}/0") as client,
        pytest.raises((redis.AuthenticationError, redis.ResponseError)),
    ):
        client.get("1:anything")


@pytest.mark.parametrize(
    "command",
    [
        "CONFIG SET dir /tmp",
        "MODULE LOAD /tmp/own.so",
        "FLUSHALL",
        "DEBUG SLEEP 1",
        "SHUTDOWN NOSAVE",
        "ACL SETUSER other on nopass +@all",
        "SLAVEOF 192.0.2.1 6379",
        "KEYS *",
        "SAVE",
    ],
)
def test_payhooks_user_may_do_only_what_payhook_does(port: tuple[Path, int], command: str) -> None:
    with redis.Redis.from_url(redis_url(*port)) as client, pytest.raises(NoPermissionError):
        client.execute_command(*command.split())


def test_a_script_may_do_no_more(port: tuple[Path, int]) -> None:
    with redis.Redis.from_url(redis_url(*port)) as client, pytest.raises(redis.ResponseError):
        client.eval("return redis.call('FLUSHALL')", 0)


def test_passwords_are_the_owners_alone_and_stay_over_a_restart(port: tuple[Path, int]) -> None:
    folder, number = port
    for path in folder.glob("*.password"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "users.acl").stat().st_mode) == 0o600
    assert redis_url(folder, number) == redis_url(folder, number)
    assert redis_url(folder, number) != redis_url(folder, number, ADMIN)
