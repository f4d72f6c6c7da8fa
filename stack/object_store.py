"""An object store's address and keys, for everything in this process that reads or writes the lake.

delta-rs, the log's writers (`journal.objects`) and Spark all go by the same ``AWS_…`` variables of their process. They
are filled in once, before anything is opened.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from core.errors import SettingError
from journal.settings import StorageSettings

CREDENTIALS = "object-store"
"""The file's name in the folder of secrets."""

KEY_ID, SECRET = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"


def equip(settings: StorageSettings, secrets: Path, env: MutableMapping[str, str] = os.environ) -> None:
    """Tells this process where the lake's store is, and with which keys; nothing where the lake is on a disk.

    :raises SettingError: the file with the keys can't be read, or isn't one
    """
    if settings.url:
        env.update({**variables(settings), **_credentials(settings, secrets)})


def part_with_keys(settings: StorageSettings, secrets: Path, env: MutableMapping[str, str] = os.environ) -> None:
    """Forgets keys that came from a file: processes that this one starts read it themselves, if they need the lake."""
    if settings.url and _file(settings, secrets) is not None:
        for name in (KEY_ID, SECRET):
            env.pop(name, None)


def variables(settings: StorageSettings) -> Mapping[str, str]:
    """The store's address, and how it is asked."""
    told = {
        "AWS_REGION": settings.region,
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": str(not settings.path_style).lower(),
        "AWS_ALLOW_HTTP": str(settings.allow_http).lower(),
        "AWS_TIMEOUT": f"{settings.timeout_s:g}s",
        "AWS_CONNECT_TIMEOUT": f"{settings.connect_timeout_s:g}s",
        # A log's entry is put where none is yet, by delta-rs too; without it delta-rs refuses to write.
        "AWS_CONDITIONAL_PUT": "etag",
    }
    return told | ({"AWS_ENDPOINT_URL": settings.endpoint} if settings.endpoint else {})


def _credentials(settings: StorageSettings, secrets: Path) -> dict[str, str]:
    file = _file(settings, secrets)
    if file is None:
        return {}
    try:
        lines = [line.strip() for line in file.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as unreadable:
        raise SettingError("storage.credentials_file", f"{file} can't be read: {unreadable}") from unreadable
    if len(lines) != 2:
        raise SettingError("storage.credentials_file", f"{file} must have two lines: the key's id, and its secret")
    return dict(zip((KEY_ID, SECRET), lines, strict=True))


def _file(settings: StorageSettings, secrets: Path) -> Path | None:
    if settings.credentials_file:
        return Path(settings.credentials_file)
    usual = secrets / CREDENTIALS
    return usual if usual.is_file() else None
