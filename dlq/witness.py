"""Puts an act on record with what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from core.clock import Clock
from core.errors import PayhookError
from dlq.acts_chain import Act, Outcome, RecordedAct
from dlq.commands import CommandNotSent


class Recorder(Protocol):
    """What is asked of `dlq.acts.Acts`."""

    def record(self, act: Act) -> RecordedAct: ...


READ_PAYLOAD, EXPORT = "read_payload", "export"
"""What somebody took out."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Puts on record what is read through one channel: ``page``, ``api`` or ``cli``."""

    acts: Recorder
    clock: Clock
    channel: str

    def record(self, actor: str, action: str, what: str) -> None:
        """
        :raises ActsUnwritable: it can't be put on record, so it isn't to be handed out
        """
        self.acts.record(
            Act(at=self.clock.now(), actor=actor, action=action, outcome=Outcome.DONE, channel=self.channel, what=what)
        )


@dataclass(slots=True)
class Witnessed:
    """What an act changed, as JSON or text; filled in by whoever does it. ``what``: to what it was done, where that has
    its name only then."""

    before: str | None = None
    after: str | None = None
    what: str | None = None


@contextmanager
def witnessed(
    acts: Recorder, clock: Clock, actor: str, channel: str, action: str, what: str, reason: str = ""
) -> Iterator[Witnessed]:
    """For the length of a ``with`` that does the act. It is done when that ends, refused where it raises one of
    payhook's errors, and failed where it raises another one or Kafka didn't take the command.

    :raises ActsUnwritable: it can't be put on record. An order may have been given then; its decision names who gave
        it, and giving it again has no second effect
    """
    now, told = clock.now(), Witnessed()

    def record(outcome: Outcome, problem: str = "") -> None:
        told_reason = "; ".join(part for part in (reason, problem) if part)
        act = Act(
            at=now,
            actor=actor,
            action=action,
            outcome=outcome,
            channel=channel,
            what=told.what or what,
            reason=told_reason,
        )
        acts.record(replace(act, before=told.before, after=told.after))

    try:
        yield told
    except Exception as problem:
        refused = isinstance(problem, PayhookError) and not isinstance(problem, CommandNotSent)
        record(Outcome.REFUSED if refused else Outcome.FAILED, str(problem) or type(problem).__name__)
        raise
    record(Outcome.DONE)
