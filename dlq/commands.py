"""Operators' commands: what `payments.control` carries, decided in the journal like any event."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Protocol

from core.clock import from_rfc3339, to_rfc3339
from core.errors import PayhookError

CONTROL_TOPIC = "payments.control"
REPLAY, PROPOSE_REVERSAL, REVERSE = "replay", "propose_reversal", "reverse"
ITEM_ACTIONS = frozenset({REPLAY})
"""On dead items, by one person."""

ACTIONS = ITEM_ACTIONS | {PROPOSE_REVERSAL, REVERSE}
TARGETS_MAX = 5_000
REVERSALS_MAX = 100
"""Bookings of one reversal: each is read again from the journal while the stream waits."""

TEXT_CHARS_MAX = 500
COMMAND_BYTES_MAX = 900_000
"""Below Kafka's default of 1 MiB a record; 5,000 targets take 300 KB."""

SEND_S_MAX = 10.0
SEQ_MAX = 2**63 - 1


class CommandInvalid(PayhookError):
    """Bytes on the control topic that aren't a command, or a command that can't be one."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"not a command: {problem}")


class CommandNotSent(PayhookError):
    """Kafka didn't acknowledge a command; sending the same command again is safe."""

    def __init__(self, command_id: str, problem: str) -> None:
        self.command_id = command_id
        self.problem = problem
        super().__init__(f"command {command_id} wasn't acknowledged ({problem}); send it again, it has one effect")


@dataclass(frozen=True, slots=True)
class Target:
    """One item, and the seq of its last row that the operator saw."""

    item_seq: int
    seen_seq: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """Who asked for what a second person approves, and why; its targets are the approval's."""

    command_id: str
    actor: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Command:
    """One act of an operator on items of one stream. ``command_id`` makes copies of it harmless.

    ``proposal``: of a ``reverse`` alone, the command that it approves, whole.
    """

    command_id: str
    stream: str
    action: str
    targets: tuple[Target, ...]
    actor: str
    reason: str
    at: datetime
    proposal: Proposal | None = None

    @property
    def proposed(self) -> Command:
        """The command that this one approves, as it was given."""
        assert self.proposal is not None
        first = self.proposal
        return Command(
            first.command_id, self.stream, PROPOSE_REVERSAL, self.targets, first.actor, first.reason, first.at
        )


@dataclass(frozen=True, slots=True)
class Sent:
    """Where Kafka holds a command."""

    topic: str
    partition: int
    offset: int


class Producer(Protocol):
    """What sending asks of a Kafka producer (confluent_kafka's)."""

    @property
    def produce(self) -> Callable[..., None]: ...
    @property
    def flush(self) -> Callable[[float], int]: ...


def replay(stream: str, targets: Sequence[Target], actor: str, reason: str, at: datetime) -> Command:
    """A new replay command."""
    return Command(uuid.uuid4().hex, stream, "replay", tuple(targets), actor, reason, at)


def propose_reversal(stream: str, targets: Sequence[Target], actor: str, reason: str, at: datetime) -> Command:
    """A new command that asks for bookings to be reversed; nothing is booked before a second person approves it."""
    return Command(uuid.uuid4().hex, stream, PROPOSE_REVERSAL, tuple(targets), actor, reason, at)


def approve(proposed: Command, actor: str, reason: str, at: datetime) -> Command:
    """A new command that approves a proposed reversal as it was given."""
    proposal = Proposal(proposed.command_id, proposed.actor, proposed.reason, proposed.at)
    return Command(uuid.uuid4().hex, proposed.stream, REVERSE, proposed.targets, actor, reason, at, proposal)


def encode(command: Command) -> bytes:
    """Canonical JSON.

    :raises CommandInvalid: a limit is passed
    """
    tree: dict[str, Any] = {
        "command_id": command.command_id,
        "stream": command.stream,
        "action": command.action,
        "targets": [[target.item_seq, target.seen_seq] for target in command.targets],
        "actor": command.actor,
        "reason": command.reason,
        "at": to_rfc3339(command.at),
    }
    if command.proposal is not None:
        tree["proposal"] = {**asdict(command.proposal), "at": to_rfc3339(command.proposal.at)}
    raw = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    decode(raw)
    return raw


def decode(raw: bytes) -> Command:
    """The inverse of `encode`.

    :raises CommandInvalid: not a command
    """
    if len(raw) > COMMAND_BYTES_MAX:
        raise CommandInvalid(f"{len(raw)} bytes, at most {COMMAND_BYTES_MAX} are taken")
    try:
        tree = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as wrong:
        raise CommandInvalid(f"not JSON: {wrong}") from wrong
    wanted = {"command_id", "stream", "action", "targets", "actor", "reason", "at"}
    if isinstance(tree, dict) and tree.get("action") == REVERSE:
        wanted |= {"proposal"}
    if not isinstance(tree, dict) or tree.keys() != wanted:
        raise CommandInvalid(f"the fields {', '.join(sorted(wanted))} are wanted")
    action = _text(tree, "action")
    if action not in ACTIONS:
        raise CommandInvalid(f"unknown action {action!r}; {', '.join(sorted(ACTIONS))} is wanted")
    targets_max = TARGETS_MAX if action in ITEM_ACTIONS else REVERSALS_MAX
    return Command(
        command_id=_text(tree, "command_id"),
        stream=_text(tree, "stream"),
        action=action,
        targets=_targets(tree["targets"], targets_max),
        actor=_text(tree, "actor"),
        reason=_text(tree, "reason"),
        at=_time(tree),
        proposal=_proposal(tree["proposal"]) if action == REVERSE else None,
    )


def send(producer: Producer, command: Command, topic: str = CONTROL_TOPIC) -> Sent:
    """Produces the command and waits for Kafka's acknowledgement. Threads may share a producer.

    :raises CommandNotSent: it didn't come in time, or was refused
    """
    outcome: list[tuple[object, Any]] = []
    delivered = threading.Event()

    def on_delivery(error: object, message: Any) -> None:
        outcome.append((error, message))
        delivered.set()

    try:
        producer.produce(topic, value=encode(command), key=command.command_id.encode(), on_delivery=on_delivery)
        producer.flush(SEND_S_MAX)
    except CommandInvalid:
        raise
    except Exception as failed:
        raise CommandNotSent(command.command_id, str(failed)) from failed
    if not delivered.is_set():
        raise CommandNotSent(command.command_id, f"no answer within {SEND_S_MAX:g} s")
    error, message = outcome[0]
    if error is not None:
        raise CommandNotSent(command.command_id, str(error))
    return Sent(topic, message.partition(), message.offset())


def _text(tree: dict[str, Any], name: str) -> str:
    value = tree[name]
    if not isinstance(value, str) or not 0 < len(value) <= TEXT_CHARS_MAX or not value.isprintable():
        raise CommandInvalid(f"{name}: printable text of 1 to {TEXT_CHARS_MAX} characters is wanted")
    return value


def _proposal(tree: object) -> Proposal:
    if not isinstance(tree, dict) or tree.keys() != {"command_id", "actor", "reason", "at"}:
        raise CommandInvalid("proposal: the fields command_id, actor, reason, at are wanted")
    return Proposal(_text(tree, "command_id"), _text(tree, "actor"), _text(tree, "reason"), _time(tree))


def _targets(value: object, most: int) -> tuple[Target, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= most:
        raise CommandInvalid(f"targets: a list of 1 to {most} pairs is wanted")
    targets = tuple(_target(pair) for pair in value)
    if len({target.item_seq for target in targets}) != len(targets):
        raise CommandInvalid("targets: an item is named twice")
    return targets


def _target(pair: object) -> Target:
    match pair:
        case [int() as item_seq, int() as seen_seq] if 0 < item_seq <= seen_seq <= SEQ_MAX and type(item_seq) is int:
            return Target(item_seq, seen_seq)
    raise CommandInvalid("targets: each is [item_seq, seen_seq], the first not above the second")


def _time(tree: dict[str, Any]) -> datetime:
    try:
        return from_rfc3339(_text(tree, "at"))
    except ValueError as wrong:
        raise CommandInvalid(f"at: {wrong}") from wrong
