"""Tables on a disk of this machine, or on a mount that has hard links."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from core.clock import from_micros
from journal.files import put_file, put_new, sync
from journal.storage import StoredFile


class DiskStorage:
    """A table's folder. A file is put where none is by a link to a whole one: it fails if the name is taken."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put_new(self, name: str, data: bytes) -> None:
        put_new(self._folder / name, data)

    def put_file(self, name: str, data: bytes | pa.Buffer) -> None:
        put_file(self._folder / name, data)

    def adopt(self, staged: Path, name: str) -> None:
        os.utime(staged)
        sync(staged)
        try:
            staged.rename(self._folder / name)
        except OSError as failed:
            if failed.errno != errno.EXDEV:
                raise
            self._copy(staged, name)
        sync(self._folder)

    def _copy(self, staged: Path, name: str) -> None:
        """From another disk: whole under another name first."""
        copied = self._folder / f".{name}.{uuid.uuid4()}.tmp"
        try:
            shutil.copyfile(staged, copied)
            sync(copied)
            copied.rename(self._folder / name)
        finally:
            copied.unlink(missing_ok=True)
        staged.unlink()

    def read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def delete(self, name: str) -> None:
        file = self._folder / name
        file.unlink(missing_ok=True)
        sync(file.parent)

    def delete_all(self, names: Sequence[str]) -> None:
        for name in names:
            (self._folder / name).unlink(missing_ok=True)
        sync(self._folder)

    def files(self, folder: str = "", after: str = "") -> Iterator[StoredFile]:
        try:
            found = os.scandir(self._folder / folder)
        except FileNotFoundError:
            return
        with found:
            for one in found:
                if one.name > after and (told := _stat(one)) is not None:
                    yield StoredFile(one.name, told.st_size, from_micros(told.st_mtime_ns // 1_000))


def _stat(one: os.DirEntry[str]) -> os.stat_result | None:
    """None of a folder, and of a file that went since it was listed: a writer that was overtaken removes its own."""
    try:
        return one.stat() if one.is_file() else None
    except FileNotFoundError:
        return None
