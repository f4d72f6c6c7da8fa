"""What the bench of storms stands on: a service of known capacity, a steady storm, and a picture of it."""

from __future__ import annotations

import socket
import time
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from core.decision import ErrorKind
from core.work import Applied, Held
from load.bench.plot import HEIGHT, WIDTH, write_lines
from load.bench.slow_service import SlowService
from load.bench.storms import POLICY, Storm
from load.client import wait_for
from processor.judge.classify import Failure

SVG = "{http://www.w3.org/2000/svg}"


def test_the_service_works_on_so_many_requests_at_a_time_and_on_abandoned_ones_too() -> None:
    with SlowService(at_once=1, each_s=0.05) as service:
        with ThreadPoolExecutor(4) as threads:
            began = time.monotonic()
            answers = list(threads.map(lambda _: httpx.get(service.url, timeout=60).text, range(4)))
        assert answers == ["ok"] * 4
        assert time.monotonic() - began >= 4 * 0.05

        with socket.create_connection(("127.0.0.1", httpx.URL(service.url).port or 0)) as impatient:
            impatient.sendall(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        httpx.get(service.url, timeout=60)
        assert wait_for(lambda: service.served == 6, 60)


def test_a_storm_goes_on_at_its_rate_and_keeps_what_waits() -> None:
    storm = Storm("http://127.0.0.1:9/", 10.0, 60.0, limited=True)
    first = storm._take(1.0)
    assert [item.item_seq for item in first] == list(range(10))
    good, slow, held, left = first[:4]
    storm._settle(good, Applied(), 1.0)
    storm._settle(slow, Failure(ErrorKind.SNBE, "NoAnswer", None, "", ""), 1.0)
    storm._settle(held, Held("slow", 0.5), 1.0)
    storm._settle(left, None, 1.0)
    assert storm.done == [1.0]
    assert [(item.item_seq, item.attempt) for item in storm._take(1.6)] == [
        (3, 0),
        (2, 0),
        *((n, 0) for n in range(10, 16)),
    ]
    assert [(item.item_seq, item.attempt) for item in storm._take(1.0 + 1.5)][:1] == [(1, 1)]


def test_a_storms_event_dies_when_its_retries_are_spent() -> None:
    storm = Storm("http://127.0.0.1:9/", 1.0, 60.0, limited=True)
    [item] = storm._take(1.0)
    for attempt in range(6):
        assert item.attempt == attempt
        storm._settle(item, Failure(ErrorKind.SNBE, "NoAnswer", None, "", ""), 0.0)
        if attempt < 5:
            storm._came = 10**6
            [item] = storm._take(30.0)
    assert (storm.dead, storm.tries) == (1, POLICY.tries + 1 if POLICY.tries else 0)


def test_the_picture_holds_every_line_within_its_frame(tmp_path: Path) -> None:
    path = tmp_path / "new" / "storms.svg"
    write_lines(
        path, "A < B", "seconds", "events", {"limited": [0, 70, 80], "unlimited": [80, 10, 0], "none": [0, 0, 0]}
    )
    picture = ET.parse(path).getroot()
    lines = picture.findall(f"{SVG}polyline")
    assert len(lines) == 3
    for line in lines:
        points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
        assert len(points) == 3
        assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
    words = {text.text for text in picture.findall(f"{SVG}text")}
    assert {"A < B", "limited", "unlimited", "seconds", "events"} <= words
