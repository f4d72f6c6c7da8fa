"""Connections that announce a body and never send it keep no webhook out."""

from __future__ import annotations

import contextlib

import pytest

from tests.integration.ingest.conftest import ReceiverUnderTest
from tests.integration.ingest.wire import head

MEBIBYTE = 1 << 20


MORE = pytest.mark.more(reason="more of the same: 300 that send nothing are an everyday test")


@pytest.mark.parametrize(
    ("sockets", "sent"), [(300, 0), pytest.param(600, 0, marks=MORE), pytest.param(300, 200_000, marks=MORE)]
)
@pytest.mark.parametrize("path", ["/webhooks/stripe", "/webhooks/nobodys"])
def test_webhooks_are_taken_beside_them(receiver: ReceiverUnderTest, path: str, sockets: int, sent: int) -> None:
    """600 are more than may be under way, 300 of 200 KB as much as all bodies may be together."""
    with contextlib.ExitStack() as held:
        for _ in range(sockets):
            wire = held.enter_context(receiver.wire())
            line = f"POST {path} HTTP/1.1".encode()
            wire.send(head(b"Content-Length: %d" % MEBIBYTE, line=line) + b"x" * sent)
        answers = [receiver.post(receiver.stripe(f"beside-{sockets}-{sent}-{number}")) for number in range(33)]
    assert [answer.status_code for answer in answers] == [200] * 33


def test_a_burst_whose_bodies_come_after_all_heads_is_taken(receiver: ReceiverUnderTest) -> None:
    """As redeliveries come, from one address: many clients send head and body apart."""
    signed = [receiver.stripe(f"burst-{number}") for number in range(300)]
    with contextlib.ExitStack() as held:
        wires = [held.enter_context(receiver.wire()) for _ in signed]
        for wire, (body, headers) in zip(wires, signed, strict=True):
            fields = [f"{name}: {value}".encode() for name, value in headers.items()]
            wire.send(head(b"Content-Length: %d" % len(body), *fields))
        for wire, (body, _) in zip(wires, signed, strict=True):
            wire.send(body)
        answers = [wire.answer() for wire in wires]
    assert [answer.status for answer in answers if answer] == [200] * 300


def test_an_unknown_provider_is_refused_before_its_body_is_read(receiver: ReceiverUnderTest) -> None:
    with receiver.wire() as wire:
        wire.send(head(b"Content-Length: %d" % MEBIBYTE, line=b"POST /webhooks/nobodys HTTP/1.1"))
        answer = wire.expect_answer()
        assert (answer.status, answer.code) == (404, "unknown_provider")
