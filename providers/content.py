"""The content that decides a conflict: an event's own names and its money. An adapter lists the fields; all others may
differ.

A provider sends an event again with other metadata, links or counters, or with fields that its API has by now: that is
a copy. With another amount, currency, status, or reference it is other content, for a person to see. The list is of
fields and not of what the adapter reads in them: what a later version books otherwise is the same content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from providers.fields import Path, content_hash

EACH = "*"
"""In a path: each item of an array, each value of an object."""


def fields_of(text: str) -> tuple[Path, ...]:
    """Returns the paths in lines such as ``data.object: id status``.

    A line that begins with a colon names fields of the document itself. One without a colon goes on with the line
    before it.
    """
    return tuple(_parse_paths(text))


def read_fields(document: object, fields: Sequence[Path]) -> dict[str, Any]:
    """Returns what a document has in each field, by its path. What isn't there, or null, counts nothing."""
    values = {".".join(path): _read_at(document, path) for path in fields}
    return {path: value for path, value in values.items() if value is not None}


def hash_fields(document: Mapping[str, Any], fields: Sequence[Path], more: Mapping[str, Any] | None = None) -> str:
    """Returns the content hash over fields. ``more``: what counts besides, by a name that is no field's."""
    return content_hash({**read_fields(document, fields), **(more or {})})


def _parse_paths(text: str) -> Iterator[Path]:
    holder: Path = ()
    for line in text.split("\n"):
        prefix, colon, listed = line.rpartition(":")
        if colon:
            holder = tuple(part for part in prefix.strip().split(".") if part)
        yield from ((*holder, name) for name in listed.split())


def _read_at(holder: object, path: Path) -> Any:
    for number, name in enumerate(path):
        if name == EACH:
            return _read_each(holder, path[number + 1 :])
        if not isinstance(holder, dict):
            return None
        holder = holder.get(name)
    return holder


def _read_each(holder: object, path: Path) -> Any:
    if isinstance(holder, dict):
        by_name = {name: _read_at(value, path) for name, value in holder.items()}
        return {name: value for name, value in by_name.items() if value is not None} or None
    if isinstance(holder, list):
        values = [_read_at(value, path) for value in holder]
        return values if any(value is not None for value in values) else None
    return None
