"""Fixtures for tests on an object store; a conftest imports them."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from core.store import store_variables
from tests.object_store.programs import NotBuilt
from tests.object_store.server import PREFIXES, ObjectStore, azurite_server, object_store_server, versity_gateway


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """A real server, shared by the run."""
    with object_store_server(tmp_path_factory.mktemp("object-store")) as store:
        yield store


@pytest.fixture(scope="session")
def versity(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """VersityGW, shared by the run: what tests import as their ``object_store`` that moto isn't enough for."""
    yield from _if_built(versity_gateway(tmp_path_factory.mktemp("versitygw")))


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """Azure's emulator, shared by the run."""
    yield from _if_built(azurite_server(tmp_path_factory.mktemp("azurite")))


def _if_built(server: AbstractContextManager[ObjectStore]) -> Iterator[ObjectStore]:
    with contextlib.ExitStack() as undo:
        try:
            store = undo.enter_context(server)
        except NotBuilt as missing:
            pytest.skip(str(missing))
        yield store


@pytest.fixture
def store_folder(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty folder, which this process reaches."""
    return reach(object_store, monkeypatch)


def reach(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, endpoint: str | None = None, timeout_s: float | None = None
) -> str:
    """Tells this process of the store, by way of ``endpoint`` if one is given; returns the URL of an empty folder.

    ``timeout_s``: for a connection and for a request, instead of the store's usual ones.
    """
    for variable in [name for name in os.environ if name.startswith(tuple(PREFIXES.values()))]:
        monkeypatch.delenv(variable)
    settings = store.settings(uuid.uuid4().hex, endpoint)
    timeouts = {} if timeout_s is None else dict.fromkeys(_timeouts(store), f"{timeout_s:g}s")
    for name, value in {**store_variables(settings, settings.url), **store.variables(), **timeouts}.items():
        monkeypatch.setenv(name, value)
    return settings.url


def _timeouts(store: ObjectStore) -> list[str]:
    return [f"{PREFIXES[store.scheme]}{name}" for name in ("TIMEOUT", "CONNECT_TIMEOUT")]


@pytest.fixture(params=["disk", "object store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a table may be: a folder of a disk, and one of an object store."""
    return place_on(request, tmp_path)


def place_on(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place that a fixture's parameter names; a disk without one."""
    if getattr(request, "param", "disk") == "disk":
        return str(tmp_path / "table")
    return f"{request.getfixturevalue('store_folder')}/table"


EVERYWHERE = pytest.mark.parametrize("path", ["disk", "object store"], indirect=True)
"""For a test whose ``path`` comes from `place_on`."""
