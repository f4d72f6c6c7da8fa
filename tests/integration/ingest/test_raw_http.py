"""HTTP that isn't, or isn't clearly: each refused with its status, over a raw socket, and nothing reaches Kafka.

Every webhook in here is signed and would be taken if it came in plain HTTP/1.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.integration.ingest.conftest import ReceiverUnderTest, Servers
from tests.integration.ingest.wire import LAST_CHUNK, chunk, head

Row = Callable[[bytes, bytes], bytes]
"""A request from a signed body and the header field with its signature."""
Table = Mapping[str, Row | tuple[Row, int, str]]
"""By name, with the status and code of the refusal where they aren't 400 ``malformed``."""

CHUNKED = b"Transfer-Encoding: chunked"
HOST = b"Host: x"
POST = b"POST /webhooks/stripe HTTP/1.1"


def sized(body: bytes) -> bytes:
    return b"Content-Length: %d" % len(body)


def with_fields(*fields: bytes, host: bytes | None = HOST) -> Row:
    """A webhook in order but for these fields."""
    return lambda body, signature: head(signature, sized(body), *fields, host=host) + body


def with_line(line: bytes) -> Row:
    return lambda body, signature: head(signature, sized(body), line=line) + body


def chunked(*fields: bytes, pieces: Callable[[bytes], bytes] | None = None) -> Row:
    """A webhook in chunks; ``pieces`` makes them of its body."""
    made = pieces or (lambda body: chunk(body) + LAST_CHUNK)
    return lambda body, signature: head(signature, *(fields or (CHUNKED,))) + made(body)


def replaced(old: bytes, new: bytes) -> Row:
    """A webhook in order, with some bytes of its head written in another way."""

    def row(body: bytes, signature: bytes) -> bytes:
        whole = head(signature, sized(body), b"X-One: 1")
        assert old in whole
        return whole.replace(old, new) + body

    return row


LENGTHS: Table = {
    "a length and chunks": lambda body, signature: head(signature, sized(body), CHUNKED) + chunk(body) + LAST_CHUNK,
    "chunks and a length": lambda body, signature: head(signature, CHUNKED, sized(body)) + chunk(body) + LAST_CHUNK,
    "a length that ends before the chunks do": lambda body, signature: (
        head(signature, b"Content-Length: 4", CHUNKED) + chunk(body) + LAST_CHUNK
    ),
    "two lengths that differ": with_fields(b"Content-Length: 1"),
    "two lengths that agree": lambda body, signature: head(signature, sized(body), sized(body)) + body,
    "two lengths in one field": lambda body, signature: head(signature, sized(body) + b", %d" % len(body)) + body,
    "a length with a sign": lambda body, signature: head(signature, b"Content-Length: +%d" % len(body)) + body,
    "a negative length": lambda body, signature: head(signature, b"Content-Length: -1") + body,
    "a hexadecimal length": lambda body, signature: head(signature, b"Content-Length: 0x%x" % len(body)) + body,
    "an empty length": lambda body, signature: head(signature, b"Content-Length:") + body,
    "a length beyond 64 bits": lambda body, signature: head(signature, b"Content-Length: " + b"9" * 30) + body,
    "another coding": (chunked(b"Transfer-Encoding: gzip"), 400, "wrong_coding"),
    "another coding in chunks": (chunked(b"Transfer-Encoding: gzip, chunked"), 501, "unknown_coding"),
    "identity in chunks": (chunked(b"Transfer-Encoding: identity, chunked"), 501, "unknown_coding"),
    "chunks that are coded": chunked(b"Transfer-Encoding: chunked, gzip"),
    "chunks twice over": chunked(b"Transfer-Encoding: chunked, chunked"),
    "chunks twice over, in two fields": chunked(CHUNKED, CHUNKED),
    "nearly chunks": (chunked(b"Transfer-Encoding: xchunked"), 400, "wrong_coding"),
    "chunks in quotes": (chunked(b'Transfer-Encoding: "chunked"'), 400, "wrong_coding"),
    "chunks behind a vertical tab": chunked(b"Transfer-Encoding: \x0bchunked"),
    "chunks behind an empty field": chunked(b"Transfer-Encoding:", CHUNKED),
    "chunks with a blank before the colon": chunked(b"Transfer-Encoding : chunked"),
    "chunks in HTTP/1.0": (
        lambda body, signature: (
            head(signature, CHUNKED, line=b"POST /webhooks/stripe HTTP/1.0") + chunk(body) + LAST_CHUNK
        ),
        400,
        "wrong_coding",
    ),
}

CHUNKS: Table = {
    name: chunked(pieces=pieces)
    for name, pieces in {
        "a size that is no number": lambda body: b"g\r\n" + body + b"\r\n" + LAST_CHUNK,
        "a size with 0x": lambda body: b"0x%x\r\n" % len(body) + body + b"\r\n" + LAST_CHUNK,
        "a size with a sign": lambda body: b"+%x\r\n" % len(body) + body + b"\r\n" + LAST_CHUNK,
        "a negative size": lambda body: b"-1\r\n" + body + b"\r\n" + LAST_CHUNK,
        "a size with a blank after it": lambda body: b"%x \r\n" % len(body) + body + b"\r\n" + LAST_CHUNK,
        "a size with a blank before it": lambda body: b" %x\r\n" % len(body) + body + b"\r\n" + LAST_CHUNK,
        "no size": lambda body: b"\r\n" + body + b"\r\n" + LAST_CHUNK,
        "a size that ends in a bare LF": lambda body: b"%x\n" % len(body) + body + b"\r\n" + LAST_CHUNK,
        "a size beyond 64 bits": lambda body: b"1%016x\r\n" % len(body) + body + b"\r\n" + LAST_CHUNK,
        "more bytes than the size says": lambda body: b"4\r\n" + body + b"\r\n" + LAST_CHUNK,
        "a chunk that ends in a bare LF": lambda body: b"%x\r\n" % len(body) + body + b"\n" + LAST_CHUNK,
        "an extension that ends in a bare LF": lambda body: b"%x;a=b\n" % len(body) + body + b"\r\n" + LAST_CHUNK,
        "an extension with a bare CR in it": lambda body: b"%x;a\rb\r\n" % len(body) + body + b"\r\n" + LAST_CHUNK,
        "a trailer with a bare LF": lambda body: chunk(body) + b"0\r\nA: b\n\r\n",
    }.items()
} | {
    "a trailer that names a host": (
        chunked(pieces=lambda body: chunk(body) + b"0\r\nHost: y\r\n\r\n"),
        400,
        "forbidden_trailer",
    ),
    "a trailer that names a type": (
        chunked(pieces=lambda body: chunk(body) + b"0\r\nContent-Type: text/html\r\n\r\n"),
        400,
        "forbidden_trailer",
    ),
    "a trailer that names a length": chunked(pieces=lambda body: chunk(body) + b"0\r\nContent-Length: 4\r\n\r\n"),
    "a flood of trailers": (
        chunked(pieces=lambda body: chunk(body) + b"0\r\n" + b"A: b\r\n" * 500 + b"\r\n"),
        431,
        "too_many_headers",
    ),
    "a flood of extensions": (
        chunked(pieces=lambda body: chunk(body[:4], b";a=" + b"b" * 60_000) + chunk(body[4:]) + LAST_CHUNK),
        400,
        "chunk_overhead",
    ),
    "chunks of a byte with extensions": (
        chunked(pieces=lambda body: b"".join(chunk(b"x", b";" + b"a" * 40) for _ in range(2_000))),
        400,
        "chunk_overhead",
    ),
    "leading zeros without end": (
        chunked(pieces=lambda body: b"0" * 60_000 + chunk(body) + LAST_CHUNK),
        400,
        "chunk_overhead",
    ),
}

LINES: Table = {
    "bare LFs": replaced(b"\r\n", b"\n"),
    "one bare LF after a field": replaced(b"X-One: 1\r\n", b"X-One: 1\n"),
    "a bare LF at the end of the head": replaced(b"\r\n\r\n", b"\r\n\n"),
    "a bare CR in a value": replaced(b"X-One: 1", b"X-One: 1\rHost: y"),
    "a field folded with a blank": replaced(b"X-One: 1", b"X-One: 1\r\n 2"),
    "a field folded with a tab": replaced(b"X-One: 1", b"X-One: 1\r\n\t2"),
    "a fold before the first field": replaced(b"\r\nHost", b"\r\n Host"),
    "NUL in a value": replaced(b"X-One: 1", b"X-One: 1\x002"),
    "a control character in a value": replaced(b"X-One: 1", b"X-One: \x01"),
    "DEL in a value": replaced(b"X-One: 1", b"X-One: \x7f"),
    "NUL in a name": replaced(b"X-One", b"X-\x00One"),
    "a blank in a name": replaced(b"X-One", b"X One"),
    "a blank before the colon": replaced(b"X-One:", b"X-One :"),
    "a non-ASCII name": replaced(b"X-One", b"X-\xc3\xb6ne"),
    "no name": replaced(b"X-One: 1", b": 1"),
    "no colon": replaced(b"X-One: 1", b"X-One"),
    "no version": (lambda body, signature: b"POST /webhooks/stripe\r\n\r\n", 505, "wrong_version"),
    "HTTP/0.9": (with_line(b"POST /webhooks/stripe HTTP/0.9"), 505, "wrong_version"),
    "HTTP/1.9": (with_line(b"POST /webhooks/stripe HTTP/1.9"), 505, "wrong_version"),
    "HTTP/2.0": (with_line(b"POST /webhooks/stripe HTTP/2.0"), 505, "wrong_version"),
    "HTTP/3.0": (with_line(b"POST /webhooks/stripe HTTP/3.0"), 505, "wrong_version"),
    "HTTP/2's preface": (lambda body, signature: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "wrong_version"),
    "http in small letters": with_line(b"POST /webhooks/stripe http/1.1"),
    "another protocol": with_line(b"POST /webhooks/stripe SMTP/1.1"),
    "TLS": lambda body, signature: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xa5" * 200,
    "a blank before the method": with_line(b" " + POST),
    "a method that nobody knows": (with_line(b"FROB /webhooks/stripe HTTP/1.1"), 501, "unknown_method"),
    "a method in small letters": (with_line(b"post /webhooks/stripe HTTP/1.1"), 501, "unknown_method"),
    "CONNECT": (lambda body, signature: head(line=b"CONNECT x:443 HTTP/1.1"), 501, "unknown_method"),
    "a target that is a host": with_line(b"POST x:443 HTTP/1.1"),
    "a target that is a star": (lambda body, signature: head(line=b"OPTIONS * HTTP/1.1"), 400, "wrong_target"),
    "a target with a name and password": (
        with_line(b"POST http://a:b@x/webhooks/stripe HTTP/1.1"),
        400,
        "wrong_target",
    ),
    "a target of another scheme": (with_line(b"POST ftp://x/webhooks/stripe HTTP/1.1"), 400, "wrong_target"),
    "a target with a fragment": (with_line(b"POST /webhooks/stripe#a HTTP/1.1"), 400, "wrong_target"),
    "a target outside ASCII": with_line(b"POST /webhooks/stripe\xff HTTP/1.1"),
    "NUL in the target": with_line(b"POST /webhooks/stripe\x00 HTTP/1.1"),
    "a target of 3 KB": (with_line(b"POST /webhooks/stripe?%b HTTP/1.1" % (b"a" * 3_000)), 414, "target_too_long"),
    "a target of 100 KB": (with_line(b"POST /webhooks/stripe?%b HTTP/1.1" % (b"a" * 100_000)), 414, "target_too_long"),
    "no host": (with_fields(host=None), 400, "wrong_host"),
    "an empty host": (with_fields(host=b"Host: "), 400, "wrong_host"),
    "two hosts": (with_fields(b"Host: y"), 400, "wrong_host"),
    "two hosts that agree": (with_fields(HOST), 400, "wrong_host"),
    "two hosts in HTTP/1.0": (
        lambda body, signature: head(HOST, signature, sized(body), line=b"POST /webhooks/stripe HTTP/1.0") + body,
        400,
        "wrong_host",
    ),
    "a host that is a list": (with_fields(host=b"Host: x, y"), 400, "wrong_host"),
    "a host that is a list without blanks": (with_fields(host=b"Host: x,y"), 400, "wrong_host"),
    "a host with half an encoded character": (with_fields(host=b"Host: x%2"), 400, "wrong_host"),
    "two types": (with_fields(b"Content-Type: application/json, text/plain"), 415, "wrong_type"),
    "two types in two fields": (
        with_fields(b"Content-Type: application/json", b"Content-Type: text/plain"),
        415,
        "wrong_type",
    ),
    "a host with a path": (with_fields(host=b"Host: x/y"), 400, "wrong_host"),
    "a host with a name and password": (with_fields(host=b"Host: a:b@x"), 400, "wrong_host"),
    "a host with a port that is none": (with_fields(host=b"Host: x:http"), 400, "wrong_host"),
    "a host outside ASCII": (with_fields(host=b"Host: \xc3\xb6"), 400, "wrong_host"),
    "101 headers": (with_fields(*[b"A: b"] * 101), 431, "too_many_headers"),
    "2,000 headers": (with_fields(*[b"A: b"] * 2_000), 431, "too_many_headers"),
    "a header of 17 KB": (with_fields(b"A: " + b"b" * 17_000), 431, "head_too_large"),
    "headers of 17 KB": (with_fields(*[b"A: " + b"b" * 1_000] * 17), 431, "head_too_large"),
    "a header without end": (lambda body, signature: head()[:-2] + b"A: " + b"b" * 200_000, 431, "head_too_large"),
    "an expectation that nobody knows": (with_fields(b"Expect: payment"), 417, "unknown_expectation"),
}


@pytest.fixture(scope="module", autouse=True)
def nothing_is_published(shared_receiver: ReceiverUnderTest, servers: Servers) -> Iterator[None]:
    with servers.publishing(0):
        yield


def rows(*tables: Table) -> pytest.MarkDecorator:
    rows = [(name, row) for table in tables for name, row in table.items()]
    named = [(name, *(row if isinstance(row, tuple) else (row, 400, "malformed"))) for name, row in rows]
    return pytest.mark.parametrize(
        ("row", "status", "code"), [each[1:] for each in named], ids=[each[0].replace(" ", "_") for each in named]
    )


def signed(receiver: ReceiverUnderTest) -> tuple[bytes, bytes]:
    body, headers = receiver.stripe("1")
    return body, b"Stripe-Signature: " + headers["Stripe-Signature"].encode()


@rows(LENGTHS, CHUNKS, LINES)
def test_what_is_not_clearly_http_is_refused_and_the_connection_ends(
    receiver: ReceiverUnderTest, row: Row, status: int, code: str
) -> None:
    with receiver.wire() as wire:
        wire.send(row(*signed(receiver)))
        answer = wire.expect_answer()
        assert (answer.status, answer.code) == (status, code)
        assert answer.says_that_it_closes
        assert wire.is_closed()


@rows({name: row for name, row in {**LENGTHS, **CHUNKS}.items() if not isinstance(row, tuple) or row[1] == 400})
def test_what_hides_behind_it_is_not_run(receiver: ReceiverUnderTest, row: Row, status: int, code: str) -> None:
    """The second request is what a smuggler is after: in order, signed, on the same connection."""
    body, signature = signed(receiver)
    with receiver.wire() as wire:
        wire.send(row(body, signature) + head(signature, sized(body)) + body)
        answer = wire.expect_answer()
        assert answer.status == status
        assert wire.is_closed()


@rows(
    {name: LINES[name] for name in ("one bare LF after a field", "a field folded with a blank", "no host", "HTTP/0.9")}
)
def test_it_makes_no_difference_how_the_bytes_come(
    receiver: ReceiverUnderTest, row: Row, status: int, code: str
) -> None:
    whole = row(*signed(receiver))
    with receiver.wire() as wire:
        wire.send(*(whole[at : at + 7] for at in range(0, 140, 7)), whole[140:], pause_s=0.002)
        answer = wire.expect_answer()
        assert (answer.status, answer.code) == (status, code)
        assert wire.is_closed()
