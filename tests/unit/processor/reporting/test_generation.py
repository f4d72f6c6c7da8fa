"""The generation of claims as the processor announces it: in time, never lower, and without a word to the stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fakeredis
import pytest
import redis

from core.clock import SystemClock
from core.errors import SettingError
from core.generation import ANNOUNCED_S, Announced, generation_key
from processor.reporting.generation import GenerationWriter, open_generation_writer
from processor.reporting.metrics import ProcessorMetrics
from processor.reporting.status import StatusFile, StreamStatus
from stack.redis import ADMIN, redis_server, redis_url
from stack.server import running

WAIT_S_MAX = 30.0


@pytest.fixture
def server() -> fakeredis.FakeServer:
    return fakeredis.FakeServer()


@pytest.fixture
def writer(server: fakeredis.FakeServer) -> Iterator[GenerationWriter]:
    made = GenerationWriter(fakeredis.FakeRedis(server=server), "live")
    made.start()
    yield made
    made.close()


def stands(server: fakeredis.FakeServer) -> Announced | None:
    value = fakeredis.FakeRedis(server=server).get(generation_key("live"))
    assert value is None or isinstance(value, bytes)
    return Announced.decode(value)


def becomes(server: fakeredis.FakeServer, wanted: Announced | None) -> bool:
    return wait_for(lambda: stands(server) == wanted)


def wait_for(reached: Callable[[], bool]) -> bool:
    until = time.monotonic() + WAIT_S_MAX
    while not reached() and time.monotonic() < until:
        time.sleep(0.01)
    return reached()


def forget(server: fakeredis.FakeServer) -> None:
    fakeredis.FakeRedis(server=server).flushall()


def test_what_is_published_stands_in_redis_for_a_while(writer: GenerationWriter, server: fakeredis.FakeServer) -> None:
    assert stands(server) is None
    writer.publish(3)
    assert becomes(server, Announced(3))
    left_ms = fakeredis.FakeRedis(server=server).pttl(generation_key("live"))
    assert 0 < left_ms <= ANNOUNCED_S * 1000
    writer.publish(3, refused=True)
    assert becomes(server, Announced(3, refused=True))
    writer.publish(4)
    assert becomes(server, Announced(4))


def test_it_is_written_again_where_redis_forgot_it(writer: GenerationWriter, server: fakeredis.FakeServer) -> None:
    writer.publish(3)
    assert becomes(server, Announced(3))
    forget(server)
    assert becomes(server, Announced(3))


def test_a_higher_one_of_another_process_stays(server: fakeredis.FakeServer) -> None:
    ours = GenerationWriter(fakeredis.FakeRedis(server=server), "live")
    fakeredis.FakeRedis(server=server).set(generation_key("live"), b"10")
    for announced in (Announced(9, refused=True), Announced(9)):
        ours._write(announced)
        assert stands(server) == Announced(10)
    ours._write(Announced(10, refused=True))
    assert stands(server) == Announced(10, refused=True)
    forget(server)
    ours._write(Announced(9))
    assert stands(server) == Announced(9)


def test_what_cant_be_read_is_written_over(writer: GenerationWriter, server: fakeredis.FakeServer) -> None:
    fakeredis.FakeRedis(server=server).set(generation_key("live"), b"soon")
    writer.publish(0)
    assert becomes(server, Announced(0))


def test_withdrawn_it_isnt_written_any_more_until_it_is_published_again(server: fakeredis.FakeServer) -> None:
    written: list[bytes] = []

    class Recording(fakeredis.FakeRedis):
        def eval(self, script: str, numkeys: int, *arguments: Any) -> Any:
            written.append(arguments[2])
            return super().eval(script, numkeys, *arguments)

    writer = GenerationWriter(Recording(server=server), "live")
    writer.publish(3)
    writer.withdraw()
    writer.start()
    assert wait_for(lambda: not writer._wake.is_set())
    writer.publish(4)
    assert becomes(server, Announced(4))
    writer.close()
    assert set(written) == {b"4"}


def test_redis_away_is_said_once_and_written_when_it_is_back(
    writer: GenerationWriter, server: fakeredis.FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.connected = False
    for generation in range(3):
        writer.publish(generation)
    assert wait_for(lambda: "can't be written" in caplog.text)
    writer.publish(3)
    server.connected = True
    assert becomes(server, Announced(3))
    assert caplog.text.count("can't be written") == 1


def test_an_address_that_is_none_is_found_at_start() -> None:
    with pytest.raises(SettingError, match=r"redis\.url"):
        open_generation_writer("http://127.0.0.1", "live")


def test_on_a_real_redis_modes_are_apart(tmp_path: Path) -> None:
    url = redis_url(tmp_path / "redis", ADMIN)
    with running(redis_server(tmp_path / "redis", tmp_path / "redis.log")), redis.Redis.from_url(url) as client:
        client.set(generation_key("test"), b"7")
        live, test = open_generation_writer(url, "live"), open_generation_writer(url, "test")
        for writer in (live, test):
            writer.start()
            writer.publish(5, refused=True)
        assert wait_for(lambda: client.get(generation_key("live")) == b"5 refused")
        test.publish(8)
        assert wait_for(lambda: client.get(generation_key("test")) == b"8")
        assert 0 < client.pttl(generation_key("test")) <= ANNOUNCED_S * 1000
        live.close()
        test.close()


def test_a_stream_announces_what_its_journal_says_and_withdraws_it_when_it_fails(
    writer: GenerationWriter, server: fakeredis.FakeServer, tmp_path: Path
) -> None:
    clock = SystemClock()
    status = StreamStatus("ledger", StatusFile(tmp_path / "status.json", clock), ProcessorMetrics(clock), writer)
    status.generation(2)
    assert becomes(server, Announced(2))
    status.generation(2, refused=True)
    assert becomes(server, Announced(2, refused=True))
    status.failed(RuntimeError("gone"))
    writer.close()
    assert writer._announced is None
