"""Addresses of pages: keys of strangers become one segment of a path, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode


def address(path: str, query: Mapping[str, object] | None = None) -> str:
    """``path`` with what of ``query`` has a value; a list is a field given several times."""
    given = {name: value for name, value in (query or {}).items() if value not in (None, "", [], ())}
    return f"{path}?{urlencode(given, doseq=True, errors='replace')}" if given else path


def segment(text: str) -> str:
    """A text as a segment of a path: ``/`` and ``%`` too are quoted, and two dots are no way up."""
    quoted = quote(text, safe=":", errors="replace")
    return quoted.replace(".", "%2E") if set(text) == {"."} else quoted
