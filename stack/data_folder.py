"""The data folder: whose it is, and the files that a fresh one needs.

It is its owner's alone, and finance's tables a group's too where a setting names one.
"""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from core.errors import SettingError
from core.files import create_once
from core.routing import MODES
from journal.anchors import new_key
from providers.port import Adapter
from stack.settings import Settings

OWNER_ALONE, GROUP_READS = 0o077, 0o027
"""What a process takes away from the modes of all that it writes."""

PRIVATE, PASSED_THROUGH, READ = 0o700, 0o710, 0o2750
"""Modes of folders. In the last one what is made later is the same group's (set-group-ID)."""

DEFAULT_MERCHANT = "merchant-main"


def limit_rights(settings: Settings) -> None:
    """Makes all that this process writes from now on its owner's alone; a group may read what is in its folder."""
    os.umask(GROUP_READS if settings.ledger.readers_group else OWNER_ALONE)


def secure_data_folder(settings: Settings) -> None:
    """Limits rights at the start of a service, as `limit_rights`, and makes the data folder its owner's alone.

    A folder of another owner is left as it is.

    :raises SettingError: the folder can't be written; there is no such group, or this user may not give files to it
    """
    limit_rights(settings)
    group = settings.ledger.readers_group
    root = settings.data_dir
    _check_writable(root)
    if root.stat().st_uid != os.geteuid():
        return
    if not group:
        root.chmod(PRIVATE)
        return
    try:
        _share_tables(root, _list_tables(settings), grp.getgrnam(group).gr_gid)
    except KeyError:
        raise SettingError("ledger.readers_group", f"there is no group {group}") from None
    except PermissionError as wrong:
        raise SettingError("ledger.readers_group", f"this user may not give files to {group}: {wrong}") from None


def _check_writable(root: Path) -> None:
    problem = ""
    try:
        root.mkdir(parents=True, exist_ok=True)
        if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
            problem = f"Permission denied: it is user {root.stat().st_uid}'s"
    except OSError as wrong:
        problem = wrong.strerror or type(wrong).__name__
    if problem:
        raise SettingError("data_dir", f"{root} can't be used by user {os.geteuid()}: {problem}")


def make_secrets(folder: Path, adapters: Mapping[str, Adapter]) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, adapter in adapters.items():
        create_once(folder / name, adapter.new_secret() + "\n", 0o600)


def make_key(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    create_once(file, new_key() + "\n", 0o600)


def make_merchants(path: Path, providers: Iterable[str]) -> None:
    lines = [f'[{provider}]\n"*" = "{DEFAULT_MERCHANT}"\n' for provider in providers]
    path.parent.mkdir(parents=True, exist_ok=True)
    create_once(path, "\n".join(lines), 0o644)


def _list_tables(settings: Settings) -> list[Path]:
    if settings.storage.url:
        return []
    ledgers = [ledger for mode in MODES for ledger in settings.layout.all_ledgers(mode)]
    return [settings.data_dir / "lake" / "journal", *(Path(str(ledger.postings)) for ledger in ledgers)]


def _share_tables(root: Path, tables: Sequence[Path], group: int) -> None:
    _pass_through(root, group)
    if tables:
        _pass_through(root / "lake", group)
    for table in tables:
        table.mkdir(exist_ok=True)
        status = table.stat()
        if (status.st_gid, stat.S_IMODE(status.st_mode)) != (group, READ):
            _give_table(table, group)


def _pass_through(folder: Path, group: int) -> None:
    folder.mkdir(exist_ok=True)
    os.chown(folder, -1, group)
    folder.chmod(PASSED_THROUGH)


def _give_table(table: Path, group: int) -> None:
    """Gives a group the files that are there; the folder itself last, so that an interrupted start continues with
    it."""
    for folder, _, files in os.walk(table, topdown=False):
        for file in files:
            os.chown(Path(folder) / file, -1, group)
            (Path(folder) / file).chmod(0o640)
        os.chown(folder, -1, group)
        Path(folder).chmod(READ)
