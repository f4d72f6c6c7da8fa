"""The generation of claims as the processor announces it: in time, never lower, and without a word to the stream."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fakeredis
import pytest
from redis.exceptions import RedisClusterException

from core.clock import SystemClock
from core.generation import ANNOUNCED_S, Announcement, generation_key
from core.redis import Client
from core.routing import Shard
from processor.claims import GenerationWriter
from processor.reporting.metrics import ProcessorMetrics
from processor.reporting.status import StatusFile, StreamStatus

WAIT_S_MAX = 30.0


@pytest.fixture
def server() -> fakeredis.FakeServer:
    return fakeredis.FakeServer()


@pytest.fixture
def writer(server: fakeredis.FakeServer) -> Iterator[GenerationWriter]:
    made = GenerationWriter(lambda: fakeredis.FakeRedis(server=server), "live", tuple)
    made.start()
    yield made
    made.close()


def stands(server: fakeredis.FakeServer) -> Announcement | None:
    value = fakeredis.FakeRedis(server=server).get(generation_key("live"))
    assert value is None or isinstance(value, bytes)
    return Announcement.decode(value)


def becomes(server: fakeredis.FakeServer, wanted: Announcement | None) -> bool:
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
    writer.publish(Announcement(3, 4))
    assert becomes(server, Announcement(3, 4))
    left_ms = fakeredis.FakeRedis(server=server).pttl(generation_key("live"))
    assert 0 < left_ms <= ANNOUNCED_S * 1000
    writer.publish(Announcement(3, 4, refused=True))
    assert becomes(server, Announcement(3, 4, refused=True))
    writer.publish(Announcement(4, 4))
    assert becomes(server, Announcement(4, 4))


def test_it_is_written_again_where_redis_forgot_it(writer: GenerationWriter, server: fakeredis.FakeServer) -> None:
    writer.publish(Announcement(3, 4))
    assert becomes(server, Announcement(3, 4))
    forget(server)
    assert becomes(server, Announcement(3, 4))


def test_a_higher_one_of_another_process_stays(server: fakeredis.FakeServer) -> None:
    ours = GenerationWriter(lambda: fakeredis.FakeRedis(server=server), "live", tuple)
    fakeredis.FakeRedis(server=server).set(generation_key("live"), b"10 p4")
    for announced in (Announcement(9, 4, refused=True), Announcement(9, 4)):
        ours._write(announced)
        assert stands(server) == Announcement(10, 4)
    ours._write(Announcement(10, 4, refused=True))
    assert stands(server) == Announcement(10, 4, refused=True)
    forget(server)
    ours._write(Announcement(9, 4))
    assert stands(server) == Announcement(9, 4)


def test_what_cant_be_read_is_written_over(writer: GenerationWriter, server: fakeredis.FakeServer) -> None:
    fakeredis.FakeRedis(server=server).set(generation_key("live"), b"soon")
    writer.publish(Announcement(0, 4))
    assert becomes(server, Announcement(0, 4))


def test_withdrawn_it_isnt_written_any_more_until_it_is_published_again(server: fakeredis.FakeServer) -> None:
    written: list[bytes] = []

    class Recording(fakeredis.FakeRedis):
        def eval(self, script: str, numkeys: int, *arguments: Any) -> Any:
            written.append(arguments[2])
            return super().eval(script, numkeys, *arguments)

    writer = GenerationWriter(lambda: Recording(server=server), "live", tuple)
    writer.publish(Announcement(3, 4))
    writer.withdraw_announcement()
    writer.start()
    assert wait_for(lambda: not writer._wake.is_set())
    writer.publish(Announcement(4, 4))
    assert becomes(server, Announcement(4, 4))
    writer.close()
    assert set(written) == {b"4 p4"}


def test_withdrawn_while_it_is_written_it_can_be_published_again(server: fakeredis.FakeServer) -> None:
    class WithdrawnOnceRead(GenerationWriter):
        """Whoever reads what is announced finds it withdrawn when they look again."""

        _kept: Announcement | None = None

        @property
        def _announced(self) -> Announcement | None:
            read, self._kept = self._kept, None
            return read

        @_announced.setter
        def _announced(self, announced: Announcement | None) -> None:
            self._kept = announced

    writer = WithdrawnOnceRead(lambda: fakeredis.FakeRedis(server=server), "live", tuple)
    writer.start()
    for generation in range(2):
        writer.publish(Announcement(generation, 4))
        assert becomes(server, Announcement(generation, 4))
    assert writer._thread.is_alive()
    writer.close()


def test_redis_away_is_said_once_and_written_when_it_is_back(
    writer: GenerationWriter, server: fakeredis.FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.connected = False
    for generation in range(3):
        writer.publish(Announcement(generation, 4))
    assert wait_for(lambda: "can't be written" in caplog.text)
    writer.publish(Announcement(3, 4))
    server.connected = True
    assert becomes(server, Announcement(3, 4))
    assert caplog.text.count("can't be written") == 1


def test_a_redis_that_cant_be_opened_yet_is_opened_later(
    server: fakeredis.FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    """As a cluster of which no node answers."""
    tries: list[None] = []

    def open_redis() -> Client:
        tries.append(None)
        if len(tries) < 3:
            raise RedisClusterException("no node answers")
        return fakeredis.FakeRedis(server=server)

    writer = GenerationWriter(open_redis, "live", tuple)
    writer.start()
    for _ in range(2):
        writer.publish(Announcement(3, 4))
        assert wait_for(lambda: not writer._wake.is_set())
    assert becomes(server, Announcement(3, 4))
    writer.close()
    assert (len(tries), caplog.text.count("no node answers")) == (3, 1)


def test_a_stream_announces_what_its_journal_says_and_withdraws_it_when_it_fails(
    writer: GenerationWriter, server: fakeredis.FakeServer, tmp_path: Path
) -> None:
    clock = SystemClock()
    status = StreamStatus("ledger", StatusFile(tmp_path / "status.json", clock), ProcessorMetrics(clock), writer)
    status.announce_generation(Announcement(2, 4))
    assert becomes(server, Announcement(2, 4))
    status.announce_generation(Announcement(2, 4, refused=True))
    assert becomes(server, Announcement(2, 4, refused=True))
    status.report_failed(RuntimeError("gone"))
    writer.close()
    assert writer._announced is None


def test_each_shard_announces_in_a_key_of_its_own(server: fakeredis.FakeServer) -> None:
    client = fakeredis.FakeRedis(server=server)

    def announces(shard: Shard) -> None:
        writer = GenerationWriter(lambda: fakeredis.FakeRedis(server=server), "live", tuple, shard.number)
        writer.start()
        writer.publish(Announcement(3, 4, shard=shard))
        assert wait_for(lambda: client.get(generation_key("live", shard.number)) == f"3 p4 s{shard}".encode())
        writer.close()

    announces(Shard(0, 2))
    announces(Shard(1, 2))
    assert client.get(generation_key("live")) == b"3 p4 s0/2"
