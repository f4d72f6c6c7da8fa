"""What isn't called as usual, and why, in words for `payhook status`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def held_back(streams: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Lines about the downstreams that streams' statuses name under ``downstreams``; none of those that are well."""
    told = {name: one for stream in streams for name, one in stream.get("downstreams", {}).items()}
    return [(f"downstream {name}", f"{one['text']}; {_counted(one)}") for name, one in told.items() if _is_held(one)]


def _is_held(one: Mapping[str, Any]) -> bool:
    return bool(one["state"] != "closed")


def _counted(one: Mapping[str, Any]) -> str:
    return f"{one['failed']:,} of {one['calls']:,} calls failed, {one['held']:,} weren't made"
