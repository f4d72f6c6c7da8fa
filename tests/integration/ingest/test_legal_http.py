"""HTTP that is legal though few write it so: taken as the plain form is, and what follows on the connection too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.ingest.conftest import ReceiverUnderTest, Servers
from tests.integration.ingest.wire import LAST_CHUNK, chunk, head

OFFER = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA")
"""Of HTTP/2, as clients on a JVM send it (RFC 9110, section 7.8: a server may ignore it)."""

Made = Callable[[bytes, bytes], bytes]
"""A request from a signed body and the value of its signature."""


def sized(*fields: bytes, signature: bytes = b"Stripe-Signature: %b", **more: bytes) -> Made:
    return lambda body, value: head(signature % value, b"Content-Length: %d" % len(body), *fields, **more) + body


def in_chunks(*fields: bytes) -> Made:
    return lambda body, value: (
        head(b"Stripe-Signature: %b" % value, b"Transfer-Encoding: chunked", *fields) + chunk(body) + LAST_CHUNK
    )


LEGAL: dict[str, Made] = {
    "a blank behind the signature": sized(signature=b"Stripe-Signature: %b "),
    "a tab behind the signature": sized(signature=b"Stripe-Signature:\t%b\t"),
    "a blank behind the length": lambda body, value: (
        head(b"Stripe-Signature: %b" % value, b"Content-Length: %d \t" % len(body)) + body
    ),
    "a length with leading zeros": lambda body, value: (
        head(b"Stripe-Signature: %b" % value, b"Content-Length: " + b"0" * 20 + b"%d" % len(body)) + body
    ),
    "a blank behind the type": sized(b"Content-Type: application/json \t"),
    "a blank before the type's semicolon": sized(b"Content-Type: application/json ; charset=utf-8"),
    "an empty parameter": sized(b"Content-Type: application/json; charset=utf-8;"),
    "a quoted charset": sized(b'Content-Type: application/json;charset="UTF-8"'),
    "a charset behind another parameter": sized(b'Content-Type: application/json; profile="a;b"; charset=utf-8'),
    "a charset that is a part of UTF-8": sized(b"Content-Type: application/json; charset=US-ASCII"),
    "a type twice in one field": sized(b"Content-Type: application/json, application/json; charset=utf-8"),
    "a type in two fields": sized(b"Content-Type: application/json", b"Content-Type: Application/Json"),
    "a host with an empty port": sized(host=b"Host: x:"),
    "a host whose port has leading zeros": sized(host=b"Host: x:00008080"),
    "a host by a version of IP that is yet to come": sized(host=b"Host: [v1F.fe80::a+en1]:8080"),
    "a host whose name is encoded": sized(host=b"Host: hooks%2Dof!shop~1"),
    "an absolute target whose host is encoded": sized(line=b"POST http://hooks%2Dof:/webhooks/stripe HTTP/1.1"),
    "another parameter": sized(b"Content-Type: application/json; version=1"),
    "a type in capitals": sized(b"Content-Type: Application/JSON"),
    "identity": sized(b"Content-Encoding: identity"),
    "a blank behind identity": sized(b"Content-Encoding: identity\t"),
    "identity twice": sized(b"Content-Encoding: identity, identity"),
    "identity in two fields": sized(b"Content-Encoding: identity", b"Content-Encoding: Identity"),
    "identity and an empty member": sized(b"Content-Encoding: , identity,"),
    "no coding": sized(b"Content-Encoding: "),
    "a charset for a coding": sized(b"Content-Encoding: UTF-8"),
    "HTTP/2 by upgrade": sized(*OFFER),
    "HTTP/2 by upgrade, in chunks": in_chunks(*OFFER),
    "a websocket by upgrade": sized(b"Connection: keep-alive, Upgrade", b"Upgrade: websocket"),
    "TLS by upgrade": sized(b"Upgrade: TLS/1.2, HTTP/2.0", b"Connection: upgrade"),
    "an expectation with an empty member": sized(b"Expect: 100-continue,"),
}


def signed(receiver: ReceiverUnderTest, name: str) -> tuple[bytes, bytes]:
    body, headers = receiver.stripe(name.replace(" ", "-").replace(",", "").replace("/", "").replace("'", ""))
    return body, headers["Stripe-Signature"].encode()


@pytest.mark.parametrize("name", LEGAL, ids=[name.replace(" ", "_") for name in LEGAL])
@pytest.mark.parametrize("piece_bytes", [1 << 20, 41], ids=["whole", "in_pieces"])
def test_it_is_taken_and_so_is_what_follows(
    receiver: ReceiverUnderTest, servers: Servers, name: str, piece_bytes: int
) -> None:
    """The same request twice on one connection: published once, as the second is a redelivery of the first."""
    request = LEGAL[name](*signed(receiver, f"{name} {piece_bytes}"))
    with servers.publishing(1), receiver.wire() as wire:
        for request_bytes in (request, request):
            wire.send(*(request_bytes[at : at + piece_bytes] for at in range(0, len(request_bytes), piece_bytes)))
            while (answer := wire.expect_answer()).status == 100:
                pass
            assert (answer.status, answer.says_that_it_closes) == (200, False)


def test_requests_behind_an_offer_are_read_where_it_ends(receiver: ReceiverUnderTest, servers: Servers) -> None:
    """All in one packet: with a body in a length, in chunks, and without the offer."""
    made = (sized(*OFFER), in_chunks(*OFFER), sized(), sized(*OFFER))
    requests = [one(*signed(receiver, f"pipelined {number}")) for number, one in enumerate(made)]
    with servers.publishing(len(made)), receiver.wire() as wire:
        wire.send(b"".join(requests))
        answers = [wire.expect_answer() for _ in made]
    assert [answer.status for answer in answers] == [200] * len(made)


@pytest.mark.parametrize(
    ("row", "status", "code"),
    [
        (lambda body, value: head(line=b"CONNECT x:443 HTTP/1.1"), 501, "unknown_method"),
        (sized(*OFFER, b"Transfer-Encoding: chunked"), 400, "malformed"),
        (sized(*OFFER, b"Content-Encoding: gzip"), 415, "encoded"),
        (sized(*OFFER, *[b"A: b"] * 101), 431, "too_many_headers"),
        (sized(*OFFER, b"A: " + b"b" * 17_000), 431, "head_too_large"),
        (sized(*OFFER, signature=b"Stripe-Signature: x%b"), 401, "signature_malformed"),
    ],
    ids=["connect", "length_and_chunks", "encoded", "101_headers", "large_head", "forged"],
)
def test_an_offer_opens_no_way_around_what_is_refused(
    receiver: ReceiverUnderTest, servers: Servers, row: Made, status: int, code: str
) -> None:
    with servers.publishing(0), receiver.wire() as wire:
        wire.send(row(*signed(receiver, code)))
        answer = wire.expect_answer()
        assert (answer.status, answer.code) == (status, code)
