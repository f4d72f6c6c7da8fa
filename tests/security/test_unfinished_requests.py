"""Connections that announce a body and never send it keep no webhook out."""

from __future__ import annotations

import contextlib

import pytest

from tests.integration.ingest.conftest import ReceiverUnderTest
from tests.integration.ingest.wire import head

SOCKETS = 300
MEBIBYTE = 1 << 20


@pytest.mark.parametrize("sent", [0, 200_000])
@pytest.mark.parametrize("path", ["/webhooks/stripe", "/webhooks/nobodys"])
def test_webhooks_are_taken_beside_them(receiver: ReceiverUnderTest, path: str, sent: int) -> None:
    """300 of 200 KB are as much as all bodies may be together."""
    with contextlib.ExitStack() as held:
        for _ in range(SOCKETS):
            wire = held.enter_context(receiver.wire())
            line = f"POST {path} HTTP/1.1".encode()
            wire.send(head(b"Content-Length: %d" % MEBIBYTE, line=line) + b"x" * sent)
        answers = [receiver.post(receiver.stripe(f"beside-{sent}-{number}")) for number in range(33)]
    assert [answer.status_code for answer in answers] == [200] * 33


def test_an_unknown_provider_is_refused_before_its_body_is_read(receiver: ReceiverUnderTest) -> None:
    with receiver.wire() as wire:
        wire.send(head(b"Content-Length: %d" % MEBIBYTE, line=b"POST /webhooks/nobodys HTTP/1.1"))
        answer = wire.answer()
        assert answer is not None
        assert (answer.status, answer.code) == (404, "unknown_provider")
