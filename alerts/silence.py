"""Notices sources of webhooks that have fallen silent: counts what receivers' counters gain, and keeps it over
restarts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from alerts.rhythm import SLOT_S, QuietWindow, Rhythm
from core.files import write_whole
from core.status_file import read_said

SOURCES_MAX = 200
"""More endpoints than that aren't watched."""


class Silence:
    """The rhythms of all sources. ``file`` has their counts; it is written once a slot.

    Receivers that weren't asked for a while are counted when they are: what they gained meanwhile is in that slot.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._before: dict[object, float] = {}
        self._rhythms = _read_rhythms(file)
        self._written_slot = 0

    @property
    def known_sources(self) -> list[str]:
        return sorted(self._rhythms)

    def find_quiet(self, gained: Mapping[str, Mapping[object, float]], now: datetime) -> dict[str, QuietWindow | None]:
        """Takes the counters as they are now; returns what each known source lacks, None if nothing is unusual.

        :param gained: by source, each receiver's counter
        """
        slot = int(now.timestamp()) // SLOT_S
        for source, counters in gained.items():
            self._count(source, counters, slot)
        if slot != self._written_slot:
            self._write(slot)
        return {source: rhythm.find_quiet(slot) for source, rhythm in self._rhythms.items()}

    def _count(self, source: str, counters: Mapping[object, float], slot: int) -> None:
        if source not in self._rhythms and len(self._rhythms) >= SOURCES_MAX:
            return
        came = 0.0
        for counter, value in counters.items():
            before = self._before.get((source, counter))
            self._before[source, counter] = value
            if before is not None:
                came += value - before if value >= before else value
        rhythm = self._rhythms.setdefault(source, Rhythm(slot))
        if came:
            rhythm.add(slot, round(came))

    def _write(self, slot: int) -> None:
        self._written_slot = slot
        for rhythm in self._rhythms.values():
            rhythm.drop_old(slot)
        sources = {name: {"begun": rhythm.begun, "counts": rhythm.counts} for name, rhythm in self._rhythms.items()}
        write_whole(self._file, json.dumps({"slot_s": SLOT_S, "sources": sources}))


def _read_rhythms(file: Path) -> dict[str, Rhythm]:
    """Reads the kept counts; empty if another version wrote them, or they can't be read."""
    tree = read_said(file)
    if tree is None or tree.get("slot_s") != SLOT_S:
        return {}
    try:
        return {name: _read_rhythm(kept) for name, kept in tree["sources"].items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        return {}


def _read_rhythm(kept: Mapping[str, Any]) -> Rhythm:
    return Rhythm.from_counts(int(kept["begun"]), {int(slot): int(count) for slot, count in kept["counts"].items()})
