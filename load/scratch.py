"""A folder that a run empties before it begins, if an earlier run of the same command left all that it holds."""

from __future__ import annotations

import shutil
from pathlib import Path

from core.errors import PayhookError

MARKER = ".payhook-scratch"
"""The file that says which command may empty the folder."""

SCRATCH_HELP = "a folder for this run alone: an empty or a new one, or that of an earlier run, which is emptied first"

NAMES_SHOWN_MAX = 3


class NotScratch(PayhookError):
    """The folder holds what no earlier run left. Nothing was removed."""

    def __init__(self, folder: Path, command: str, names: list[str]) -> None:
        self.folder = folder
        self.command = command
        self.names = names
        held = ", ".join(names[:NAMES_SHOWN_MAX]) + (", …" if len(names) > NAMES_SHOWN_MAX else "")
        super().__init__(
            f"{folder} holds {held}, and no earlier run of {command} left that. Nothing was removed. Name an empty "
            f"or a new folder with --data, or empty this one yourself"
        )


def empty_scratch_folder(folder: Path, command: str) -> None:
    """Makes the folder and marks it as this command's; removes what is in it, if the command marked it before.

    :raises NotScratch: something is in it, and the command didn't mark it
    :raises OSError: it is no folder, or something in it can't be removed
    """
    folder.mkdir(parents=True, exist_ok=True)
    marker = folder / MARKER
    found = sorted(path for path in folder.iterdir() if path.name != MARKER)
    if found and not _is_marked(marker, command):
        raise NotScratch(folder, command, [path.name for path in found])
    # The marker stays all the time: where this is interrupted, the next run may continue.
    marker.write_text(command + "\n", "utf-8")
    for path in found:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _is_marked(marker: Path, command: str) -> bool:
    try:
        return marker.read_text("utf-8").strip() == command
    except (FileNotFoundError, UnicodeDecodeError):
        return False
