"""Style sheets and scripts: read once, few and small, each under an address that changes with its content."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "static"
PATH = "/static"
FOR_EVER = "public, max-age=31536000, immutable"
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".png": "image/png"}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """``version`` is of its content."""

    data: bytes
    media_type: str
    version: str


@functools.cache
def static_files() -> dict[str, StaticFile]:
    """Every file that may be asked for, by its name; nothing else is ever opened."""
    files = {}
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in TYPES:
            data = path.read_bytes()
            files[path.name] = StaticFile(data, TYPES[path.suffix], hashlib.sha256(data).hexdigest()[:16])
    return files


def static_url(name: str) -> str:
    """
    :raises KeyError: there is no such file
    """
    return f"{PATH}/{name}?v={static_files()[name].version}"
