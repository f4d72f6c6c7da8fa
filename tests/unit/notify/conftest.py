"""A place to notify from, and receivers to notify."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from load.certificates import Issuer
from tests.unit.notify.place import SubscribersFolder, placed
from tests.unit.notify.receiver import SubscriberServer, receiving


@pytest.fixture
def place(tmp_path: Path) -> Iterator[SubscribersFolder]:
    yield from placed(tmp_path)


@pytest.fixture
def receiver() -> Iterator[SubscriberServer]:
    with receiving() as server:
        yield server


@pytest.fixture(scope="session")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer.make(tmp_path_factory.mktemp("ca"))
