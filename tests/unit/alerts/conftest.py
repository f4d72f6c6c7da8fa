"""Somebody who gets notices over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.notify.receiver import Receiver, receiving


@pytest.fixture
def server() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver
