"""One notice: what a receiver is told of an alert."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from core.clock import from_rfc3339, to_rfc3339
from dlq.alerts.rules import Severity


class Kind(StrEnum):
    """What a notice tells of its alert."""

    FIRING = "firing"
    REPEAT = "repeat"
    RECOVERED = "recovered"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Notice:
    """``alert`` names the alert for as long as it fires: a receiver that has seen it opens no second ticket.

    ``number`` counts an alert's notices from 1; ``alert`` and it together name the notice, however often it comes.
    """

    alert: str
    number: int
    kind: Kind
    rule: str
    subject: str
    severity: Severity
    text: str
    value: float
    threshold: float
    since: datetime
    at: datetime
    runbook: str

    @property
    def notice_id(self) -> str:
        return f"{self.alert}#{self.number}"

    @property
    def is_critical(self) -> bool:
        return self.severity is Severity.CRITICAL

    def as_tree(self) -> dict[str, Any]:
        """As receivers and the state file have it; times are RFC 3339 in UTC."""
        return {
            "id": self.notice_id,
            "alert": self.alert,
            "number": self.number,
            "kind": self.kind.value,
            "rule": self.rule,
            "subject": self.subject,
            "severity": self.severity.value,
            "text": self.text,
            "value": self.value,
            "threshold": self.threshold,
            "since": to_rfc3339(self.since),
            "at": to_rfc3339(self.at),
            "runbook": self.runbook,
        }

    def as_json(self) -> bytes:
        return json.dumps(self.as_tree(), ensure_ascii=True).encode()

    @classmethod
    def of(cls, tree: dict[str, Any]) -> Notice:
        """The inverse of `as_tree`.

        :raises KeyError, ValueError, TypeError: it isn't one
        """
        return cls(
            alert=str(tree["alert"]),
            number=int(tree["number"]),
            kind=Kind(tree["kind"]),
            rule=str(tree["rule"]),
            subject=str(tree["subject"]),
            severity=Severity(tree["severity"]),
            text=str(tree["text"]),
            value=float(tree["value"]),
            threshold=float(tree["threshold"]),
            since=from_rfc3339(tree["since"]),
            at=from_rfc3339(tree["at"]),
            runbook=str(tree["runbook"]),
        )
