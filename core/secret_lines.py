"""Secrets as they stand in files: one a line, the newest first; or a name and its password, two lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from core.errors import SettingError

CHARS_MIN = 16
DIFFERENT_CHARS_MIN = 6
"""A secret with fewer is guessed: keys of HMAC are to be as hard to guess as their hash."""

_PEM_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]+-----")
_PRINTABLE = re.compile(r"[\x21-\x7e]+")


class SecretsWrong(ValueError):
    """Raised when a line of a file is no secret. Never says what stands in it."""


def secret_lines(text: str) -> tuple[str, ...]:
    """Reads the secrets of a file, one a line; a PEM block is one.

    Nothing else is accepted: a comment or a word too many would be a key that everybody knows.

    :raises SecretsWrong: names the line
    """
    return tuple(_read_secrets(text.replace("\r\n", "\n").removesuffix("\n").split("\n")))


def _read_secrets(lines: list[str]) -> Iterator[str]:
    block: list[str] = []
    for number, line in enumerate(lines, 1):
        if block or _PEM_BEGINS.fullmatch(line):
            block.append(line)
            if line == block[0].replace("BEGIN", "END", 1):
                yield "\n".join(block)
                block = []
            continue
        yield _check_line(line, number)
    if block:
        raise SecretsWrong("its PEM block has no end")


def _check_line(line: str, number: int) -> str:
    if not line:
        raise SecretsWrong(f"line {number} is empty")
    if line.startswith("#"):
        raise SecretsWrong(f"line {number} is a comment; a secret's file holds secrets and nothing else")
    if not _PRINTABLE.fullmatch(line):
        raise SecretsWrong(f"line {number} holds a blank or what isn't ASCII; each line is one secret")
    if len(line) < CHARS_MIN or len(set(line)) < DIFFERENT_CHARS_MIN:
        raise SecretsWrong(
            f"line {number} is too weak: a secret has {CHARS_MIN} characters or more, "
            f"{DIFFERENT_CHARS_MIN} of them different"
        )
    return line


class Credentials(NamedTuple):
    """Holds who a client is, and what proves it."""

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
