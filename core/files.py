"""Small files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def create_once(path: Path, text: str, mode: int = 0o600) -> None:
    """Makes a whole file in one step; one that is there is never touched.

    So of several processes that start at once all read the same.

    :raises OSError: it can't be made
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.touch(mode)
    fresh.write_text(text, "utf-8")
    with contextlib.suppress(FileExistsError):
        os.link(fresh, path)
    fresh.unlink()
