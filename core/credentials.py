"""A name and its password, which stand in a file of their own: two lines, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from core.errors import SettingError


class Credentials(NamedTuple):
    """Who a client is, and what proves it."""

    name: str
    password: str


def read_credentials(file: Path, setting: str) -> Credentials:
    """The file as it is now. What is wrong is said by ``setting``, without a word of what the file holds.

    :raises SettingError: it can't be read, or hasn't two lines
    """
    try:
        lines = [line.strip() for line in file.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as unreadable:
        raise SettingError(setting, f"{file} can't be read: {type(unreadable).__name__}") from unreadable
    if len(lines) != 2:
        raise SettingError(setting, f"{file} must have two lines: the name (or the key's id), and its password")
    return Credentials(*lines)
