"""Somebody who gets notices over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.notify.receiver import SubscriberServer, receiving


@pytest.fixture
def server() -> Iterator[SubscriberServer]:
    with receiving() as receiver:
        yield receiver
