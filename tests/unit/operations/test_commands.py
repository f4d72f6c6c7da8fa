"""Commands: what goes in comes out, and nothing else is taken."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from journal.target import ItemTarget
from operations.command import (
    COMMAND_BYTES_MAX,
    PROPOSE_REVERSAL,
    PROPOSE_RUN,
    REPLAY,
    REVERSALS_MAX,
    RUN,
    RUN_ACTS,
    TARGETS_MAX,
    Command,
    CommandInvalid,
    ReplayMode,
    approve,
    target_of_text,
)
from operations.commands import CommandNotSent, SentCommand, decode, encode, send
from tests.unit.dlq.publishing import Acknowledged

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


LINEAGE, HASH = "1" * 32, "0123456789abcdef"


def seen(item_seq: int, seen_seq: int) -> ItemTarget:
    return ItemTarget(item_seq, seen_seq, HASH)


def command() -> Command:
    return Command("c1", "ledger", LINEAGE, "replay", (seen(7, 9), seen(8, 8)), "ada", "directory mended", AT)


def test_a_command_survives_the_topic() -> None:
    assert decode(encode(command())) == command()


def test_the_largest_command_fits_into_a_kafka_record() -> None:
    targets = [seen(2**62 + number, 2**63 - 1) for number in range(TARGETS_MAX)]
    assert (
        len(encode(Command.with_new_id("ledger", LINEAGE, REPLAY, targets, "a" * 500, "r" * 500, AT)))
        < COMMAND_BYTES_MAX
    )


def test_each_new_command_has_an_id_of_its_own() -> None:
    ids = {
        Command.with_new_id("ledger", LINEAGE, REPLAY, [seen(1, 1)], "ada", "again", AT).command_id for _ in range(3)
    }
    assert len(ids) == 3


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("action", "purge"),
        ("action", "purge-everything"),
        ("actor", ""),
        ("actor", 7),
        ("reason", "x" * 501),
        ("reason", "a\nb"),
        ("at", "2026-01-31T12:00:00"),
        ("at", "noon"),
        ("targets", []),
        ("targets", "7"),
        ("targets", [[9, 7, HASH]]),
        ("targets", [[0, 7, HASH]]),
        ("targets", [[True, 7, HASH]]),
        ("targets", [[1.0, 7, HASH]]),
        ("targets", [[1, 7]]),
        ("targets", [[1, 7, 8]]),
        ("targets", [[1, 7, HASH[1:]]]),
        ("targets", [[1, 7, HASH.upper()]]),
        ("targets", [[1, 7, HASH + "\n"]]),
        ("targets", [[1, 7, HASH, 8]]),
        ("targets", [[1, 7, HASH], [1, 8, HASH]]),
        ("targets", [[1, 2**63, HASH]]),
        ("targets", [[number, number, HASH] for number in range(1, TARGETS_MAX + 2)]),
        ("lineage", ""),
        ("lineage", None),
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


class CommandsProducer:
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
    producer = CommandsProducer(lambda callback: callback(None, Acknowledged(41)))
    assert send(producer, command()) == SentCommand("payments.control", 0, 41)
    assert producer.sent == [("payments.control", encode(command()), b"c1")]


@pytest.mark.parametrize("deliver", [None, lambda callback: callback("broker down", None)])
def test_a_command_without_an_acknowledgement_is_an_error(deliver: Callable[[Any], None] | None) -> None:
    with pytest.raises(CommandNotSent, match="send it again"):
        send(CommandsProducer(deliver), command())


def proposed() -> Command:
    return Command.with_new_id("ledger", LINEAGE, PROPOSE_REVERSAL, [seen(7, 9)], "ada", "captured twice", AT)


def test_an_approval_carries_the_proposal_whole() -> None:
    approval = approve(proposed(), "bob", "checked", AT)
    reported = decode(encode(approval))
    assert reported == approval
    assert reported.proposed_command.action == "propose_reversal"
    assert (reported.proposed_command.actor, reported.proposed_command.targets) == ("ada", approval.targets)


def test_what_an_approval_approves_has_the_bytes_that_were_sent() -> None:
    first = proposed()
    assert encode(decode(encode(approve(first, "bob", "checked", AT))).proposed_command) == encode(first)


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
        decode(json.dumps(tree | {"action": "propose_reversal"}).encode())


def test_a_reversal_of_too_many_bookings_is_refused() -> None:
    targets = [seen(number, number) for number in range(1, REVERSALS_MAX + 2)]
    with pytest.raises(CommandInvalid, match=f"1 to {REVERSALS_MAX} targets"):
        encode(Command.with_new_id("ledger", LINEAGE, PROPOSE_REVERSAL, targets, "ada", "all of them", AT))


SHORTEST_REPLAY = (
    b'{"action":"replay","actor":"ada","at":"2026-01-31T12:00:00.000000Z","command_id":"c1",'
    b'"lineage":"%s","reason":"directory mended",'
    b'"stream":"ledger","targets":[[7,9,"%s"],[8,8,"%s"]]}'
) % (LINEAGE.encode(), HASH.encode(), HASH.encode())


def test_what_a_command_does_not_say_is_not_in_its_bytes() -> None:
    assert encode(command()) == SHORTEST_REPLAY
    assert decode(SHORTEST_REPLAY) == command()


def test_a_target_without_its_rows_hash_is_reported_to_look_again() -> None:
    tree = json.loads(encode(command())) | {"targets": [[7, 9], [8, 8]]}
    with pytest.raises(CommandInvalid, match="list the items again"):
        decode(json.dumps(tree).encode())


def test_a_target_is_read_back_from_its_word() -> None:
    assert target_of_text(seen(7, 9).text) == seen(7, 9)
    for text in ("", "7", "7.9", f"9.7.{HASH}", f"0.7.{HASH}", f"07.9.{HASH}", f"7.9.{HASH}\n", f"7.{2**63}.{HASH}"):
        with pytest.raises(CommandInvalid):
            target_of_text(text)


def run(action: str = RUN, act: str = REPLAY, **options: Any) -> Command:
    return Command(
        "c1", "ledger", LINEAGE, action, (), "ada", "directory mended", AT, selection="ab" * 32, act=act, **options
    )


@pytest.mark.parametrize(
    "options",
    [{"mode": ReplayMode.WITH_FOLLOWERS}, {"force": True}, {"per_s": 0.5}],
)
def test_the_run_of_a_replay_says_how(options: dict[str, Any]) -> None:
    given = run(**options)
    reported = decode(encode(given))
    assert reported == given
    assert {name: getattr(reported, name) for name in options} == options


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mode", "sideways"),
        ("mode", None),
        ("per_s", 0),
        ("per_s", True),
        ("per_s", "2"),
        ("expects", "in_place"),
        ("mode", "superseded"),
        ("force", 1),
        ("proposal", None),
    ],
)
def test_a_run_that_says_it_wrongly_is_refused(field: str, value: object) -> None:
    tree: dict[str, Any] = json.loads(encode(run()))
    with pytest.raises(CommandInvalid):
        decode(json.dumps(tree | {field: value}).encode())


@pytest.mark.parametrize("field", ["mode", "per_s", "force"])
def test_how_to_replay_is_a_runs_to_say(field: str) -> None:
    tree: dict[str, Any] = json.loads(encode(command()))
    value = {"mode": "alone", "per_s": 1.0, "force": False}[field]
    with pytest.raises(CommandInvalid, match="fields"):
        decode(json.dumps(tree | {field: value}).encode())


@pytest.mark.parametrize("options", [{"mode": ReplayMode.WITH_FOLLOWERS}, {"force": True}, {"per_s": 0.5}])
@pytest.mark.parametrize("act", [act for act in RUN_ACTS if act != REPLAY])
def test_how_to_replay_is_no_part_of_a_closing(act: str, options: dict[str, Any]) -> None:
    assert decode(encode(run(act=act))) == run(act=act)
    with pytest.raises(CommandInvalid, match="for a replay only"):
        encode(run(act=act, **options))


@pytest.mark.parametrize(
    ("first", "act"), [(proposed(), "reverse"), *((run(PROPOSE_RUN, act), RUN) for act in RUN_ACTS)]
)
def test_what_needs_two_people_is_proposed_and_approved_in_the_same_way(first: Command, act: str) -> None:
    approval = decode(encode(approve(first, "bob", "checked", AT)))
    assert approval.action == act
    assert encode(approval.proposed_command) == encode(first)


def test_only_a_proposal_is_approved() -> None:
    with pytest.raises(CommandInvalid, match="isn.t a proposal"):
        approve(command(), "bob", "checked", AT)
