"""Tables whose log or whose files were cut off or overwritten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def cut_log(table: Path) -> None:
    """The last entry of its log ends half way."""
    _halve(max((table / "_delta_log").glob("*.json")))


def cut_files(table: Path) -> None:
    """Each of its files ends half way; its log is whole."""
    for file in table.glob("*.parquet"):
        _halve(file)


def overwrite_files(table: Path) -> None:
    """Each of its files has as many other bytes; its log is whole."""
    for file in table.glob("*.parquet"):
        file.write_bytes(b"\0" * file.stat().st_size)


DAMAGES: tuple[Callable[[Path], None], ...] = (cut_log, cut_files, overwrite_files)


def _halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
