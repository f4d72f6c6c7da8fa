"""Reads what processes say of themselves in files: small JSON objects, replaced whole, that any process may read.

A stream's processor may run on another machine, which has its files: it is asked then. Where several processes are
behind one name, each of their addresses is asked for itself.
"""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from http.client import HTTPException
from itertools import product
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from core.clock import from_rfc3339

Shape = TypeVar("Shape")

STATUS_AGE_MAX = timedelta(seconds=30)
"""A stream writes its status about once a second; a batch may take longer."""

ASK_TIMEOUT_S = 2.0

STANDBY = "standby"
"""The ``state`` of a stream that another process decides, while this one waits for its lease."""


@dataclass(frozen=True, slots=True)
class StatusWait:
    """Says what a stream's events wait for: a ``downstream``, or what blocks the whole stream (None).

    ``since`` and ``next_try_at`` are None where they aren't known.
    """

    downstream: str | None
    why: str
    since: datetime | None
    next_try_at: datetime | None


class StreamStatuses:
    """Finds what processors say of their streams. ``files``: the status file of each stream. ``urls``: where processors
    answer with the same; they are asked, all at once, while a file is missing, old, or of a processor that stands by.
    It blocks meanwhile; one that says nothing is given up after `ASK_TIMEOUT_S`.
    """

    def __init__(self, files: Mapping[str, Path], urls: Sequence[str] = ()) -> None:
        self._files = files
        self._urls = urls

    def read_all(self, now: datetime) -> dict[str, Mapping[str, Any] | None]:
        """Returns the newest words of each stream, which may be old; None where there are none."""
        return self._read(self._files, now)

    def read_one(self, stream: str, now: datetime) -> Mapping[str, Any] | None:
        return self._read({stream: self._files[stream]}, now)[stream]

    def _read(self, files: Mapping[str, Path], now: datetime) -> dict[str, Mapping[str, Any] | None]:
        statuses = {stream: read_said(file) for stream, file in files.items()}
        if self._urls and any(_is_asked_for(status, now) for status in statuses.values()):
            with ThreadPoolExecutor(len(self._urls)) as asking:
                answers = list(asking.map(_ask_processor, self._urls))
            for stream, answer in product(statuses, answers):
                known, reported = statuses[stream], answer.get(stream)
                if _is_asked_for(known, now) and _says_more(reported, known, now):
                    statuses[stream] = reported
        return statuses


def _is_asked_for(status: Mapping[str, Any] | None, now: datetime) -> bool:
    fresh = fresh_status(status, now)
    return fresh is None or fresh.get("state") == STANDBY


def _says_more(reported: Mapping[str, Any] | None, known: Mapping[str, Any] | None, now: datetime) -> bool:
    fresh = fresh_status(reported, now)
    return fresh is not None and (fresh.get("state") != STANDBY or fresh_status(known, now) is None)


def _ask_processor(url: str) -> Mapping[str, Any]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=ASK_TIMEOUT_S) as answer:
            streams = json.loads(answer.read())["streams"]
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return {}
    return streams if isinstance(streams, dict) else {}


def waits_of(status: Mapping[str, Any]) -> list[StatusWait]:
    waits: list[StatusWait] = []
    if status.get("blocked") is not None:
        times = moment_of(status, "blocked_since"), moment_of(status, "next_probe_at")
        waits.append(StatusWait(None, str(status["blocked"]), *times))
    for name, downstream in (status.get("downstreams") or {}).items():
        if downstream.get("since") is not None:
            waits.append(
                StatusWait(
                    name, str(downstream["why"]), moment_of(downstream, "since"), moment_of(downstream, "next_try_at")
                )
            )
    return waits


def read_said(file: Path) -> Mapping[str, Any] | None:
    try:
        status = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return status if isinstance(status, dict) else None


def read_shaped(file: Path, shape: type[Shape]) -> Shape | None:
    """Reads the object as ``shape``, a dataclass, without names that this doesn't have.

    None where there is no such object, or none that can be read: another version may have written it.
    """
    try:
        return TypeAdapter(shape).validate_json(file.read_bytes(), strict=True)
    except (OSError, ValueError):
        return None


def moment_of(status: Mapping[str, Any] | None, name: str) -> datetime | None:
    try:
        return None if status is None else from_rfc3339(status[name])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def past_moment_of(status: Mapping[str, Any] | None, name: str, now: datetime) -> datetime | None:
    """Reads a time as `moment_of`; None too for a future one, which a clock that ran ahead wrote."""
    at = moment_of(status, name)
    return at if at is not None and at <= now else None


def fresh_status(status: Mapping[str, Any] | None, now: datetime) -> Mapping[str, Any] | None:
    """Returns a stream's status; None where there is none, or its time is off by more than `STATUS_AGE_MAX`."""
    at = moment_of(status, "at")
    return status if at is not None and abs(now - at) <= STATUS_AGE_MAX else None


def each_address(urls: Mapping[str, str]) -> dict[str, str]:
    """Returns URLs by the names of processes; for a host of several addresses, one URL each.

    ``{"ingest": "http://receivers:9101/metrics"}`` with two receivers is ``ingest-10.0.0.4`` and ``ingest-10.0.0.5``. A
    name that can't be looked up stays as it is: asking it will say so. It blocks as long as the look-up takes.
    """
    by_name: dict[str, str] = {}
    for name, url in urls.items():
        addresses = _find_addresses(urlsplit(url).hostname or "")
        if len(addresses) < 2:
            by_name[name] = url
            continue
        for address in addresses:
            parts = urlsplit(url)
            port = "" if parts.port is None else f":{parts.port}"
            by_name[f"{name}-{address}"] = parts._replace(netloc=f"{address}{port}").geturl()
    return by_name


def _find_addresses(host: str) -> list[str]:
    try:
        answers = socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError:
        return []
    return sorted({str(address[0]) for *_, address in answers})
