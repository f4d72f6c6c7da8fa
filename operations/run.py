"""The journal's rows about a run: the states that it goes through, and the result of each portion."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

from core.keys import join_key
from journal.schema import JournalRow
from operations.command import Command
from operations.commands import command_of, command_tree
from operations.refusals import ItemRefusal, refusal_of_json

COMMAND_ID_CHARS = 32


class RunState(StrEnum):
    PROPOSED = "proposed"
    """It waits for a second person's approval."""
    RUNNING = "running"
    PAUSED = "paused"
    SENT = "sent"
    """Each item was sent or refused; some may be on their way."""
    CANCELLED = "cancelled"
    """Items that weren't sent stay as they are; the others still finish."""


class RunEnding(StrEnum):
    RESTORED = "restored"
    BROKEN = "broken"


def command_id_of(digest: str) -> str:
    """Makes the id of the command that begins a selection's run, of its proposal, and of its cancellation: each comes
    once."""
    return digest[:COMMAND_ID_CHARS]


def run_entity(digest: str) -> str:
    return join_key("payhook", digest)


def command_headers(command: Command) -> str:
    return json.dumps({"run": command_tree(command)}, sort_keys=True, separators=(",", ":"))


def command_of_row(row: JournalRow) -> Command:
    return command_of(json.loads(row.headers or "{}")["run"])


@dataclass(frozen=True, slots=True)
class PortionResult:
    """The state of a run after a portion. ``upto``: the first place that wasn't taken. ``over``: each of its items has
    ended, or other runs wait and its last items are left to the stream. ``ended``: why it doesn't continue, where no
    person said so."""

    upto: int
    state: RunState
    refused: tuple[ItemRefusal, ...] = ()
    over: bool = False
    ended: RunEnding | None = None

    def to_headers(self, before: str | None) -> str:
        reported = {
            "upto": self.upto,
            "state": self.state.value,
            "refused": [refusal.to_json() for refusal in self.refused],
            "over": self.over,
            "ended": None if self.ended is None else self.ended.value,
        }
        tree = {**json.loads(before or "{}"), "portion": reported}
        return json.dumps(tree, sort_keys=True, separators=(",", ":"))

    @classmethod
    def of_headers(cls, headers: str | None) -> PortionResult:
        reported = json.loads(headers or "{}")["portion"]
        return cls(
            reported["upto"],
            RunState(reported["state"]),
            tuple(map(refusal_of_json, reported["refused"])),
            reported["over"],
            None if reported["ended"] is None else RunEnding(reported["ended"]),
        )
