"""Operators' commands: what `payments.control` carries, decided in the journal like any event."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from core.clock import to_rfc3339
from core.errors import Unconfirmed
from operations.command import (
    ACTIONS,
    APPROVED_ALWAYS,
    APPROVES,
    COMMAND_BYTES_MAX,
    CONTROL_TOPIC,
    ENTRY_ACTIONS,
    PER_S_MAX,
    PER_S_MIN,
    PROPOSE_RUN,
    REPLAY,
    REVERSAL_ACTIONS,
    REVERSALS_MAX,
    RUN,
    RUN_ACTIONS,
    RUN_ACTS,
    TARGETS_MAX,
    ApprovedProposal,
    Command,
    CommandInvalid,
    ReplayMode,
    flag_of,
    targets_of,
    text_of,
    time_of,
    word_of,
)
from operations.entry import entry_of_tree, entry_to_tree

SEND_S_MAX = 10.0


class CommandNotSent(Unconfirmed):
    """Kafka didn't acknowledge a command; sending the same command again is safe."""

    def __init__(self, command_id: str, problem: str) -> None:
        self.command_id = command_id
        self.problem = problem
        super().__init__(f"command {command_id} wasn't acknowledged ({problem}); send it again, it has one effect")


@dataclass(frozen=True, slots=True)
class SentCommand:
    topic: str
    partition: int
    offset: int


class CommandProducer(Protocol):
    @property
    def produce(self) -> Callable[..., None]: ...
    @property
    def flush(self) -> Callable[[float], int]: ...


def encode(command: Command) -> bytes:
    """Encodes a command as canonical JSON, without fields that it leaves out.

    :raises CommandInvalid: a limit is passed
    """
    raw = json.dumps(command_tree(command), sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    decode(raw)
    return raw


def command_tree(command: Command) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "command_id": command.command_id,
        "stream": command.stream,
        "lineage": command.lineage,
        "action": command.action,
        "actor": command.actor,
        "reason": command.reason,
        "at": to_rfc3339(command.at),
    }
    if command.entry is not None:
        tree["entry"] = entry_to_tree(command.entry)
    elif command.selection:
        tree["selection"] = command.selection
    else:
        tree["targets"] = [[target.item_seq, target.seen_seq, target.seen_hash] for target in command.targets]
    if command.act:
        tree["act"] = command.act
    if command.per_s is not None:
        tree["per_s"] = command.per_s
    if command.proposal is not None:
        tree["proposal"] = _proposal_tree(command.proposal)
    if command.mode is not ReplayMode.ALONE:
        tree["mode"] = command.mode.value
    if command.force:
        tree["force"] = True
    return tree


_FIELDS = frozenset({"command_id", "stream", "lineage", "action", "actor", "reason", "at"})
_FIELDS_OF_RUNS = frozenset({"mode", "per_s", "force"})
_SUBJECTS = {**dict.fromkeys(ENTRY_ACTIONS, "entry"), **dict.fromkeys(RUN_ACTIONS, "selection")}
"""The field that names an action's subject, if that isn't items."""
_DIGEST = re.compile("[0-9a-f]{64}")


def decode(raw: bytes) -> Command:
    """Decodes a command: the inverse of `encode`.

    :raises CommandInvalid: not a command
    """
    return command_of(_parse_tree(raw))


def command_of(tree: dict[str, Any]) -> Command:
    action = text_of(tree, "action") if "action" in tree else ""
    _check_fields(tree, action)
    targets_max = REVERSALS_MAX if action in REVERSAL_ACTIONS else TARGETS_MAX
    command = Command(
        command_id=text_of(tree, "command_id"),
        stream=text_of(tree, "stream"),
        lineage=text_of(tree, "lineage"),
        action=action,
        targets=targets_of(tree, "targets", targets_max) if "targets" in tree else (),
        actor=text_of(tree, "actor"),
        reason=text_of(tree, "reason"),
        at=time_of(tree, "at"),
        proposal=_read_proposal(tree["proposal"]) if "proposal" in tree else None,
        mode=word_of(tree, "mode", ReplayMode) or ReplayMode.ALONE,
        force=flag_of(tree, "force"),
        entry=entry_of_tree(tree["entry"]) if "entry" in tree else None,
        selection=_read_digest(tree) if "selection" in tree else "",
        act=text_of(tree, "act") if "act" in tree else "",
        per_s=_per_s(tree["per_s"]) if "per_s" in tree else None,
    )
    _check_act(command)
    return command


def _read_digest(tree: dict[str, Any]) -> str:
    digest = text_of(tree, "selection")
    if not _DIGEST.fullmatch(digest):
        raise CommandInvalid("selection: expected the 64 hex digits of its digest")
    return digest


def _per_s(value: object) -> float:
    if not isinstance(value, int | float) or type(value) is bool or not PER_S_MIN <= value <= PER_S_MAX:
        raise CommandInvalid(f"per_s: expected a number from {PER_S_MIN:g} to {PER_S_MAX:,.0f}")
    return float(value)


def send(producer: CommandProducer, command: Command, topic: str = CONTROL_TOPIC) -> SentCommand:
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
    return SentCommand(topic, message.partition(), message.offset())


def _parse_tree(raw: bytes) -> dict[str, Any]:
    if len(raw) > COMMAND_BYTES_MAX:
        raise CommandInvalid(f"{len(raw)} bytes, above the limit of {COMMAND_BYTES_MAX}")
    try:
        tree = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as wrong:
        raise CommandInvalid(f"not JSON: {wrong}") from wrong
    if not isinstance(tree, dict):
        raise CommandInvalid("expected a JSON object")
    return tree


def _check_fields(tree: dict[str, Any], action: str) -> None:
    wanted = _FIELDS | {_SUBJECTS.get(action, "targets")}
    wanted |= {"proposal"} if action in APPROVED_ALWAYS else set()
    may = wanted | ({"proposal"} if action in APPROVES else set())
    if action in (RUN, PROPOSE_RUN):
        wanted |= {"act"}
        may |= {"act"} | _FIELDS_OF_RUNS
    if not wanted <= tree.keys() <= may:
        more = ", ".join(sorted(may - wanted))
        raise CommandInvalid(
            f"expected the fields {', '.join(sorted(wanted))}" + (f", and optionally {more}" if more else "")
        )
    if action not in ACTIONS:
        raise CommandInvalid(f"unknown action {action!r}: expected one of {', '.join(sorted(ACTIONS))}")


def _check_act(command: Command) -> None:
    if command.act and command.act not in RUN_ACTS:
        raise CommandInvalid(f"act: expected one of {', '.join(RUN_ACTS)}")
    plain = (command.mode, command.per_s, command.force) == (ReplayMode.ALONE, None, False)
    if command.act and command.act != REPLAY and not plain:
        raise CommandInvalid(f"mode, per_s and force are for a replay only: leave them out of a {command.act}")


def _proposal_tree(proposal: ApprovedProposal) -> dict[str, Any]:
    return {**asdict(proposal), "at": to_rfc3339(proposal.at)}


def _read_proposal(tree: object) -> ApprovedProposal:
    if not isinstance(tree, dict) or tree.keys() != {"command_id", "actor", "reason", "at"}:
        raise CommandInvalid("proposal: expected the fields command_id, actor, reason, at")
    return ApprovedProposal(
        text_of(tree, "command_id"),
        text_of(tree, "actor"),
        text_of(tree, "reason"),
        time_of(tree, "at"),
    )
