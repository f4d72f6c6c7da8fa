"""The data folder is its owner's alone, and finance's tables a group's too where a setting names one."""

from __future__ import annotations

import grp
import os
import stat
from pathlib import Path

from core.errors import SettingError
from stack.settings import Settings

OWNER_ALONE, GROUP_READS = 0o077, 0o027
"""What a process takes away from the modes of all that it writes."""

PRIVATE, PASSED_THROUGH, READ = 0o700, 0o710, 0o2750
"""Modes of folders. In the last one what is made later is the same group's (set-group-ID)."""

TABLES = ("journal", "postings", "postings-test")
"""In the lake: what finance asks."""


def limit_rights(settings: Settings) -> None:
    """What this process makes from now on is its owner's alone; a group's to read, where its folder is the group's."""
    os.umask(GROUP_READS if settings.ledger.readers_group else OWNER_ALONE)


def own(settings: Settings) -> None:
    """For the start of a service: as `limit_rights`, and the data folder is its owner's alone.

    A folder of another owner is left as it is.

    :raises SettingError: there is no such group, or this user may not give files to it
    """
    limit_rights(settings)
    group = settings.ledger.readers_group
    root = settings.data_dir
    root.mkdir(parents=True, exist_ok=True)
    if root.stat().st_uid != os.geteuid():
        return
    if not group:
        root.chmod(PRIVATE)
        return
    try:
        _share(root, settings.storage.url == "", grp.getgrnam(group).gr_gid)
    except KeyError:
        raise SettingError("ledger.readers_group", f"there is no group {group}") from None
    except PermissionError as wrong:
        raise SettingError("ledger.readers_group", f"this user may not give files to {group}: {wrong}") from None


def _share(root: Path, has_lake: bool, group: int) -> None:
    _pass_through(root, group)
    if not has_lake:
        return
    _pass_through(root / "lake", group)
    for name in TABLES:
        table = root / "lake" / name
        table.mkdir(exist_ok=True)
        there = table.stat()
        if (there.st_gid, stat.S_IMODE(there.st_mode)) != (group, READ):
            _give(table, group)


def _pass_through(folder: Path, group: int) -> None:
    folder.mkdir(exist_ok=True)
    os.chown(folder, -1, group)
    folder.chmod(PASSED_THROUGH)


def _give(table: Path, group: int) -> None:
    """What is there already; the folder itself last, so that an interrupted start goes on with it."""
    for folder, _, files in os.walk(table, topdown=False):
        for file in files:
            os.chown(Path(folder) / file, -1, group)
            (Path(folder) / file).chmod(0o640)
        os.chown(folder, -1, group)
        Path(folder).chmod(READ)
