"""An event that still waits, and how the index stores it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import orjson

from core.decision import OPEN_DECISIONS, Decision, ErrorKind
from journal.schema import JournalRow

_HEAD = struct.Struct(">QI")
_TIMES = ("due_at", "occurred_at", "received_at", "decided_at")
_NAMES = tuple(field.name for field in fields(JournalRow))


@dataclass(frozen=True, slots=True)
class OpenItem:
    """An event that still waits. ``row`` is its last row with the first one's headers."""

    row: JournalRow
    body: bytes
    last_seq: int


def leaves_open(row: JournalRow) -> bool:
    """Whether the row's item waits after it. A command's own row isn't an item that could."""
    return row.decision in OPEN_DECISIONS and not (row.first and row.decision is Decision.REPLAYED)


def pack(item: OpenItem) -> bytes:
    """Last seq, length of the row, the row as JSON without its NULLs, the body."""
    row = {name: value for name in _NAMES if (value := getattr(item.row, name)) is not None}
    text = orjson.dumps(row)
    return _HEAD.pack(item.last_seq, len(text)) + text + item.body


def unpack(raw: bytes) -> OpenItem:
    """The inverse of `pack`."""
    last_seq, length = _HEAD.unpack_from(raw)
    until = _HEAD.size + length
    row: dict[str, Any] = orjson.loads(raw[_HEAD.size : until])
    for name in _TIMES:
        if name in row:
            row[name] = datetime.fromisoformat(row[name])
    row["decision"] = Decision(row["decision"])
    if "error_kind" in row:
        row["error_kind"] = ErrorKind(row["error_kind"])
    return OpenItem(JournalRow(**row), raw[until:], last_seq)
