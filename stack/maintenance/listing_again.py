"""Asks the providers' lists again for what a person accepted as lost, from where the loss begins.

The claims of what is lost are void once its loss is accepted, and not before: so the catch-up brings it in afterwards,
whether the stack is up then or comes up later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.clock import to_rfc3339
from core.event import Mode
from core.files import write_whole
from core.layout import Layout
from core.status_file import moment_of, read_said


@dataclass(frozen=True, slots=True)
class ListAgain:
    """``since``: where the loss begins. ``accepted_at``: lists that were read before don't count for it."""

    since: datetime
    accepted_at: datetime


def list_again(layout: Layout, mode: Mode, since: datetime, accepted_at: datetime) -> None:
    """Has every list of a mode's providers read again from then on, and from where an earlier loss began."""
    before = read_list_again(layout, mode)
    wanted = since if before is None else min(since, before.since)
    content = {**_read_file(layout), mode: {"since": to_rfc3339(wanted), "accepted_at": to_rfc3339(accepted_at)}}
    write_whole(layout.list_again, json.dumps(content, indent=1) + "\n")


def read_list_again(layout: Layout, mode: Mode) -> ListAgain | None:
    content = _read_file(layout).get(mode)
    since, accepted_at = moment_of(content, "since"), moment_of(content, "accepted_at")
    return None if since is None or accepted_at is None else ListAgain(since, accepted_at)


def _read_file(layout: Layout) -> Mapping[str, Any]:
    return read_said(layout.list_again) or {}
