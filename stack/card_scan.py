"""Finds card data in kept bodies: what the receiver's masker of an earlier release or by other settings let through.

Each body is masked once more, as the receiver would mask its event now. A body that would change is a finding: its
event key and the places in it, never what stands there. Reading goes file by file, the bodies of a file once; a file
that maintenance wrote in place of others is read again. What was found stays found until the body is gone.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from core import card_numbers, strict_json
from core.card_numbers import without_card_numbers
from core.clock import Clock, SystemClock, to_rfc3339
from core.errors import PayhookError, Unparseable
from core.event import POISON_TYPE, Event, Mode
from core.files import write_whole
from core.routing import MODES
from core.status_file import read_said
from ingest import pan, pan_body, pan_escapes
from ingest.pan import CardMasker, MaskingKey
from ingest.settings import PanSettings
from journal.bodies import BodyFile, BodyStore, body_files
from journal.lake import has_table, open_table
from journal.reader import dataset_of
from ledger.maintain import StreamTables
from providers.port import Adapter
from providers.registry import build_adapters
from stack.maintenance import stream_tables
from stack.settings import Settings, streams_of
from stack.shards import check_streams

log = logging.getLogger("card-scan")

SETTLED = timedelta(hours=1)
"""A body is written before its event's row is committed: files of now are read the next time."""

FOUND_MAX = 1_000
"""Where more bodies hold card data, the rest is found once these are redacted."""

TOGETHER_MAX = 4_096
TOGETHER_BYTES_MAX = 32 << 20
"""Bodies that may hold card data, for which the journal is asked at a time."""

PLACES_MAX = 5
PLACE_CHARS_MAX = 200

COLUMNS = (
    *("seq", "event_key", "fact_key", "entity_key", "provider", "account", "event_type", "mode", "tenant", "zone"),
    *("body_sha256", "headers"),
)
FAILURES = (PayhookError, DeltaError, OSError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class Found:
    """A kept body that holds card data. ``places``: JSON pointers into it, or ``byte N`` where it isn't JSON."""

    stream: str
    event_key: str
    body_sha256: str
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a scan left. ``files``: the names of the files that were read, by stream, with the masker ``masker``.

    ``bodies``: how many this scan read. ``whole``: everything that is old enough was read; ``problem`` says why not.
    """

    ended_at: datetime
    masker: str
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    found: tuple[Found, ...] = ()
    bodies: int = 0
    whole: bool = True
    problem: str = ""

    @classmethod
    def read(cls, path: Path, clock: Clock) -> Scanned:
        """The last scan's; an empty one where there is none that can be read."""
        kept = read_said(path) or {}
        try:
            found = tuple(Found(**{**one, "places": tuple(one["places"])}) for one in kept["found"])
            return cls(clock.now(), str(kept["masker"]), dict(kept["files"]), found)
        except (ValueError, KeyError, TypeError):
            return cls(clock.now(), "")

    def write(self, path: Path) -> None:
        fields = {**asdict(self), "ended_at": to_rfc3339(self.ended_at)}
        write_whole(path, json.dumps(fields, indent=1) + "\n")


def run_round(settings: Settings) -> bool:
    """As `stack.rounds` runs it: true if everything that is old enough was read."""
    if not settings.ingest.pan.enabled:
        log.info("ingest.pan.enabled is false: nothing is masked, and nothing is looked for")
        return True
    scanned = run_once(settings, SystemClock())
    log.info("%d bodies read, %d kept ones hold card data", scanned.bodies, len(scanned.found))
    if not scanned.whole:
        log.error("%s", scanned.problem)
    return scanned.whole


def run_once(settings: Settings, clock: Clock) -> Scanned:
    """Reads the bodies that no scan has read; what it came to is also in the run folder.

    :raises ShardsChanged, ShardMissing: shards would be left out (`stack.shards`)
    """
    check_streams(settings)
    report = settings.layout.card_scan
    scan = CardScan(settings.ingest.pan, build_adapters(settings.providers), clock)
    received = {
        name
        for one in streams_of(settings).values()
        if one.source_stream is None
        for mode in MODES
        for name in one.names(mode, settings.processor.shards)
    }
    tables = [one for one in stream_tables(settings) if one.stream in received]
    scanned = scan.run(tables, Scanned.read(report, clock))
    report.parent.mkdir(parents=True, exist_ok=True)
    scanned.write(report)
    for one in scanned.found:
        log.error(
            "%s of %s holds card data at %s: `payhook ledger redact` removes the body, and see docs/card-numbers.md",
            *(one.event_key, one.stream, ", ".join(one.places)),
        )
    return scanned


class CardScan:
    """One scan of the bodies of all streams."""

    def __init__(self, settings: PanSettings, adapters: Mapping[str, Adapter], clock: Clock) -> None:
        # The keyed hashes of what is masked here are thrown away.
        self._masker = CardMasker(settings, MaskingKey(secrets.token_hex()))
        self._version = _version(settings)
        self._adapters = adapters
        self._clock = clock
        self._bodies = 0

    def run(self, tables: Sequence[StreamTables], before: Scanned) -> Scanned:
        """Reads what ``before`` hasn't read; everything, if it was read with another masker."""
        is_same = before.masker == self._version
        files, found = (dict(before.files), list(before.found)) if is_same else ({}, [])
        problem = None
        for stream in tables:
            try:
                if not self._stream(stream, files, found):
                    problem = f"{FOUND_MAX} bodies hold card data: redact them, and more may be found"
            except FAILURES as failed:
                problem = " ".join(str(failed).split())
                log.warning("the bodies of %s can't be read: %s", stream.stream, problem)
        return Scanned(
            self._clock.now(), self._version, files, tuple(found), self._bodies, problem is None, problem or ""
        )

    def _stream(self, stream: StreamTables, files: dict[str, Sequence[str]], found: list[Found]) -> bool:
        """Adds a stream's files and what is in them, file by file; False where `FOUND_MAX` leave some unread."""
        now, read = self._clock.now(), set(files.get(stream.stream, ()))
        there = [one for one in body_files(str(stream.bodies)) if one.written_at <= now - SETTLED]
        mine = {one.body_sha256: one for one in _still_there(stream, found)}
        found[:] = [*(one for one in found if one.stream != stream.stream), *mine.values()]
        done = [one.name for one in there if one.name in read]
        files[stream.stream] = done
        for file in (one for one in there if one.name not in read):
            if len(found) >= FOUND_MAX:
                return False
            new = {one.body_sha256: one for one in self._file(stream, file)}
            found += [one for sha256, one in new.items() if sha256 not in mine]
            mine |= new
            done.append(file.name)
        return True

    def _file(self, stream: StreamTables, file: BodyFile) -> Iterator[Found]:
        together: dict[str, bytes] = {}
        size = 0
        for sha256, body in file.bodies():
            self._bodies += 1
            if self._masker.may_hold(body):
                together[sha256] = body
                size += len(body)
            if len(together) >= TOGETHER_MAX or size >= TOGETHER_BYTES_MAX:
                yield from self._found(stream, together)
                together, size = {}, 0
        yield from self._found(stream, together)

    def _found(self, stream: StreamTables, bodies: Mapping[str, bytes]) -> Iterator[Found]:
        """A body of several events holds card data if it isn't the id of any of them."""
        for sha256, events in self._events(stream, bodies).items():
            masked = [self._masker.masked(event, self._adapters[event.provider]).body for event in events]
            if all(body != bodies[sha256] for body in masked):
                yield Found(stream.stream, events[0].event_key, sha256, places(bodies[sha256], masked[0]))

    def _events(self, stream: StreamTables, bodies: Mapping[str, bytes]) -> dict[str, list[Event]]:
        """The events of bodies, as the receiver named them; not payhook's own and those of an unknown provider."""
        found: dict[tuple[str, str], Event] = {}
        if bodies and has_table(str(stream.journal)):
            rows = dataset_of(open_table(str(stream.journal)))
            wanted = pc.field("body_sha256").isin(pa.array(sorted(bodies), pa.string()))
            for batch in rows.to_batches(columns=list(COLUMNS), filter=wanted & pc.field("first")):
                for row in batch.to_pylist():
                    if row["provider"] in self._adapters and row["event_key"] is not None:
                        found.setdefault(
                            (row["body_sha256"], row["event_key"]), _event(row, bodies[row["body_sha256"]])
                        )
        by_body: dict[str, list[Event]] = {}
        for (sha256, _), event in found.items():
            by_body.setdefault(sha256, []).append(event)
        return by_body


def places(body: bytes, masked: bytes) -> tuple[str, ...]:
    """Where the two differ: at most `PLACES_MAX`, and nothing of what was masked."""
    try:
        found = list(_pointers(strict_json.loads(body), strict_json.loads(masked), ""))
    except Unparseable:
        found = []
    if not found:
        found = [f"byte {next(at for at, (one, other) in enumerate(zip(body, masked, strict=True)) if one != other)}"]
    return tuple(without_card_numbers(one)[:PLACE_CHARS_MAX] for one in found[:PLACES_MAX])


def _pointers(before: Any, after: Any, at: str) -> Iterator[str]:
    """JSON pointers (RFC 6901) with names as they are in ``after``."""
    if isinstance(before, dict) and isinstance(after, dict) and len(before) == len(after):
        for (name, value), (masked_name, masked) in zip(before.items(), after.items(), strict=True):
            below = f"{at}/{masked_name.replace('~', '~0').replace('/', '~1')}"
            if name != masked_name:
                yield below
            yield from _pointers(value, masked, below)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (value, masked) in enumerate(zip(before, after, strict=True)):
            yield from _pointers(value, masked, f"{at}/{number}")
    elif before != after:
        yield at


def _event(row: Mapping[str, Any], body: bytes) -> Event:
    headers = json.loads(row["headers"]) if row["headers"] else {}
    return Event(
        provider=row["provider"],
        event_id=unquote(str(headers.get("ce_id", ""))),
        event_type=row["event_type"] or "",
        event_key=row["event_key"],
        entity_key=row["entity_key"] or "",
        content_sha256="",
        content_version=0,
        body=body,
        mode=cast(Mode, row["mode"]),
        account=unquote(row["account"] or ""),
        fact_key=row["fact_key"],
        poison=POISON_TYPE if row["event_type"] == POISON_TYPE else None,
        tenant=row["tenant"],
        zone=row["zone"],
    )


def _still_there(stream: StreamTables, found: Sequence[Found]) -> list[Found]:
    mine = [one for one in found if one.stream == stream.stream]
    if not mine or not has_table(str(stream.bodies)):
        return []
    held = BodyStore(str(stream.bodies), may_create=False).held(one.body_sha256 for one in mine)
    return [one for one in mine if one.body_sha256 in held]


def _version(settings: PanSettings) -> str:
    """Of what is masked: the settings and the code."""
    code = [inspect.getsource(module) for module in (card_numbers, pan, pan_body, pan_escapes)]
    return hashlib.sha256("".join([settings.model_dump_json(), *code]).encode()).hexdigest()
