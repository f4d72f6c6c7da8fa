from __future__ import annotations

import socket
from typing import Any

import pytest

from core.status_file import each_address

NAMES = {"receivers": ["10.0.0.5", "10.0.0.4"], "processor": ["10.0.0.9"]}


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(host: str, *_: Any) -> list[Any]:
        if host not in NAMES:
            raise socket.gaierror
        # As a resolver answers: an address may come more than once.
        return [(0, 0, 0, "", (address, 0)) for address in [*NAMES[host], *NAMES[host]]]

    monkeypatch.setattr(socket, "getaddrinfo", asked)


def test_each_process_behind_a_name_is_asked() -> None:
    assert each_address({"ingest": "http://receivers:9101/metrics"}) == {
        "ingest-10.0.0.4": "http://10.0.0.4:9101/metrics",
        "ingest-10.0.0.5": "http://10.0.0.5:9101/metrics",
    }


def test_one_process_keeps_its_name_and_a_name_that_is_not_known_too() -> None:
    urls = {"processor": "http://processor:9102/metrics", "alerts": "http://gone:9103/metrics"}
    assert each_address(urls) == urls
