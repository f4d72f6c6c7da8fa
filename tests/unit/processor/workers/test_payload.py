"""Avro and Protobuf at a stream's edge: the handler sees JSON, and what can't be read dies with a clear class."""

from __future__ import annotations

import contextlib
import json
import pickle
import time
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
)
from hypothesis import given
from hypothesis import strategies as st

from core.decision import ErrorKind
from core.errors import SettingError
from core.layout import Layout
from core.strict_json import DEPTH_MAX
from core.work import Applied, WorkItem
from processor.errors.classify import Classifier
from processor.streams import load_streams
from processor.wiring import wire_stream
from processor.workers import payload
from processor.workers.payload import Decoder, Decoding, PayloadTooLarge, PayloadUndecodable, make_decoder
from tests.unit.processor.harness import Engine
from tests.unit.processor.payload_handler import build
from tests.unit.processor.workers.payloads import (
    PAID_JSON,
    PAYMENT,
    array,
    avro,
    descriptors,
    encoded,
    payment,
    protobuf,
    record,
)

# settings


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("xml", "isn't known"),
        ("avro", "set payload_schemas"),
        ("avro:", "isn't known"),
        ("avro:/nowhere/a.avsc", "can't be read: No such file"),
        ("protobuf:a.desc", "isn't known"),
        ("protobuf:#M", "isn't known"),
        ("protobuf:/nowhere/a.desc#M", "can't be read: No such file"),
    ],
)
def test_a_payload_that_is_not_known_is_an_error_of_the_start(text: str, reported: str) -> None:
    with pytest.raises(SettingError, match=reported) as refused:
        make_decoder(text, setting="[orders] payload")
    assert refused.value.setting == "[orders] payload"


def test_a_schema_that_cannot_be_used_is_an_error_of_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no type is named|isn't known"):
        avro(tmp_path, {"type": "money"})
    with pytest.raises(SettingError, match=r"shop\.v1\.Refund"):
        protobuf(tmp_path, "shop.v1.Refund")
    with pytest.raises(SettingError, match="include_imports"):
        alone = descriptor_pb2.FileDescriptorSet.FromString(descriptors())
        del alone.file[0]
        protobuf(tmp_path, content=alone.SerializeToString())
    (tmp_path / "large.avsc").write_bytes(b" " * (payload.SCHEMA_BYTES_MAX + 1))
    with pytest.raises(SettingError, match="at most"):
        make_decoder(f"avro:{tmp_path / 'large.avsc'}")


# limits


def test_a_payload_beyond_the_limit_is_not_looked_at(tmp_path: Path) -> None:
    for decoder in (make_decoder("json", bytes_max=10), avro(tmp_path, bytes_max=10)):
        with pytest.raises(PayloadTooLarge, match="11 bytes, 10 is the most"):
            decoder(b"x" * 11)
    assert make_decoder("json", bytes_max=10)(b"x" * 10) == b"x" * 10


def test_json_that_grows_beyond_its_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "JSON_BYTES_MAX", 10)
    with pytest.raises(PayloadTooLarge, match="JSON"):
        avro(tmp_path)(encoded())


# in front of a handler


def work(body: bytes) -> WorkItem:
    return WorkItem(1, "k", "e", "shop", "acct", "t", body, None, 0)


def test_a_handler_behind_a_decoder_travels_and_sees_json(tmp_path: Path) -> None:
    travelled = pickle.loads(pickle.dumps(partial(Decoding, build, avro(tmp_path))))
    (tmp_path / "payment.avsc").unlink()
    handler = travelled()
    item = work(encoded())
    assert handler(item) == Applied()
    seen = handler._handler.item
    assert json.loads(seen.body) == PAID_JSON
    assert (seen.event_key, item.body) == ("k", encoded())
    assert handler.version.startswith("seen-1 avro:payment.avsc@")


def test_a_handler_of_json_gets_the_bytes_as_they_came() -> None:
    handler = Decoding(build, make_decoder("json"))
    handler(work(b"not even JSON"))
    assert handler._handler.item.body == b"not even JSON"  # type: ignore[attr-defined]
    assert handler.version == "seen-1"


@pytest.mark.row("D7")
@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (PayloadTooLarge("the payload", 11, 10), "PayloadTooLarge"),
        (PayloadUndecodable("avro:a", "x"), "PayloadUndecodable"),
    ],
)
def test_such_an_event_dies_with_a_clear_class(error: Exception, error_class: str) -> None:
    failure = Classifier().make_failure(pickle.loads(pickle.dumps(error)))
    assert (failure.kind, failure.error_class, failure.message) == (ErrorKind.NRE, error_class, str(error))


def test_a_stream_takes_its_payload_and_its_bound_from_its_configuration(tmp_path: Path) -> None:
    avro(tmp_path)
    config = load_streams(
        settings={
            "orders": {
                "source": "kafka:orders",
                "handler": "tests.unit.processor.payload_handler:build",
                "payload": f"avro:{tmp_path / 'payment.avsc'}",
                "payload_bytes_max": 500,
            }
        }
    )["orders"]
    wired = wire_stream(config, "live", Layout(tmp_path).stream, {})
    handler = pickle.loads(pickle.dumps(wired.task.build_handler))()
    handler(work(encoded()))
    assert json.loads(handler._handler.item.body) == PAID_JSON
    with pytest.raises(PayloadTooLarge):
        handler(work(b"x" * 501))


def test_a_payload_that_cannot_be_read_costs_its_own_event_and_its_bytes_are_kept(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "engine")
    letter = avro(tmp_path, {"type": "fixed", "name": "Letter", "size": 1})
    scripted = engine.handler
    engine.handler = Decoding(lambda: scripted, letter)  # type: ignore[assignment]
    engine.start()
    for event_id, entity in (("a", "e1"), ("bb", "e2"), ("c", "e3")):
        engine.post(event_id, entity=entity)
    applied, dead, other = engine.batch()
    assert [applied.decision, dead.decision, other.decision] == ["applied", "dead", "applied"]
    assert (dead.error_class, dead.error_kind, dead.attempt) == ("PayloadUndecodable", ErrorKind.NRE, 0)
    assert engine.bodies.by_hash[dead.body_sha256 or ""] == b"bb"
    assert (applied.handler_version or "").startswith("test-1")


def deep(body: bytes) -> Any:
    document: Any = 1
    for _ in range(int(body)):
        document = {"in": [document]}
    return document


def test_json_nests_no_deeper_than_a_handler_may_read() -> None:
    decoder = Decoder("deep", deep, 10)
    assert json.loads(decoder(b"%d" % (DEPTH_MAX // 2)))
    with pytest.raises(PayloadUndecodable, match="nested deeper"):
        decoder(b"%d" % (DEPTH_MAX // 2 + 1))


def test_an_avro_datum_becomes_json_without_losing_a_digit(tmp_path: Path) -> None:
    assert json.loads(avro(tmp_path)(encoded())) == PAID_JSON


@pytest.mark.row("B7")
def test_a_single_object_is_known_by_its_schemas_fingerprint(tmp_path: Path) -> None:
    decoder = avro(tmp_path)
    canonical = fastavro.schema.to_parsing_canonical_form(PAYMENT)
    mark = bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))
    assert decoder(b"\xc3\x01" + mark + encoded()) == decoder(encoded())
    with pytest.raises(PayloadUndecodable):
        decoder(b"\xc3\x01" + mark[::-1] + encoded())


def test_the_fingerprint_is_the_one_that_the_specification_gives(tmp_path: Path) -> None:
    """Avro 1.11, the canonical form `"int"` and its CRC-64-AVRO in little-endian order."""
    decoder = avro(tmp_path, "int")
    assert decoder(b"\xc3\x01" + (0x7275D51A3F395C8F).to_bytes(8, "little") + b"\x02") == b"1"


@pytest.mark.parametrize("body", [b"", encoded()[:-1], encoded() + b"\x00", b'{"id": "x"}', b"\xff" * 40], ids=range(5))
def test_bytes_that_are_not_of_the_schema_are_undecodable(tmp_path: Path, body: bytes) -> None:
    with pytest.raises(PayloadUndecodable) as refused:
        avro(tmp_path)(body)
    assert "payment.avsc@" in str(refused.value)


def test_what_json_has_no_number_for_is_a_text(tmp_path: Path) -> None:
    decoder = avro(tmp_path, array("double"))
    assert decoder(encoded([float("nan"), float("inf"), 1.5], array("double"))) == b'["NaN","Infinity",1.5]'


@given(st.binary(max_size=200))
def test_any_bytes_are_json_or_undecodable(body: bytes) -> None:
    decoder = Decoder("avro:any", payload._make_avro_decode(json.dumps(PAYMENT).encode(), "payload"), 1_000)
    with contextlib.suppress(PayloadUndecodable):
        json.loads(decoder(body))


NESTED = "int"
for _ in range(DEPTH_MAX + 1):
    NESTED = array(NESTED)  # type: ignore[assignment]
CHAIN: list[Any] = [record(x="int") | {"name": "R0"}]
for n in range(1, DEPTH_MAX + 2):
    CHAIN.append(record(x=f"R{n - 1}") | {"name": f"R{n}"})
WIDE: list[Any] = [record(a="null", b="null") | {"name": "W0"}]
for n in range(1, 20):
    WIDE.append(record(a=f"W{n - 1}", b=f"W{n - 1}") | {"name": f"W{n}"})


@pytest.mark.parametrize(
    ("schema", "reported"),
    [
        (record(next=["null", "R"]), "holds itself"),
        (array("null"), "take no bytes"),
        (array(record(a="null", b={"type": "fixed", "name": "F", "size": 0})), "take no bytes"),
        (NESTED, "nested deeper"),
        (CHAIN, "nested deeper"),
        (WIDE, "more than 10000 values"),
        (record(a="money"), "isn't known"),
        ([], "an empty union"),
        ({"fields": []}, "no type"),
        ({"type": "record", "name": "R"}, "fields"),
    ],
    ids=["recursive", "nulls", "empty records", "nested", "nested by name", "wide", "unknown", "union", "none", "half"],
)
def test_a_schema_without_bounds_is_refused_at_the_start(tmp_path: Path, schema: Any, reported: str) -> None:
    with pytest.raises(SettingError, match=reported):
        avro(tmp_path, schema)


def test_a_count_that_the_bytes_do_not_bear_out_costs_nothing(tmp_path: Path) -> None:
    decoder = avro(tmp_path, array("boolean"))
    with pytest.raises(PayloadUndecodable):
        decoder(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"\x01" * 50)


def test_an_endless_decimal_is_refused_before_it_is_made(tmp_path: Path) -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
    decoder = avro(tmp_path, schema)
    assert decoder(encoded(Decimal("-1.25"), schema)) == b'"-1.25"'
    body = encoded(b"\x7f" * 500_000, "bytes")
    started = time.process_time()
    with pytest.raises(PayloadUndecodable, match="64 are the most"):
        decoder(body)
    assert time.process_time() - started < 5, "unbounded it takes 25 s"


@pytest.mark.row("D7")
def test_a_protobuf_message_becomes_its_own_json(tmp_path: Path) -> None:
    message = payment(amount_minor=2**62, currency_code="EUR", mark=b"\x00\xff", rate=float("nan"))
    message.at.FromJsonString("2026-01-31T12:00:00Z")
    message.extra.string_value = "größer"
    assert json.loads(protobuf(tmp_path)(message.SerializeToString())) == {
        "amount_minor": str(2**62),
        "currency_code": "EUR",
        "mark": "AP8=",
        "at": "2026-01-31T12:00:00Z",
        "extra": "größer",
        "rate": "NaN",
    }


def test_a_message_of_nothing_but_defaults_is_empty(tmp_path: Path) -> None:
    assert protobuf(tmp_path)(b"") == b"{}"


def test_fields_of_a_newer_writer_are_passed_over(tmp_path: Path) -> None:
    body = payment(currency_code="EUR").SerializeToString() + b"\xf8\x07\x01"
    assert protobuf(tmp_path)(body) == b'{"currency_code":"EUR"}'


@pytest.mark.parametrize(
    "body",
    [
        b"\x0a",
        payment(currency_code="EUR").SerializeToString()[:-1],
        b"\xf8\x07\x01",
        b'{"amount_minor": 5}',
        b"\x12\x01\xff",
    ],
    ids=["cut", "cut in a text", "another message", "JSON", "no UTF-8"],
)
def test_bytes_that_are_not_of_the_message_are_undecodable(tmp_path: Path, body: bytes) -> None:
    with pytest.raises(PayloadUndecodable):
        protobuf(tmp_path)(body)


def nested(depth: int) -> bytes:
    """A message whose `extra` is a list in a list in a list."""
    value = b"\x1a\x01a"
    for _ in range(depth):
        inner = b"\x0a" + _varint(len(value)) + value
        value = b"\x32" + _varint(len(inner)) + inner
    return b"\x2a" + _varint(len(value)) + value


def test_a_message_nested_too_deeply_is_undecodable(tmp_path: Path) -> None:
    decoder = protobuf(tmp_path)
    assert decoder(nested(40)).count(b"[") == 40
    for depth in (80, 5_000):
        with pytest.raises(PayloadUndecodable):
            decoder(nested(depth))


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])
