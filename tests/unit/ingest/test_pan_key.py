"""The key of masked events' hashes: made once, read by every receiver, and refused where it is none."""

from __future__ import annotations

import hashlib
import hmac
import stat
from pathlib import Path

import pytest

from core.errors import SettingError
from ingest.pan import MaskingKey

KEY = "0123456789abcdef" * 2


def test_the_key_is_made_once_and_only_its_owner_reads_it(tmp_path: Path):
    file = tmp_path / "masking"
    first = MaskingKey.read(file)
    made = file.read_text()
    assert MaskingKey.read(file).sha256(b"x") == first.sha256(b"x")
    assert file.read_text() == made
    assert len(made.strip()) == 64
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["masking"]
    assert MaskingKey.read(tmp_path / "other").sha256(b"x") != first.sha256(b"x")


def test_the_hash_is_rfc_2104s(tmp_path: Path):
    (tmp_path / "masking").write_text(KEY + "\n")
    expected = hmac.new(KEY.encode(), b"body", hashlib.sha256).hexdigest()
    assert MaskingKey.read(tmp_path / "masking").sha256(b"body") == expected


@pytest.mark.parametrize("text", ["", "short", "k" * 32, KEY[:31], f"{KEY}\n{KEY[::-1]}\n", f"# new\n{KEY}\n"])
def test_what_is_no_key_is_refused(tmp_path: Path, text: str):
    (tmp_path / "masking").write_text(text)
    with pytest.raises(SettingError, match="ingest.secrets_dir"):
        MaskingKey.read(tmp_path / "masking")


def test_a_folder_in_which_it_cant_be_made_is_named(tmp_path: Path):
    with pytest.raises(SettingError, match="nowhere"):
        MaskingKey.read(tmp_path / "nowhere" / "masking")
