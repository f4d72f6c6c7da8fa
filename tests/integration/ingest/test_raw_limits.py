"""Time, size and order on a raw socket: what is slow, large, early, late or too much."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlparse

import httpx2
import psutil
import pytest

from ingest.errors import REMEDIES
from load.client import wait_for
from tests.integration.ingest.conftest import (
    PATIENT,
    ReceiverUnderTest,
    Servers,
    metric,
    receiver_on,
)
from tests.integration.ingest.wire import LAST_CHUNK, STILL_OPEN_S, Wire, chunk, head
from tests.processes import sockets_of

MIB = 1 << 20
DEADLINE_S, IDLE_S = 1.0, 3.0
PAUSE_S = 0.2
TRICKLES = 60
"""So many pieces come in twelve times the deadline."""
ANOTHER_WAY = pytest.mark.more(reason="another way to a limit that one of the others reaches")
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def webhook(receiver: ReceiverUnderTest, event_id: str, *fields: bytes) -> bytes:
    body, headers = receiver.stripe(event_id)
    signature = b"Stripe-Signature: " + headers["Stripe-Signature"].encode()
    return head(signature, b"Content-Length: %d" % len(body), *fields) + body


@pytest.fixture(scope="module")
def hasty(servers: Servers) -> Iterator[ReceiverUnderTest]:
    """Gives heads and bodies up that take longer than `DEADLINE_S`."""
    with receiver_on(servers, replace(PATIENT, header_deadline_s=DEADLINE_S, read_deadline_s=DEADLINE_S)) as receiver:
        yield receiver


@pytest.fixture(scope="module")
def tidy(servers: Servers) -> Iterator[ReceiverUnderTest]:
    """Closes connections on which nothing happens for `IDLE_S`."""
    with receiver_on(servers, replace(PATIENT, idle_s=IDLE_S)) as receiver:
        yield receiver


def statuses(wire: Wire, count: int) -> list[int]:
    return [wire.expect_answer().status for _ in range(count)]


def refused(wire: Wire) -> tuple[int, str]:
    """Status and code of an answer that says it is the last one."""
    answer = wire.expect_answer()
    assert answer.says_that_it_closes
    return answer.status, answer.code


def test_a_head_that_trickles_is_given_up_counted_from_its_first_byte(
    hasty: ReceiverUnderTest, servers: Servers
) -> None:
    with servers.publishing(0), hasty.wire() as wire:
        began = time.monotonic()
        whole = webhook(hasty, "1")
        assert wire.trickle(*(whole[at : at + 1] for at in range(TRICKLES)), pause_s=PAUSE_S)
        assert time.monotonic() - began > DEADLINE_S * 0.9
        assert refused(wire) == (408, "head_too_slow")
        assert wire.is_closed()


@ANOTHER_WAY
def test_empty_lines_before_a_request_buy_no_time(hasty: ReceiverUnderTest) -> None:
    with hasty.wire() as wire:
        assert wire.trickle(*[b"\r\n"] * TRICKLES, pause_s=PAUSE_S)
        assert refused(wire) == (408, "head_too_slow")
        assert wire.is_closed()


@ANOTHER_WAY
def test_the_head_after_an_answer_has_the_same_deadline(hasty: ReceiverUnderTest) -> None:
    with hasty.wire() as wire:
        wire.send(GET)
        assert statuses(wire, 1) == [200]
        wire.send(GET[:10])
        assert refused(wire) == (408, "head_too_slow")
        assert wire.is_closed()


def test_a_head_in_pieces_that_comes_in_time_is_taken(receiver: ReceiverUnderTest, servers: Servers) -> None:
    whole = webhook(receiver, "1")
    with servers.publishing(1), receiver.wire() as wire:
        wire.send(*(whole[at : at + 50] for at in range(0, len(whole), 50)), pause_s=0.01)
        assert statuses(wire, 1) == [200]


@pytest.mark.parametrize(
    "first",
    [pytest.param(b"", id="a new connection"), pytest.param(GET, id="after an answer", marks=ANOTHER_WAY)],
)
def test_a_connection_on_which_nothing_happens_is_closed_without_a_word(tidy: ReceiverUnderTest, first: bytes) -> None:
    with tidy.wire() as wire:
        if first:
            wire.send(first)
            assert statuses(wire, 1) == [200]
        assert wire.stays_open(IDLE_S / 2)
        assert wire.is_closed()


@ANOTHER_WAY
def test_a_connection_in_use_stays_open_beyond_the_idle_time(tidy: ReceiverUnderTest) -> None:
    began = time.monotonic()
    with tidy.wire() as wire:
        while time.monotonic() - began < IDLE_S * 2:
            wire.send(GET)
            assert statuses(wire, 1) == [200]
            time.sleep(IDLE_S / 10)


def test_a_body_that_trickles_is_given_up(hasty: ReceiverUnderTest, servers: Servers) -> None:
    whole = webhook(hasty, "1")
    with servers.publishing(0), hasty.wire() as wire:
        first, rest = whole[:-TRICKLES], whole[-TRICKLES:-1]
        assert wire.trickle(first, *(rest[at : at + 1] for at in range(len(rest))), pause_s=PAUSE_S)
        assert refused(wire) == (408, "too_slow")
        assert wire.is_closed()


@ANOTHER_WAY
def test_a_body_that_trickles_in_chunks_is_given_up(hasty: ReceiverUnderTest, servers: Servers) -> None:
    with servers.publishing(0), hasty.wire() as wire:
        assert wire.trickle(head(b"Transfer-Encoding: chunked"), *[chunk(b"{")] * TRICKLES, pause_s=PAUSE_S)
        assert refused(wire) == (408, "too_slow")


TOO_LARGE = {
    **{
        f"a length of {length.decode()}": [head(b"Content-Length: " + length)]
        for length in (b"%d" % (MIB + 1), b"9" * 15, b"0" * 30 + b"9" * 15, b"18446744073709551615")
    },
    "without end": [head(b"Transfer-Encoding: chunked"), *[chunk(b"x" * 0x10000)] * 16, chunk(b"x")],
    "a chunk without end": [head(b"Transfer-Encoding: chunked") + b"FFFFFFFFFFFF\r\n", *[b"x" * 0x10000] * 17],
}
"""Bodies by their pieces."""


@pytest.mark.parametrize("pieces", TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_body_that_is_too_large_is_refused_before_it_comes_or_while_it_streams(
    receiver: ReceiverUnderTest, servers: Servers, pieces: list[bytes]
) -> None:
    with servers.publishing(0), receiver.wire() as wire:
        wire.send(*pieces)
        assert refused(wire) == (413, "too_large")
        assert wire.is_closed()


@pytest.mark.parametrize("sent", [b"", b"x" * 100_000], ids=["patient", "impatient"])
def test_who_asks_before_sending_too_much_is_reported_so_instead_of_being_asked_for_it(
    receiver: ReceiverUnderTest, sent: bytes
) -> None:
    with receiver.wire() as wire:
        wire.send(head(b"Content-Length: %d" % (2 * MIB), b"Expect: 100-continue") + sent)
        assert refused(wire) == (413, "too_large")
        assert wire.is_closed()


def test_who_asks_before_sending_is_reported_to_go_on(receiver: ReceiverUnderTest, servers: Servers) -> None:
    whole = webhook(receiver, "1", b"Expect: 100-continue")
    first, _, body = whole.partition(b"\r\n\r\n")
    with servers.publishing(1), receiver.wire() as wire:
        wire.send(first + b"\r\n\r\n")
        assert statuses(wire, 1) == [100]
        wire.send(body)
        assert statuses(wire, 1) == [200]


@ANOTHER_WAY
def test_a_sender_that_does_not_stop_still_gets_its_answer(receiver: ReceiverUnderTest) -> None:
    """Closed while bytes come in, a connection would be reset, and the answer with it."""
    with receiver.wire() as wire:
        wire.send(head(b"Content-Length: %d" % (50 * MIB)), *[b"x" * 0x10000] * 8, pause_s=0.02)
        assert refused(wire) == (413, "too_large")


@ANOTHER_WAY
def test_a_sender_that_never_stops_is_cut_off(receiver: ReceiverUnderTest) -> None:
    with receiver.wire() as wire:
        wire.send(head(b"Content-Length: %d" % (50 * MIB)))
        assert refused(wire) == (413, "too_large")
        assert not wire.send(*[b"x" * 0x10000] * 400)


def test_the_largest_body_is_taken_in_one_chunk_or_many(receiver: ReceiverUnderTest, servers: Servers) -> None:
    body = b'{"padding": "' + b"x" * (MIB - 15) + b'"}'
    sent, headers = receiver.signed("stripe", body)
    signature = b"Stripe-Signature: " + headers["Stripe-Signature"].encode()
    pieces = [chunk(sent[at : at + 1_000]) for at in range(0, len(sent), 1_000)]
    with servers.publishing(1), receiver.wire() as wire:
        wire.send(head(signature, b"Content-Length: %d" % len(sent)) + sent)
        assert statuses(wire, 1) == [200]
        wire.send(head(signature, b"Transfer-Encoding: chunked") + b"".join(pieces) + LAST_CHUNK)
        assert statuses(wire, 1) == [200]


def test_small_chunks_extensions_and_harmless_trailers_are_http_too(
    receiver: ReceiverUnderTest, servers: Servers
) -> None:
    body, headers = receiver.stripe("1")
    signature = b"Stripe-Signature: " + headers["Stripe-Signature"].encode()
    pieces = b"".join(chunk(body[at : at + 1], b";a=b") for at in range(len(body)))
    with servers.publishing(1), receiver.wire() as wire:
        wire.send(head(signature, b"Transfer-Encoding: chunked") + pieces + b"0\r\nX-Checksum: 1\r\n\r\n")
        assert statuses(wire, 1) == [200]
        assert wire.stays_open()


def test_a_signature_behind_the_body_is_none(receiver: ReceiverUnderTest, servers: Servers) -> None:
    body, headers = receiver.stripe("1")
    trailer = b"0\r\nStripe-Signature: " + headers["Stripe-Signature"].encode() + b"\r\n\r\n"
    with servers.publishing(0), receiver.wire() as wire:
        wire.send(head(b"Transfer-Encoding: chunked") + chunk(body) + trailer)
        answer = wire.expect_answer()
        assert (answer.status, answer.code) == (401, "signature_missing")


@pytest.mark.parametrize(
    "target", [b"http://x/webhooks/stripe", b"HTTPS://elsewhere:8443/webhooks/stripe?a=b", b"/webhooks/%73tripe"]
)
def test_a_target_may_be_absolute_or_escaped(receiver: ReceiverUnderTest, servers: Servers, target: bytes) -> None:
    whole = webhook(receiver, target.hex()[-12:]).replace(b"/webhooks/stripe", target, 1)
    with servers.publishing(1), receiver.wire() as wire:
        wire.send(whole)
        assert statuses(wire, 1) == [200]


@pytest.mark.parametrize("host", [b"Host: x:8080", b"Host: [::1]:8080", b"host:\tpay-hook_1.example.com  ", None])
def test_health_is_answered_to_any_host_and_in_http_1_0_to_none(
    receiver: ReceiverUnderTest, host: bytes | None
) -> None:
    version = b"1.0" if host is None else b"1.1"
    with receiver.wire() as wire:
        wire.send(head(line=b"GET /healthz HTTP/" + version, host=host))
        assert statuses(wire, 1) == [200]


def test_requests_in_a_row_are_answered_in_their_order(receiver: ReceiverUnderTest, servers: Servers) -> None:
    with servers.publishing(2), receiver.wire() as wire:
        wire.send(webhook(receiver, "1") + webhook(receiver, "2") + GET)
        answers = [wire.answer() for _ in range(3)]
        assert [answer.body for answer in answers if answer] == [b'{"status":"accepted"}'] * 2 + [b"ok\n"]
        assert wire.stays_open()


def test_what_follows_a_refused_request_is_not_run(receiver: ReceiverUnderTest, servers: Servers) -> None:
    refusals = [
        head(b"Content-Length: %d" % (MIB + 1)),
        head(line=b"GET /webhooks/stripe HTTP/1.1"),
        head(b"Content-Length: 2", b"Content-Encoding: gzip") + b"{}",
    ]
    with servers.publishing(0):
        for number, request in enumerate(refusals):
            with receiver.wire() as wire:
                wire.send(request + webhook(receiver, str(number)))
                answer = wire.expect_answer()
                assert answer.status in (405, 413, 415)
                assert wire.is_closed()


def test_what_follows_connection_close_is_not_run(receiver: ReceiverUnderTest, servers: Servers) -> None:
    with servers.publishing(1), receiver.wire() as wire:
        wire.send(webhook(receiver, "1", b"Connection: close") + webhook(receiver, "2"))
        assert statuses(wire, 1) == [200]
        with contextlib.suppress(ConnectionResetError):
            assert wire.is_closed()


def test_a_broken_request_is_answered_after_the_one_before_it(receiver: ReceiverUnderTest, servers: Servers) -> None:
    """At once, its 400 would be taken for the answer to the first."""
    with servers.publishing(1), receiver.wire() as wire:
        wire.send(webhook(receiver, "1") + b"GARBAGE\r\n\r\n")
        assert statuses(wire, 1) == [200]
        assert refused(wire)[0] in (400, 501)
        assert wire.is_closed()


def test_a_broken_body_in_a_row_is_answered_in_its_turn(receiver: ReceiverUnderTest, servers: Servers) -> None:
    broken = head(b"Transfer-Encoding: chunked") + b"zz\r\n"
    with servers.publishing(2), receiver.wire() as wire:
        wire.send(webhook(receiver, "1") + webhook(receiver, "2") + broken + webhook(receiver, "3"))
        assert statuses(wire, 2) == [200, 200]
        assert refused(wire) == (400, "malformed")
        assert wire.is_closed()


def test_a_body_that_breaks_off_in_the_middle_is_refused_at_once(receiver: ReceiverUnderTest, servers: Servers) -> None:
    with servers.publishing(0), receiver.wire() as wire:
        wire.send(head(b"Transfer-Encoding: chunked") + chunk(b"{}"), b"zz\r\n", pause_s=0.1)
        assert refused(wire) == (400, "malformed")
        assert wire.is_closed()


def test_of_too_many_requests_in_a_row_the_first_are_answered(receiver: ReceiverUnderTest) -> None:
    with receiver.wire() as wire:
        wire.send(GET * 60)
        answered = 0
        while (answer := wire.answer()) is not None and answer.status == 200:
            answered += 1
        assert answer is not None
        assert (answer.status, answer.code, answer.headers["retry-after"]) == (429, "too_many_pipelined", "1")
        assert 1 <= answered <= 20
        assert wire.is_closed()


@ANOTHER_WAY
def test_a_body_that_nobody_reads_is_not_waited_for(receiver: ReceiverUnderTest) -> None:
    with receiver.wire() as wire:
        wire.send(head(b"Content-Length: 1000", line=b"GET /healthz HTTP/1.1") + b"x")
        assert statuses(wire, 1) == [200]
        assert wire.is_closed()


def test_one_connection_too_many_takes_the_place_of_the_one_that_was_idle_longest(servers: Servers) -> None:
    few = replace(PATIENT, connections_max=3, in_flight_max=2)
    with receiver_on(servers, few) as receiver, contextlib.ExitStack() as held:
        assert wait_for(lambda: connections(receiver) == 0, 60), "what asked whether it is ready has gone"
        wires = [held.enter_context(receiver.wire()) for _ in range(3)]
        for wire in (wires[1], wires[0], wires[2]):
            wire.send(GET)
            assert statuses(wire, 1) == [200]
        with receiver.wire() as fourth:
            fourth.send(GET)
            assert statuses(fourth, 1) == [200]
            assert wires[1].is_closed()
            wires[0].send(GET)
            assert statuses(wires[0], 1) == [200]


@ANOTHER_WAY
def test_an_unfinished_head_that_makes_way_is_told_to_come_again(servers: Servers) -> None:
    few = replace(PATIENT, connections_max=3, in_flight_max=2)
    with receiver_on(servers, few) as receiver, contextlib.ExitStack() as held:
        assert wait_for(lambda: connections(receiver) == 0, 60), "what asked whether it is ready has gone"
        wires = [held.enter_context(receiver.wire()) for _ in range(3)]
        for wire in wires:
            wire.send(b"POST /webhooks/stripe HTTP/1.1\r\nX-Sl")
            time.sleep(STILL_OPEN_S)
        newer = held.enter_context(receiver.wire())
        newer.send(GET)
        answer = wires[0].expect_answer()
        assert (answer.status, answer.code, answer.headers["retry-after"]) == (503, "too_many_connections", "2")
        assert wires[0].is_closed()
        assert statuses(newer, 1) == [200]
        reported = httpx2.get(f"{receiver.metrics_url}/metrics").text
        assert 'payhook_ingest_refusals_total{provider="unknown",reason="too_many_connections"} 1.0' in reported
        log = (servers.folder / f"ingest-{urlparse(receiver.url).port}.log").read_text()
        [line] = [line for line in log.splitlines() if "answered 503 too_many_connections" in line]
        assert "of them of 127.0.0.1" in line and REMEDIES["too_many_connections"] in line


def connections(receiver: ReceiverUnderTest) -> int:
    """Those to the receiver's port that its processes hold."""
    port = urlparse(receiver.url).port
    sockets = sockets_of(receiver.process.process_id, "tcp")
    return sum(held.laddr.port == port and held.status != psutil.CONN_LISTEN for held in sockets)


def test_what_no_application_sees_is_counted(receiver: ReceiverUnderTest) -> None:
    def counted() -> float:
        name = 'payhook_ingest_refusals_total{provider="unknown",reason="wrong_host"}'
        return metric(receiver.metrics_url, name)

    before = counted()
    with receiver.wire() as wire:
        wire.send(head(host=None))
        assert refused(wire) == (400, "wrong_host")
    assert counted() == before + 1
