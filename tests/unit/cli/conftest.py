"""Commands run in a folder of their own, and see neither settings nor data of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cheap_passwords import real_hasher

__all__ = ["real_hasher"]


@pytest.fixture(autouse=True)
def nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A command's ``--data`` is said to the whole process: what it was before is put back."""
    monkeypatch.setenv("PAYHOOK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
