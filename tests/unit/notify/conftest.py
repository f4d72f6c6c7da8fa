"""A place to notify from, and receivers to notify."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from load.certificates import Issuer
from tests.unit.notify.place import Place, placed
from tests.unit.notify.receiver import Receiver, receiving


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    yield from placed(tmp_path)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


@pytest.fixture(scope="session")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer.make(tmp_path_factory.mktemp("ca"))
