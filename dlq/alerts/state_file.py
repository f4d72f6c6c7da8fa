"""What alerts remember over a restart: one JSON file, replaced whole. Only the alerts' own process writes it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from core.clock import from_rfc3339, to_rfc3339
from core.files import write_whole
from dlq.alerts.engine import Alert, State
from dlq.alerts.notice import Notice

log = logging.getLogger(__name__)

VERSION = 1


@dataclass(frozen=True, slots=True)
class Remembered:
    """``at``: when it was written, None where there is nothing. ``problems``: by receiver, why its last try failed."""

    at: datetime | None = None
    alerts: Sequence[Alert] = ()
    waiting: Mapping[str, Sequence[Notice]] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)


def read_state(file: Path) -> Remembered:
    """What was remembered; nothing where the file isn't there or can't be read: alerts then begin anew."""
    try:
        tree = json.loads(file.read_text("utf-8"))
        if tree["version"] != VERSION:
            raise ValueError(f"version {tree['version']}, {VERSION} is wanted")
        return Remembered(
            at=from_rfc3339(tree["at"]),
            alerts=[_alert(one) for one in tree["alerts"]],
            waiting={name: [Notice.of(one) for one in notices] for name, notices in tree["waiting"].items()},
            problems={str(name): str(text) for name, text in tree["problems"].items()},
            values=tree["values"],
        )
    except FileNotFoundError:
        return Remembered()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as unreadable:
        log.error("%s can't be read (%s): alerts begin anew, and what still holds is told once more", file, unreadable)
        return Remembered()


def write_state(file: Path, remembered: Remembered) -> None:
    """
    :raises OSError: nothing was changed
    """
    assert remembered.at is not None
    tree = {
        "version": VERSION,
        "at": to_rfc3339(remembered.at),
        "alerts": [_tree(alert) for alert in remembered.alerts],
        "waiting": {name: [one.as_tree() for one in notices] for name, notices in remembered.waiting.items()},
        "problems": dict(remembered.problems),
        "values": remembered.values,
    }
    write_whole(file, json.dumps(tree, indent=1) + "\n")


def _tree(alert: Alert) -> dict[str, Any]:
    return {
        "rule": alert.rule,
        "subject": alert.subject,
        "state": alert.state.value,
        "since": to_rfc3339(alert.since),
        "value": alert.value,
        "name": alert.name,
        "text": alert.text,
        "number": alert.number,
        "told_at": _moment(alert.told_at),
        "clear_since": _moment(alert.clear_since),
        "unknown": alert.unknown,
    }


def _alert(tree: dict[str, Any]) -> Alert:
    return Alert(
        rule=str(tree["rule"]),
        subject=str(tree["subject"]),
        state=State(tree["state"]),
        since=from_rfc3339(tree["since"]),
        value=float(tree["value"]),
        name=str(tree["name"]),
        text=str(tree["text"]),
        number=int(tree["number"]),
        told_at=_from(tree["told_at"]),
        clear_since=_from(tree["clear_since"]),
        unknown=bool(tree["unknown"]),
    )


def _moment(at: datetime | None) -> str | None:
    return None if at is None else to_rfc3339(at)


def _from(text: str | None) -> datetime | None:
    return None if text is None else from_rfc3339(text)
