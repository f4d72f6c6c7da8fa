"""CloudEvents over Kafka: the same event in binary and in structured mode, and what isn't one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from core.errors import Unparseable
from core.source_record import NotAnEvent, RecordIdentity, SourceRecord
from processor.source.foreign import extract_data, identify_cloudevent, unwrap_value

PLACED = {
    "specversion": "1.0",
    "id": "o-17",
    "source": "/shop/eu",
    "type": "com.example.order.placed",
    "time": "2026-01-31T12:00:00.5Z",
    "subject": "order 17",
}
IDENTITY = RecordIdentity(
    "/shop/eu o-17",
    "customer 4",
    "com.example.order.placed",
    datetime(2026, 1, 31, 12, 0, 0, 500_000, tzinfo=UTC),
)
JSON_FORMAT = "application/cloudevents+json"


def record(
    value: bytes | None, headers: dict[str, str], key: bytes | None = b"customer 4", names: str = "{}"
) -> SourceRecord:
    pairs = tuple((names.format(name), text.encode()) for name, text in headers.items())
    return SourceRecord("orders", 0, 0, key, value, pairs, None, json.loads)


def binary(key: bytes | None = b"customer 4", **changed: str | None) -> SourceRecord:
    attributes = {**PLACED, **changed}
    return record(b"{}", {f"ce_{name}": text for name, text in attributes.items() if text is not None}, key)


def structured(content_type: str = JSON_FORMAT, **members: Any) -> SourceRecord:
    return record(json.dumps({**PLACED, **members}).encode(), {"content-type": content_type})


def test_both_modes_name_the_same_event() -> None:
    assert identify_cloudevent(binary()) == IDENTITY
    assert identify_cloudevent(structured()) == IDENTITY


@pytest.mark.parametrize(
    "content_type", [JSON_FORMAT, "Application/CloudEvents+JSON; charset=UTF-8", f"{JSON_FORMAT} ;charset=utf-8"]
)
def test_a_media_type_is_read_as_its_grammar_says(content_type: str) -> None:
    assert identify_cloudevent(structured(content_type)) == IDENTITY


def test_names_of_headers_that_a_gateway_wrote_in_capitals_are_known() -> None:
    written = record(b"{}", {f"Ce_{name}": text for name, text in PLACED.items()})
    assert identify_cloudevent(written) == IDENTITY


@pytest.mark.parametrize(
    ("key", "changed", "entity"),
    [
        (b"customer 4", {}, "customer 4"),
        (b"\x00\xff", {}, "hex-00ff"),
        (None, {"partitionkey": "p1"}, "p1"),
        (None, {}, "/shop/eu order 17"),
        (None, {"subject": None}, "/shop/eu o-17"),
    ],
)
def test_an_entity_is_the_key_else_the_partition_key_else_the_subject(
    key: bytes | None, changed: dict[str, str | None], entity: str
) -> None:
    found = identify_cloudevent(binary(key, **changed))
    assert isinstance(found, RecordIdentity)
    assert found.entity == entity


@pytest.mark.parametrize("missing", ["specversion", "id", "source", "type"])
def test_what_lacks_an_attribute_is_an_error_that_names_it(missing: str) -> None:
    with pytest.raises(ValueError, match=f"{missing} missing; name an identity function"):
        identify_cloudevent(binary(**{missing: None}))


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (binary(specversion="0.3"), "version 0.3"),
        (binary(time="yesterday"), "yesterday"),
        (structured("application/cloudevents+avro"), r"as application/cloudevents\+avro"),
        (structured("application/cloudevents-batch+json"), "structured mode"),
        (record(b"[1]", {"content-type": JSON_FORMAT}), "missing"),
        (record(b"{}", {}), "it is no CloudEvent"),
    ],
)
def test_what_is_no_cloudevent_is_an_error(wrong: SourceRecord, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        identify_cloudevent(wrong)


def test_an_envelope_that_two_readers_would_read_differently_is_an_error() -> None:
    twice = json.dumps(PLACED).replace('"id": "o-17"', '"id": "o-17", "id": "o-18"').encode()
    with pytest.raises(Unparseable):
        identify_cloudevent(record(twice, {"content-type": JSON_FORMAT}))


def test_a_tombstone_is_no_event_and_an_event_without_data_is_one() -> None:
    assert identify_cloudevent(record(None, {})) == NotAnEvent("a tombstone")
    assert identify_cloudevent(record(None, {f"ce_{name}": text for name, text in PLACED.items()})) == IDENTITY


@pytest.mark.parametrize(
    ("member", "data"),
    [
        (
            '"data": {"amount": 1.10, "of": [1E2]}',
            b'{"amount": 1.10, "of": [1E2]}',
        ),
        ('"data" : "a \\u00e9 text"', b'"a \\u00e9 text"'),
        ('"data_base64": "AAH/"', b"\x00\x01\xff"),
        ('"data": null', b"null"),
        ('"comexampleextra": "x"', b""),
    ],
)
def test_the_data_of_structured_mode_comes_out_byte_for_byte(member: str, data: bytes) -> None:
    envelope = json.dumps(PLACED)[:-1] + f" , {member} " + "}"
    assert extract_data(f" {envelope}\n".encode()) == data


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"id": "o-17"}', b"[1]", b"\xff", b"{", json.dumps({**PLACED, "id": 1}).encode()]
)
def test_what_is_no_envelope_stays_as_it_is(body: bytes) -> None:
    assert extract_data(body) == body


def test_a_framing_around_json_is_taken_off() -> None:
    assert unwrap_value(b'\x00\x00\x00\x00\x01{"a":1}', is_event=True, is_json=True) == b'{"a":1}'
    assert unwrap_value(b"\x00\x00\x00\x00\x01{", is_event=False, is_json=False) == b"\x00\x00\x00\x00\x01{"
