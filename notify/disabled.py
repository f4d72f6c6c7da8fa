"""Who wants nothing more: one small file a subscriber, which outlives restarts, until a person enables it again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from notify.errors import NotDisabled
from notify.files import problem_of, sync_folder, write_new


@dataclass(frozen=True, slots=True)
class Disabled:
    """Since when (RFC 3339, UTC), and why."""

    at: str
    reason: str


class DisabledSubscribers:
    """A folder of ``NAME.json``. Every executor looks there before each request, so all of them stop at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, name: str) -> Disabled | None:
        """None while the subscriber isn't disabled. A file that can't be read disables: somebody put it there."""
        path = self._path(name)
        try:
            document = json.loads(path.read_text("utf-8"))
            return Disabled(str(document["at"]), str(document["reason"]))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError):
            return Disabled("", f"{path} is there but can't be read")

    def disable(self, name: str, at: str, reason: str) -> Disabled:
        """Writes it down; who was first stays.

        :raises NotDisabled: it can't be written
        """
        known = self.find(name)
        if known is not None:
            return known
        path = self._path(name)
        try:
            write_new(path, json.dumps({"subscriber": name, "at": at, "reason": reason}) + "\n", mode=0o644)
        except OSError as unwritable:
            raise NotDisabled(name, path, problem_of(unwritable)) from unwritable
        return Disabled(at, reason)

    def enable(self, name: str) -> bool:
        """Forgets it; False when the subscriber wasn't disabled."""
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            return False
        sync_folder(self._folder)
        return True

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"
