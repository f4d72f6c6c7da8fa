"""Header versions: every record that was ever written is read, and those of a newer minor version too."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Unparseable
from core.event import (
    POISON_CHARS_MAX,
    SCHEMA_VERSION,
    STEPS,
    VERSION_HEADER,
    Dedupe,
    ReceivedEvent,
    Step,
    Texts,
    from_record,
    poison_event,
    quote_text,
    to_headers,
    unquote_text,
    upcast_headers,
    version_text,
)

RECORDS = Path(__file__).with_name("records")
"""Records as they stood in Kafka, one file each; ``expected`` is what was to be read from them."""

AT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def stored(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((RECORDS / f"{name}.json").read_text("utf-8"))
    return record


def read(record: dict[str, Any]) -> ReceivedEvent:
    return from_record(record["value"].encode(), [(name, text.encode()) for name, text in record["headers"]])


@pytest.mark.row("B7")
@pytest.mark.parametrize("name", sorted(file.stem for file in RECORDS.glob("*.json")))
def test_a_stored_record_is_read_as_it_was_meant(name: str) -> None:
    record = stored(name)
    received = read(record)
    reported = {field: getattr(received.event, field) for field in record["expected"]}
    assert reported == record["expected"]
    assert received.headers == dict(record["headers"]), "the audit keeps them as they were received"


def test_there_is_a_stored_record_of_every_version() -> None:
    versions = {dict(stored(file.stem)["headers"])[VERSION_HEADER] for file in RECORDS.glob("*.json")}
    assert versions == {version_text(version) for version in (*(step.version for step in STEPS), SCHEMA_VERSION)}


def test_a_record_of_a_newer_minor_version_is_read_and_what_is_new_is_kept_for_the_audit() -> None:
    record = stored("1.1-live")
    newer = f"{SCHEMA_VERSION[0]}.{SCHEMA_VERSION[1] + 7}"
    headers = [(name, newer if name == VERSION_HEADER else text) for name, text in record["headers"]]
    received = read({**record, "headers": [*headers, ["risk_score", "17"]]})
    assert received.event == read(record).event
    assert received.headers["risk_score"] == "17"


@pytest.mark.parametrize(
    ("version", "reported"),
    [
        ("2", "upgrade the processor first"),
        ("2.0", "header schema 2.0 is newer than 1.1"),
        ("1.0", "no release wrote header schema 1.0: have the provider send it again"),
        ("1", "no release wrote header schema 1.0"),
        ("0.9", "no release wrote"),
        ("0", "no release wrote"),
        ("one", "is wrong"),
        ("1.", "is wrong"),
        ("-1", "is wrong"),
        ("1.1.1", "is wrong"),
        ("99999999999999999999", "is wrong"),
    ],
)
def test_a_version_that_cannot_be_read_is_refused_and_says_what_to_do(version: str, reported: str) -> None:
    record = stored("1.1-live")
    headers = [(name, version if name == VERSION_HEADER else text) for name, text in record["headers"]]
    with pytest.raises(Unparseable, match=reported):
        read({**record, "headers": headers})


def renamed(old: str, new: str) -> Step:
    def lift(texts: Texts) -> None:
        texts[new] = texts.pop(old)

    version = (int(old[1:].split("_")[0]), int(old.split("_")[1]))
    return Step(version, lift)


def test_steps_are_taken_in_turn_from_the_records_own_version_on() -> None:
    """A later step sees what the earlier ones made; those before the record's version are left out."""
    steps = [renamed("v1_0", "v1_1"), renamed("v1_1", "v2_0"), renamed("v2_0", "v2_1")]
    for version in ("1.0", "1.1", "2.0", "2.1"):
        texts = {VERSION_HEADER: version, f"v{version.replace('.', '_')}": "x"}
        before = dict(texts)
        assert upcast_headers(texts, steps, (2, 1))["v2_1"] == "x"
        assert texts == before


# the text of poison


@given(
    st.text(
        st.characters(exclude_categories=["C", "Zl", "Zp", "Zs"], include_characters=" "), max_size=POISON_CHARS_MAX
    )
)
def test_a_printable_text_comes_back_as_it_was(text: str) -> None:
    assert unquote_text(quote_text(text)) == text


@given(st.text(max_size=2 * POISON_CHARS_MAX))
def test_any_text_is_plain_in_a_header_and_printable_behind_it(text: str) -> None:
    quoted = quote_text(text)
    assert all(" " <= char <= "~" for char in quoted)
    assert unquote_text(quoted).isprintable()
    assert unquote_text(text).isprintable()


def test_a_long_reason_of_poison_is_kept_and_not_its_hash() -> None:
    problem = "größer als erlaubt: " * 20
    poison = poison_event("stripe", b"\xff", "live", problem)
    assert from_record(poison.body, to_headers(poison, AT, Dedupe.CLAIMED)).event.poison == problem[:POISON_CHARS_MAX]
