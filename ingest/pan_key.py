"""The key under which a masked event keeps hashes of its original: a plain hash gives the hidden digits to trying."""

from __future__ import annotations

import hmac
import secrets
from pathlib import Path

from core.errors import SettingError
from core.files import create_once
from core.secret_lines import secret_lines

SETTING = "ingest.pan.key_file"
FILE = "masking"
"""Beside the providers' secrets, unless the setting names another."""
KEY_CHARS_MIN = 32
"""128 bits where the key is hexadecimal."""


class MaskingKey:
    """HMAC-SHA256 (RFC 2104) under a key that no store of events holds."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    @classmethod
    def read(cls, file: Path) -> MaskingKey:
        """The key in ``file``; where there is no such file, a random key is made and kept there.

        :raises SettingError: the file can't be made or read, or holds no key of `KEY_CHARS_MIN` characters or more
        """
        make = f"`openssl rand -hex 32 > {file}` makes one, readable by payhook alone"
        try:
            if not file.exists():
                create_once(file, secrets.token_hex(32) + "\n")
            lines = secret_lines(file.read_text("utf-8"))
        except (OSError, ValueError) as unreadable:
            raise SettingError(SETTING, f"{file} can't be made or read ({unreadable}); {make}") from unreadable
        if len(lines) != 1 or len(lines[0]) < KEY_CHARS_MIN:
            raise SettingError(SETTING, f"{file} must hold one key of {KEY_CHARS_MIN} characters or more; {make}")
        return cls(lines[0])

    def sha256(self, original: bytes) -> str:
        """The keyed hash, 64 characters of lower-case hex as a plain one has."""
        return hmac.digest(self._key, original, "sha256").hex()
