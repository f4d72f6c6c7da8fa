"""Records in the audit log what is done through one channel, with what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from core.clock import Clock
from core.errors import PayhookError, Unconfirmed
from operations.audit_log import AuditEntry, AuditLogUnwritable, AuditOutcome

READ_PAYLOAD, EXPORT, RECONCILE = "read_payload", "export", "reconcile"
"""Actions of who takes something out, or compares a report with the ledger."""


class AuditWriter(Protocol):
    def record(self, entry: AuditEntry, /) -> object: ...


@dataclass(slots=True)
class ActChanges:
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Recorder:
    """Records acts. ``channel``: ``page``, ``api`` or ``cli``."""

    log: AuditWriter
    clock: Clock
    channel: str

    def record(
        self,
        actor: str,
        action: str,
        what: str,
        outcome: AuditOutcome = AuditOutcome.DONE,
        reason: str = "",
        before: str | None = None,
        after: str | None = None,
        *,
        at: datetime | None = None,
    ) -> None:
        """Records one act. ``at``: when it was done; None: now.

        :raises AuditLogUnwritable: it can't be recorded, so it isn't to take effect
        """
        self.log.record(
            AuditEntry(
                at=at or self.clock.now(),
                actor=actor,
                action=action,
                outcome=outcome,
                channel=self.channel,
                what=what,
                reason=reason,
                before=before,
                after=after,
            )
        )

    @contextmanager
    def record_act(self, actor: str, action: str, what: str, reason: str = "") -> Iterator[ActChanges]:
        """Records what the ``with`` does when it ends: as done, or as `record_refusals` does.

        :raises AuditLogUnwritable: it can't be recorded. An order may have been given then; its decision names who
            gave it, and giving it again has no second effect
        """
        at, changes = self.clock.now(), ActChanges()
        with self.record_refusals(actor, action, what, reason, changes):
            yield changes
        self.record(actor, action, what, AuditOutcome.DONE, reason, changes.before, changes.after, at=at)

    @contextmanager
    def record_refusals(
        self, actor: str, action: str, what: str, reason: str = "", changes: ActChanges | None = None
    ) -> Iterator[None]:
        """Records what the ``with`` raises: one of payhook's errors as refused; another one, `Unconfirmed` or Ctrl-C as
        failed, for it may have taken effect. What is done records who does it, before it takes effect.

        :raises AuditLogUnwritable: it can't be recorded
        """
        at = self.clock.now()
        try:
            yield
        except AuditLogUnwritable:
            raise
        except (Exception, KeyboardInterrupt) as problem:
            refused = isinstance(problem, PayhookError) and not isinstance(problem, Unconfirmed)
            outcome = AuditOutcome.REFUSED if refused else AuditOutcome.FAILED
            why = "; ".join(part for part in (reason, str(problem) or type(problem).__name__) if part)
            changed = changes or ActChanges()
            self.record(actor, action, what, outcome, why, changed.before, changed.after, at=at)
            raise
