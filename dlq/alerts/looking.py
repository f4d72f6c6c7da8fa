"""Looks at the stack from outside: status files, metrics pages, journals. Whatever is down, it still looks."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
from deltalake.exceptions import DeltaError
from prometheus_client.parser import text_string_to_metric_families

from core.clock import Clock, from_rfc3339
from core.place import Place
from dlq.alerts.dead import Dead, DeadItems
from dlq.alerts.readings import WANTED, Seen
from dlq.alerts.window import Series
from journal.errors import JournalBroken

log = logging.getLogger(__name__)

ASK_TIMEOUT_S = 2.0
STATUS_AGE_MAX = timedelta(seconds=30)
"""A stream writes its status about once a second; a batch may take longer."""


@dataclass(frozen=True, slots=True)
class Places:
    """What is looked at. ``statuses`` and ``journals`` are by stream, ``metrics`` maps a process to its page's URL.

    ``ready_url``: the receiver's readiness; empty where nobody asks. ``backed_up``: what the last backup left;
    ``backup_every_s``: seconds from one to the next, 0 where none are made by schedule. ``card_scan``: what the last
    scan for card numbers left; None where none are made.
    """

    ready_url: str
    statuses: Mapping[str, Path]
    journals: Mapping[str, Place]
    metrics: Mapping[str, str]
    backed_up: Path | None = None
    backup_every_s: float = 0.0
    card_scan: Path | None = None


class Looking:
    """One look after another."""

    def __init__(self, places: Places, client: httpx2.Client, clock: Clock) -> None:
        self._places = places
        self._client = client
        self._clock = clock
        self._dead = {stream: DeadItems(journal, clock) for stream, journal in places.journals.items()}

    def look(self) -> Seen:
        """What there is to see now; whatever fails is None in it, or missing."""
        now = self._clock.now()
        return Seen(
            receiver_ready=self._receiver_ready(),
            statuses={stream: fresh_status(file, now) for stream, file in self._places.statuses.items()},
            dead={stream: _dead(stream, items) for stream, items in self._dead.items()},
            samples={
                series: value
                for process, url in self._places.metrics.items()
                for series, value in self._samples(process, url).items()
            },
            backup_age=self._backup_age(now),
            card_bodies=self._card_bodies(),
        )

    def _backup_age(self, now: datetime) -> float | None:
        if self._places.backed_up is None or not self._places.backup_every_s:
            return None
        try:
            since = from_rfc3339(json.loads(self._places.backed_up.read_text("utf-8"))["since"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return (now - since).total_seconds() / self._places.backup_every_s

    def _card_bodies(self) -> int | None:
        if self._places.card_scan is None:
            return None
        try:
            return len(json.loads(self._places.card_scan.read_text("utf-8"))["found"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _receiver_ready(self) -> bool | None:
        if not self._places.ready_url:
            return None
        try:
            return self._client.get(self._places.ready_url, timeout=ASK_TIMEOUT_S).status_code == 200
        except httpx2.HTTPError:
            return False

    def _samples(self, process: str, url: str) -> dict[Series, float]:
        try:
            answer = self._client.get(url, timeout=ASK_TIMEOUT_S)
            answer.raise_for_status()
            families = list(text_string_to_metric_families(answer.text))
        except (httpx2.HTTPError, ValueError) as failed:
            log.debug("%s doesn't tell its metrics: %s", process, failed)
            return {}
        return {
            (sample.name, tuple(sorted({**sample.labels, "process": process}.items()))): sample.value
            for family in families
            for sample in family.samples
            if sample.name in WANTED
        }


def fresh_status(file: Path, now: datetime) -> Mapping[str, Any] | None:
    """A stream's word; None where there is none, or an old one."""
    try:
        said: dict[str, Any] = json.loads(file.read_text("utf-8"))
        return said if now - from_rfc3339(said["at"]) <= STATUS_AGE_MAX else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _dead(stream: str, items: DeadItems) -> Dead | None:
    try:
        return items.read()
    except (JournalBroken, DeltaError, OSError) as unread:
        log.warning("the journal of %s can't be read: %s", stream, unread)
        return None
