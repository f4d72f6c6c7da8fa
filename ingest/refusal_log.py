"""Logs the requests that are answered 503: a line a minute and code, not one a request."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from ingest.errors import RequestRefused
from ingest.remedies import REMEDIES, UNAVAILABLE, runbook_of

log = logging.getLogger(__name__)

EVERY_S = 60.0


@dataclass(slots=True)
class _Minute:
    """The requests of one code since its last line."""

    count: int = 0
    cause: str = ""
    providers: set[str] = field(default_factory=set)


class RefusalLog:
    """Writes of each code the first refusal at once, then a line a minute, and one when a minute passed without any."""

    def __init__(self) -> None:
        self._minutes: dict[str, _Minute] = {}

    def count_refusal(self, provider: str, refused: RequestRefused) -> None:
        """Counts a refusal; the line has the cause of the newest one."""
        if refused.code not in UNAVAILABLE:
            return
        minute = self._minutes.get(refused.code)
        is_first = minute is None
        if minute is None:
            minute = self._minutes[refused.code] = _Minute()
            asyncio.get_running_loop().call_later(EVERY_S, self._end_minute, refused.code)
        minute.count += 1
        minute.providers.add(provider)
        minute.cause = refused.cause or refused.problem
        if is_first:
            self._write(refused.code, minute)

    def _end_minute(self, code: str) -> None:
        minute = self._minutes[code]
        if not minute.count:
            del self._minutes[code]
            log.info("no request was answered 503 %s for %g s: it is over", code, EVERY_S)
            return
        self._write(code, minute)
        asyncio.get_running_loop().call_later(EVERY_S, self._end_minute, code)

    def _write(self, code: str, minute: _Minute) -> None:
        log.warning(
            "answered 503 %s to %d requests of %s: %s. To do: %s See %s",
            code,
            minute.count,
            ", ".join(sorted(minute.providers)),
            minute.cause,
            REMEDIES[code],
            runbook_of(code),
        )
        minute.count = 0
        minute.providers.clear()
