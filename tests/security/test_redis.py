"""The embedded Redis does what payhook asks of it, and nothing for anybody else."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import redis

from core.sockets import SOCKET_PATH_BYTES_MAX, SocketFolderUnsafe
from stack.servers.redis import ADMIN, admin_url, redis_server, redis_url, socket_of
from stack.servers.server import RunningServer, run_server
from tests.processes import sockets_of

FOLDER = "redis"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, RunningServer]]:
    """In a folder that was others' to read before."""
    root = tmp_path_factory.mktemp("data")
    (root / FOLDER).mkdir(mode=0o755)
    with run_server(redis_server(root / FOLDER, root / "redis.log")) as started:
        yield root / FOLDER, started


@pytest.fixture
def folder(server: tuple[Path, RunningServer]) -> Path:
    return server[0]


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """A folder whose path is too long for a socket's address."""
    found = tmp_path / ("x" * SOCKET_PATH_BYTES_MAX) / FOLDER
    found.mkdir(parents=True)
    return found


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("user", ["", "default:@", "payhook:guessed@", "admin:@"])
def test_without_the_password_nothing_is_answered(folder: Path, user: str) -> None:
    with (
        redis.Redis.from_url(f"unix://{user}{quote(str(socket_of(folder)))}?db=0") as client,
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
def test_payhooks_user_may_do_only_what_payhook_does(folder: Path, command: str) -> None:
    with (
        redis.Redis.from_url(redis_url(folder)) as client,
        pytest.raises(redis.ResponseError, match="no permissions|command not allowed"),
    ):
        client.execute_command(*command.split())


def test_a_script_may_do_no_more(folder: Path) -> None:
    with redis.Redis.from_url(redis_url(folder)) as client, pytest.raises(redis.ResponseError):
        client.eval("return redis.call('FLUSHALL')", 0)


def test_passwords_are_the_owners_alone_and_stay_over_a_restart(folder: Path) -> None:
    for path in folder.glob("*.password"):
        assert mode(path) == 0o600
    assert mode(folder / "users.acl") == 0o600
    assert redis_url(folder) == redis_url(folder)
    assert redis_url(folder) != redis_url(folder, ADMIN)


def test_it_listens_on_no_port_and_its_socket_is_the_owners_alone(server: tuple[Path, RunningServer]) -> None:
    folder, started = server
    open_sockets = sockets_of(started.process_id, "all")
    assert [held.laddr for held in open_sockets if held.family.name != "AF_UNIX"] == []
    assert socket_of(folder).is_socket()
    assert (mode(folder), mode(socket_of(folder))) == (0o700, 0o600)


# a path too long for a socket


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path is short wherever the tests' own folders are."""
    with tempfile.TemporaryDirectory(prefix="payhook-") as folder:
        yield Path(folder)


def test_where_the_path_is_too_long_a_short_one_is_taken_and_removed_at_the_end(
    deep: Path, monkeypatch: pytest.MonkeyPatch, short: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    socket = socket_of(deep)
    assert socket.parent.parent == short and len(os.fsencode(socket)) <= SOCKET_PATH_BYTES_MAX
    for _ in range(2):
        with run_server(redis_server(deep, short / "redis.log")), redis.Redis.from_url(redis_url(deep)) as client:
            assert client.ping()
            assert mode(socket.parent) == 0o700
            url = redis_url(deep)
            # Another process may have another folder for its sockets: it goes by the URL.
            monkeypatch.setenv("XDG_RUNTIME_DIR", "/elsewhere")
            with redis.Redis.from_url(admin_url(deep, url)) as admin:
                assert admin.dbsize() == 0
            monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
        assert not socket.parent.exists()


def test_where_the_sessions_folder_is_too_long_as_well_the_temporary_one_is_taken(
    deep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    assert socket_of(deep).parent.parent == Path(tempfile.gettempdir())


def test_two_data_folders_have_two_sockets(deep: Path) -> None:
    assert socket_of(deep) != socket_of(deep.parent)


def test_without_a_folder_of_the_session_the_temporary_one_is_taken(
    deep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    assert socket_of(deep).parent.parent == Path("/tmp")


def test_a_link_or_file_in_the_place_of_the_folder_is_refused(
    deep: Path, monkeypatch: pytest.MonkeyPatch, short: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    server = redis_server(deep, short / "redis.log")
    (short / "another").mkdir(mode=0o777)
    socket_of(deep).parent.symlink_to(short / "another")
    with pytest.raises(SocketFolderUnsafe, match="XDG_RUNTIME_DIR"), run_server(server):
        pass


def test_a_folder_of_another_user_is_refused(deep: Path, monkeypatch: pytest.MonkeyPatch, short: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    server = redis_server(deep, short / "redis.log")
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    with pytest.raises(SocketFolderUnsafe), run_server(server):
        pass
