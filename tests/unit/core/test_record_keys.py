"""A record is believed if one of the known keys signed all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import core.record_keys as record_keys
from core.errors import SettingError
from core.record_keys import MAC_HEADER, Forged, Header, RecordKeys, check_record

OLD, NEW, OTHER = "0123456789abcdef" * 2, "fedcba9876543210" * 2, "0f1e2d3c4b5a6978" * 2
RECORD: dict[str, Any] = {"topic": "payments.events", "partition": 2, "key": b"pay_1", "value": b'{"a": 1}'}
HEADERS: list[Header] = [("event_key", b"stripe:evt_1:x"), ("entity_key", b"pay_1")]


def keys(folder: Path, *lines: str) -> RecordKeys:
    file = folder / "records"
    write(file, *lines)
    return RecordKeys(file)


def write(file: Path, *lines: str) -> None:
    """A file that is another one, as `mv` leaves it."""
    fresh = file.with_suffix(".fresh")
    fresh.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    fresh.replace(file)


def test_what_was_signed_is_believed_and_its_headers_come_back_as_they_were(tmp_path: Path) -> None:
    own = keys(tmp_path, NEW)
    signed = own.add_signature(**RECORD, headers=HEADERS)
    assert [name for name, _ in signed] == ["event_key", "entity_key", MAC_HEADER]
    assert check_record(own.now, **RECORD, headers=signed) == HEADERS


@pytest.mark.parametrize(
    "change",
    [
        {"topic": "payments.control"},
        {"partition": 3},
        {"key": b"pay_2"},
        {"key": None},
        {"value": b'{"a": 2}'},
        {"value": None},
        {"key": b"pay_1{", "value": b'"a": 1}'},
    ],
)
def test_a_part_that_was_changed_shows(tmp_path: Path, change: dict[str, Any]) -> None:
    own = keys(tmp_path, NEW)
    signed = own.add_signature(**RECORD, headers=HEADERS)
    with pytest.raises(Forged, match="has a signature that no known key made"):
        check_record(own.now, **{**RECORD, **change}, headers=signed)


@pytest.mark.parametrize(
    "headers",
    [
        [("event_key", b"stripe:evt_2:x"), ("entity_key", b"pay_1")],
        [("entity_key", b"pay_1"), ("event_key", b"stripe:evt_1:x")],
        [("event_key", b"stripe:evt_1:x")],
        [("event_key", b"stripe:evt_1:x"), ("entity_key", b"pay_1"), ("more", b"")],
        [("event_keys", b"tripe:evt_1:x"), ("entity_key", b"pay_1")],
        [("event_key", b"stripe:evt_1:x"), ("entity_key", None)],
    ],
)
def test_headers_that_were_changed_show(tmp_path: Path, headers: list[Header]) -> None:
    own = keys(tmp_path, NEW)
    mac = own.add_signature(**RECORD, headers=HEADERS)[-1]
    with pytest.raises(Forged):
        check_record(own.now, **RECORD, headers=[*headers, mac])


def test_what_is_not_there_is_not_what_is_empty(tmp_path: Path) -> None:
    own = keys(tmp_path, NEW)
    signed = own.add_signature("t", 0, None, b"", [])
    with pytest.raises(Forged):
        check_record(own.now, "t", 0, b"", b"", signed)
    with pytest.raises(Forged):
        check_record(own.now, "t", 0, None, None, signed)


def test_without_a_signature_with_two_or_with_anothers_nothing_is_believed(tmp_path: Path) -> None:
    own = keys(tmp_path, NEW)
    with pytest.raises(Forged, match="has no signature"):
        check_record(own.now, **RECORD, headers=HEADERS)
    signed = own.add_signature(**RECORD, headers=HEADERS)
    with pytest.raises(Forged):
        check_record(own.now, **RECORD, headers=[*signed, signed[-1]])
    with pytest.raises(Forged):
        check_record(own.now, **RECORD, headers=[*HEADERS, (MAC_HEADER, None)])
    (tmp_path / "other").mkdir()
    with pytest.raises(Forged):
        check_record(keys(tmp_path / "other", OTHER).now, **RECORD, headers=signed)


def test_keys_are_rolled_while_all_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_keys, "LOOK_S", 0.0)
    own = keys(tmp_path, OLD)
    by_old = own.add_signature(**RECORD, headers=HEADERS)
    write(tmp_path / "records", OLD, NEW)
    assert own.add_signature(**RECORD, headers=HEADERS) == by_old, "the new one is only accepted yet"
    write(tmp_path / "records", NEW, OLD)
    by_new = own.add_signature(**RECORD, headers=HEADERS)
    assert by_new != by_old
    for signed in (by_old, by_new):
        assert check_record(own.now, **RECORD, headers=signed) == HEADERS
    write(tmp_path / "records", NEW)
    with pytest.raises(Forged):
        check_record(own.now, **RECORD, headers=by_old)


def test_a_file_that_is_gone_or_wrong_leaves_the_keys_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(record_keys, "LOOK_S", 0.0)
    own = keys(tmp_path, NEW)
    signed = own.add_signature(**RECORD, headers=HEADERS)
    (tmp_path / "records").unlink()
    assert check_record(own.now, **RECORD, headers=signed) == HEADERS
    write(tmp_path / "records", "short")
    assert check_record(own.now, **RECORD, headers=signed) == HEADERS
    assert "stay as they are" in caplog.text and "short" not in caplog.text


@pytest.mark.parametrize("lines", [(), ("tooshortakey0123456",), ("# a comment",)])
def test_at_the_start_a_file_without_good_keys_is_refused_and_the_way_out_is_said(
    tmp_path: Path, lines: tuple[str, ...]
) -> None:
    with pytest.raises(SettingError, match="openssl rand -hex 32"):
        keys(tmp_path, *lines)
    with pytest.raises(SettingError, match="can't be read"):
        RecordKeys(tmp_path / "nowhere")
