"""Values that say by which schema they were written: each is read by that one, whatever the stream's own is by now."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import fastavro.schema
import orjson
import pytest

from core.errors import SettingError
from processor.workers.framing import drop_head, unframe_message
from processor.workers.payload import Decoder, PayloadUndecodable, make_decoder
from tests.unit.processor.workers.payloads import descriptors, payment, protobuf


def order(**fields: Any) -> dict[str, Any]:
    """A schema: a field's type, or its type and default."""
    of = [
        {"name": name, **({"type": kind[0], "default": kind[1]} if isinstance(kind, tuple) else {"type": kind})}
        for name, kind in fields.items()
    ]
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": of}


FIRST = order(id="string", amount_minor="int", note="string")
SECOND = order(id="string", amount_minor="long", currency="string")
READER = order(id="string", amount_minor="long", currency=("string", "EUR"))


def datum(schema: Any, **values: Any) -> bytes:
    whole = io.BytesIO()
    fastavro.schemaless_writer(whole, fastavro.parse_schema(schema), values)
    return whole.getvalue()


def single_object(schema: Any, **values: Any) -> bytes:
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    return b"\xc3\x01" + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")) + datum(schema, **values)


def confluent(number: int, schema: Any, **values: Any) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + datum(schema, **values)


def resolving(folder: Path, reader: Any = READER, **schemas: Any) -> Decoder:
    (folder / "schemas").mkdir(exist_ok=True)
    for name, schema in schemas.items():
        (folder / "schemas" / f"{name.removeprefix('id')}.avsc").write_text(json.dumps(schema), "utf-8")
    if reader is None:
        return make_decoder("avro", schemas=str(folder / "schemas"))
    (folder / "order.avsc").write_text(json.dumps(reader), "utf-8")
    return make_decoder(f"avro:{folder / 'order.avsc'}", schemas=str(folder / "schemas"))


def test_both_versions_are_resolved_to_the_streams_own_by_id_and_by_fingerprint(tmp_path: Path) -> None:
    decoder = resolving(tmp_path, id1=FIRST, id2=SECOND)
    first, second = {"id": "a", "amount_minor": 7, "note": "n"}, {"id": "b", "amount_minor": 2**40, "currency": "USD"}
    for value in (confluent(1, FIRST, **first), single_object(FIRST, **first)):
        assert orjson.loads(decoder(value)) == {"id": "a", "amount_minor": 7, "currency": "EUR"}
    for value in (confluent(2, SECOND, **second), single_object(SECOND, **second)):
        assert orjson.loads(decoder(value)) == second


def test_what_was_written_before_a_change_is_read_after_it(tmp_path: Path) -> None:
    """It waits, or is dead, while the stream's schema changes: the folder still knows how it was written."""
    waiting = confluent(1, FIRST, id="a", amount_minor=7, note="n")
    assert orjson.loads(resolving(tmp_path, FIRST, id1=FIRST)(waiting))["note"] == "n"
    changed = resolving(tmp_path, READER, id2=SECOND)
    assert orjson.loads(changed(waiting)) == {"id": "a", "amount_minor": 7, "currency": "EUR"}


def test_without_a_schema_of_its_own_a_stream_gets_what_was_written(tmp_path: Path) -> None:
    decoder = resolving(tmp_path, None, id1=FIRST)
    assert orjson.loads(decoder(confluent(1, FIRST, id="a", amount_minor=7, note="n"))) == {
        "id": "a",
        "amount_minor": 7,
        "note": "n",
    }


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (confluent(3, FIRST, id="a", amount_minor=7, note="n"), r"the schema 3 \(3.avsc\) isn't in .*schemas: put it"),
        (single_object(order(other="int"), other=1), "the schema of fingerprint [0-9a-f]{16} isn't in"),
        (datum(FIRST, id="a", amount_minor=7, note="n"), "it names no schema"),
        (b"", "it names no schema"),
        (b"\x00\x00\x00", "it names no schema"),
        (confluent(1, FIRST, id="a", amount_minor=7, note="n") + b"x", "1 bytes follow the datum"),
    ],
)
def test_a_value_that_no_schema_of_the_folder_reads_is_undecodable(tmp_path: Path, value: bytes, problem: str) -> None:
    with pytest.raises(PayloadUndecodable, match=problem):
        resolving(tmp_path, id1=FIRST)(value)


def test_a_writer_that_the_reader_does_not_fit_is_undecodable(tmp_path: Path) -> None:
    with pytest.raises(PayloadUndecodable, match="currency"):
        resolving(tmp_path, order(currency="string"), id1=FIRST)(confluent(1, FIRST, id="a", amount_minor=7, note="n"))


def test_a_decimal_is_a_text_whichever_schema_says_how_it_is_read(tmp_path: Path) -> None:
    price = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    written, reader = order(price=price, more="int"), order(price=price)
    value = confluent(1, written, price=Decimal("12.50"), more=1)
    assert orjson.loads(resolving(tmp_path, reader, id1=written)(value)) == {"price": "12.50"}


@pytest.mark.parametrize(
    ("text", "files", "problem"),
    [
        ("avro", None, "there is no folder"),
        ("avro", {}, "holds no schema"),
        ("avro", {"1.avsc": "{"}, "can't be used"),
        ("json", {"1.avsc": "{}"}, "it is for payload = avro, this one is json"),
    ],
)
def test_a_folder_that_cannot_be_used_is_an_error_of_the_start(
    tmp_path: Path, text: str, files: dict[str, str] | None, problem: str
) -> None:
    folder = tmp_path / "schemas"
    if files is not None:
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_text(content, "utf-8")
    with pytest.raises(SettingError, match=problem):
        make_decoder(text, schemas=str(folder), setting="[orders] payload")


@pytest.mark.parametrize("head", [b"\x00\x00\x00\x00\x07\x00", b"\x00\x00\x00\x00\x07\x02\x00"], ids=["short", "long"])
def test_a_framed_protobuf_message_is_read_as_one_that_is_not(tmp_path: Path, head: bytes) -> None:
    """The path of a file's first message is written as one 0, or as a list that holds it."""
    body = payment(amount_minor=5, currency_code="EUR").SerializeToString()
    decoder = protobuf(tmp_path)
    assert decoder(head + body) == decoder(body)


@pytest.mark.parametrize(
    ("head", "problem"),
    [(b"\x00\x00\x00\x00\x07\x02\x02", r"it is message \[1\] of its schema"), (b"\x00\x00\x00\x00\x07", "is cut off")],
)
def test_a_framed_message_of_another_type_is_undecodable(tmp_path: Path, head: bytes, problem: str) -> None:
    with pytest.raises(PayloadUndecodable, match=problem):
        protobuf(tmp_path, content=descriptors())(head + (b"\x08\x05" if b"\x02\x02" in head else b""))


def test_a_framing_that_names_no_end_of_messages_is_refused() -> None:
    with pytest.raises(ValueError, match="a path of"):
        unframe_message(b"\x00\x00\x00\x00\x07\xfe\xff\x03")
    with pytest.raises(ValueError, match="is cut off"):
        unframe_message(b"\x00\x00\x00\x00\x07" + b"\xff" * 9)


def test_json_in_a_framing_is_the_json() -> None:
    assert drop_head(b'\x00\x00\x00\x00\x07{"id": 1}') == b'{"id": 1}'
    assert drop_head(b'{"id": 1}') == b'{"id": 1}'
    assert drop_head(b"") == b""
