"""What people do with selections, put on record: done, refused or failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from core.clock import Clock
from core.errors import PayhookError
from dlq.acts import Act, ActsUnwritable, Outcome


class Record(Protocol):
    """Where acts are kept (`dlq.acts.Acts`)."""

    def record(self, act: Act, /) -> object: ...


class Unrecorded:
    """For tests and tools that act on nobody's behalf."""

    def record(self, _act: Act, /) -> None:
        """Nothing is kept."""


Done = Callable[[str, str], None]
"""Says what was done, and how it is now. Called within the transaction: what can't be put on record isn't done."""


@dataclass(frozen=True, slots=True)
class OnRecord:
    """Acts through one channel: ``page``, ``api`` or ``cli``."""

    acts: Record
    channel: str
    clock: Clock

    @contextmanager
    def act(self, actor: str, action: str, what: str, reason: str = "") -> Iterator[Done]:
        """
        :raises ActsUnwritable: it can't be put on record
        """

        def record(outcome: Outcome, what: str, after: str | None = None, problem: str = "") -> None:
            self.acts.record(
                Act(
                    at=self.clock.now(),
                    actor=actor,
                    action=action,
                    outcome=outcome,
                    channel=self.channel,
                    what=what,
                    reason="; ".join(part for part in (reason, problem) if part),
                    after=after,
                )
            )

        try:
            yield lambda what, after: record(Outcome.DONE, what, after)
        except ActsUnwritable:
            raise
        except PayhookError as refused:
            record(Outcome.REFUSED, what, problem=str(refused))
            raise
        except Exception as failed:
            record(Outcome.FAILED, what, problem=str(failed) or type(failed).__name__)
            raise
