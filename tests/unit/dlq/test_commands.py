"""Commands: what goes in comes out, and nothing else is taken."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from dlq.commands import (
    COMMAND_BYTES_MAX,
    REVERSALS_MAX,
    TARGETS_MAX,
    Command,
    CommandInvalid,
    CommandNotSent,
    Sent,
    Target,
    approve,
    decode,
    encode,
    propose_reversal,
    replay,
    send,
)

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


def command() -> Command:
    return Command("c1", "ledger", "replay", (Target(7, 9), Target(8, 8)), "ada", "directory mended", AT)


def test_a_command_survives_the_topic() -> None:
    assert decode(encode(command())) == command()


def test_the_largest_command_fits_into_a_kafka_record() -> None:
    targets = [Target(2**62 + number, 2**63 - 1) for number in range(TARGETS_MAX)]
    assert len(encode(replay("ledger", targets, "a" * 500, "r" * 500, AT))) < COMMAND_BYTES_MAX


def test_each_new_command_has_an_id_of_its_own() -> None:
    ids = {replay("ledger", [Target(1, 1)], "ada", "again", AT).command_id for _ in range(3)}
    assert len(ids) == 3


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("action", "purge-everything"),
        ("actor", ""),
        ("actor", 7),
        ("reason", "x" * 501),
        ("reason", "a\nb"),
        ("at", "2026-01-31T12:00:00"),
        ("at", "noon"),
        ("targets", []),
        ("targets", "7"),
        ("targets", [[9, 7]]),
        ("targets", [[0, 7]]),
        ("targets", [[True, 7]]),
        ("targets", [[1.0, 7]]),
        ("targets", [[1, 7, 8]]),
        ("targets", [[1, 7], [1, 8]]),
        ("targets", [[1, 2**63]]),
        ("targets", [[number, number] for number in range(1, TARGETS_MAX + 2)]),
        ("extra", 1),
    ],
)
def test_what_is_not_a_command_is_refused(field: str, value: object) -> None:
    tree: dict[str, Any] = json.loads(encode(command()))
    with pytest.raises(CommandInvalid):
        decode(json.dumps(tree | {field: value}).encode())


@pytest.mark.parametrize("raw", [b"", b"[]", b"\xff", b"{", b"[" * 100_000, b"x" * (COMMAND_BYTES_MAX + 1), b"{}"])
def test_bytes_that_are_no_command_are_refused(raw: bytes) -> None:
    with pytest.raises(CommandInvalid):
        decode(raw)


class Acknowledged:
    """Kafka's word of a record."""

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 41


class FakeProducer:
    """Acknowledges with an error, without one, or never."""

    def __init__(self, deliver: Callable[[Any], None] | None) -> None:
        self._deliver = deliver
        self.sent: list[tuple[str, bytes, bytes]] = []
        self._callback: Any = None

    def produce(self, topic: str, value: bytes, key: bytes, on_delivery: Any) -> None:
        self.sent.append((topic, value, key))
        self._callback = on_delivery

    def flush(self, timeout: float) -> int:
        if self._deliver is not None:
            self._deliver(self._callback)
        return 0


def test_a_command_is_sent_when_kafka_says_so() -> None:
    producer = FakeProducer(lambda callback: callback(None, Acknowledged()))
    assert send(producer, command()) == Sent("payments.control", 0, 41)
    assert producer.sent == [("payments.control", encode(command()), b"c1")]


@pytest.mark.parametrize("deliver", [None, lambda callback: callback("broker down", None)])
def test_a_command_without_an_acknowledgement_is_an_error(deliver: Callable[[Any], None] | None) -> None:
    with pytest.raises(CommandNotSent, match="send it again"):
        send(FakeProducer(deliver), command())


def proposed() -> Command:
    return propose_reversal("ledger", [Target(7, 9)], "ada", "captured twice", AT)


def test_an_approval_carries_the_proposal_whole() -> None:
    approval = approve(proposed(), "bob", "checked", AT)
    told = decode(encode(approval))
    assert told == approval
    assert told.proposed.action == "propose_reversal"
    assert (told.proposed.actor, told.proposed.targets) == ("ada", approval.targets)


def test_what_an_approval_approves_has_the_bytes_that_were_sent() -> None:
    first = proposed()
    assert encode(decode(encode(approve(first, "bob", "checked", AT))).proposed) == encode(first)


@pytest.mark.parametrize(
    "proposal",
    [
        None,
        {},
        "c1",
        {"command_id": "c1", "actor": "ada", "reason": "r"},
        {"command_id": 1, "actor": "a", "reason": "r"},
    ],
)
def test_an_approval_of_nothing_is_refused(proposal: object) -> None:
    tree: dict[str, Any] = json.loads(encode(approve(proposed(), "bob", "checked", AT)))
    with pytest.raises(CommandInvalid):
        decode(json.dumps(tree | {"proposal": proposal}).encode())


def test_only_an_approval_has_a_proposal() -> None:
    tree: dict[str, Any] = json.loads(encode(approve(proposed(), "bob", "checked", AT)))
    with pytest.raises(CommandInvalid):
        decode(json.dumps(tree | {"action": "replay"}).encode())


def test_a_reversal_of_too_many_bookings_is_refused() -> None:
    targets = [Target(number, number) for number in range(1, REVERSALS_MAX + 2)]
    with pytest.raises(CommandInvalid, match=f"1 to {REVERSALS_MAX} pairs"):
        encode(propose_reversal("ledger", targets, "ada", "all of them", AT))
