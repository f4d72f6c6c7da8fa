"""Whose connection makes way for a newer one."""

from __future__ import annotations

import asyncio
import functools
import socket

from hypothesis import given
from hypothesis import strategies as st

from ingest.http import WebhookHttpProtocol
from ingest.limits import Connections, ReceiverLimits
from tests import virtual_time
from tests.unit.ingest.test_http import GET, Client, connected


def itself(protocol: WebhookHttpProtocol) -> WebhookHttpProtocol:
    return protocol


class Open:
    """A connection; ``made_way`` once it had to."""

    def __init__(self, places: Connections, source: str, now: float) -> None:
        self._places = places
        self.source = source
        self.made_way = False
        self.has_place = places.admit_connection(self, source, now)

    def make_way(self) -> None:
        self.made_way = True
        self.has_place = False
        self._places.release(self, self.source)

    def begin(self) -> None:
        self._places.set_waiting_since(self, self.source, None)

    def wait(self, now: float) -> None:
        self._places.set_waiting_since(self, self.source, now)


def test_the_longest_waiting_of_the_source_with_most_makes_way() -> None:
    places = Connections(4)
    other, first, second, third = (Open(places, source, now) for now, source in enumerate("baaa"))
    first.begin()
    first.wait(10.0)
    newer = Open(places, "b", 11.0)
    assert [each.made_way for each in (other, first, second, third)] == [False, False, True, False]
    assert newer.has_place


def test_a_connection_whose_request_is_under_way_keeps_its_place() -> None:
    places = Connections(2)
    working = [Open(places, "a", 0.0) for _ in range(2)]
    for each in working:
        each.begin()
    assert not Open(places, "b", 1.0).has_place
    assert not any(each.made_way for each in working)
    working[1].wait(2.0)
    assert Open(places, "b", 3.0).has_place
    assert [each.made_way for each in working] == [False, True]


def test_where_all_sources_have_as_many_the_longest_waiting_makes_way() -> None:
    places = Connections(3)
    held = [Open(places, source, now) for now, source in enumerate("abc")]
    held[0].begin()
    held[0].wait(5.0)
    Open(places, "d", 6.0)
    assert [each.made_way for each in held] == [False, True, False]


def test_the_source_with_most_connections_is_known_with_how_many() -> None:
    places = Connections(4)
    assert places.find_busiest_source() == ("", 0)
    for source in "aba":
        Open(places, source, 0.0)
    assert places.find_busiest_source() == ("a", 2)


def test_a_part_of_a_head_starts_no_wait_anew() -> None:
    places = Connections(2)
    slow, silent = Open(places, "a", 0.0), Open(places, "a", 1.0)
    slow.wait(2.0)
    Open(places, "b", 3.0)
    assert (slow.made_way, silent.made_way) == (True, False)


@given(st.lists(st.tuples(st.sampled_from(["open", "begin", "wait", "close"]), st.integers(0, 30)), max_size=120))
def test_places_are_counted_right_whatever_happens(steps: list[tuple[str, int]]) -> None:
    places, opened = Connections(5), list[Open]()
    working: set[Open] = set()
    for now, (step, number) in enumerate(steps):
        held = [each for each in opened if each.has_place]
        if step == "open":
            newer = Open(places, "abc"[number % 3], float(now))
            opened.append(newer)
            assert newer.has_place or len(held) == 5
        elif held:
            connection = held[number % len(held)]
            if step == "begin":
                connection.begin()
                working.add(connection)
            elif step == "wait":
                connection.wait(float(now))
                working.discard(connection)
            else:
                places.release(connection, connection.source)
                connection.has_place = False
        assert sum(each.has_place for each in opened) <= 5
        assert not any(each.made_way for each in working)
    while any(each.has_place for each in opened):
        connection = next(each for each in opened if each.has_place)
        places.release(connection, connection.source)
        connection.has_place = False
    assert all(Open(places, "a", 1e6).has_place for _ in range(5))


def test_a_connection_whose_answers_are_not_read_makes_way() -> None:
    async def scene() -> None:
        async with connected(ReceiverLimits(connections_max=2, in_flight_max=1)) as unread:
            await unread.send_until("waits")
            await unread.send(GET)
            protocol = unread.protocol
            loop = asyncio.get_running_loop()
            pairs = [socket.socketpair() for _ in range(2)]
            newer: list[asyncio.Transport] = []
            for ours, theirs in pairs:
                theirs.setblocking(False)
                made = type(protocol)(protocol.config, protocol.server_state, {}, loop)
                transport, _ = await loop.connect_accepted_socket(functools.partial(itself, made), theirs)
                newer.append(transport)
                client = Client(ours, made, transport)
                ours.setblocking(False)
                await client.send(GET)
                assert await client.read() > 0
            assert not unread.is_held
            for transport in newer:
                transport.abort()
            await asyncio.sleep(0.001)
            for pair in pairs:
                for end in pair:
                    end.close()

    virtual_time.run(scene())
