"""Avro payloads become the JSON that a handler reads, or die with a clear class."""

from __future__ import annotations

import contextlib
import json
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SettingError
from core.strict_json import DEPTH_MAX
from processor.run import payload
from processor.run.payload import Decoder, PayloadUndecodable
from tests.unit.processor.run.payloads import (
    PAID_JSON,
    PAYMENT,
    array,
    avro,
    encoded,
    record,
)


def test_an_avro_datum_becomes_json_without_losing_a_digit(tmp_path: Path) -> None:
    assert json.loads(avro(tmp_path)(encoded())) == PAID_JSON


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
    decoder = Decoder("avro:any", payload._avro_decode(json.dumps(PAYMENT).encode(), "payload"), 1_000)
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
        ([], "a union of nothing"),
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
