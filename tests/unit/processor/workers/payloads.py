"""A payment's schema, payload and JSON, in Avro and in Protobuf."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    struct_pb2,
    timestamp_pb2,
)

from processor.workers.payload import Decoder, make_decoder

PAYMENT = {
    "type": "record",
    "name": "Payment",
    "namespace": "shop.v1",
    "fields": [
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 4}},
        {"name": "amount_minor", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
        {"name": "rate", "type": "double"},
        {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 4}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "sku", "type": "string"}, {"name": "n", "type": "int"},
        ]}}},
        {"name": "tags", "type": {"type": "map", "values": "State"}},
    ],
}  # fmt: skip
PAID: Mapping[str, Any] = {
    "id": UUID("12345678-1234-5678-1234-567812345678"),
    "amount": Decimal("1234567890123456789012345678901234.5670"),
    "amount_minor": 2**63 - 1,
    "at": datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC),
    "day": date(2026, 1, 31),
    "state": "PAID",
    "rate": 0.5,
    "mark": b"\x00\xff\x00\xff",
    "note": "größer",
    "lines": [{"sku": "a", "n": 1}, {"sku": "b", "n": -2}],
    "tags": {"x": "OPEN"},
}
PAID_JSON = {
    "id": "12345678-1234-5678-1234-567812345678",
    "amount": "1234567890123456789012345678901234.5670",
    "amount_minor": 2**63 - 1,
    "at": "2026-01-31T12:00:00.123456+00:00",
    "day": "2026-01-31",
    "state": "PAID",
    "rate": 0.5,
    "mark": "AP8A/w==",
    "note": "größer",
    "lines": [{"sku": "a", "n": 1}, {"sku": "b", "n": -2}],
    "tags": {"x": "OPEN"},
}


def avro(folder: Path, schema: Any = PAYMENT, **options: Any) -> Decoder:
    file = folder / "payment.avsc"
    file.write_text(json.dumps(schema), "utf-8")
    return make_decoder(f"avro:{file}", **options)


def encoded(datum: Any = PAID, schema: Any = PAYMENT) -> bytes:
    whole = io.BytesIO()
    fastavro.schemaless_writer(whole, fastavro.parse_schema(schema), datum)
    return whole.getvalue()


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def descriptors(*extra: descriptor_pb2.FileDescriptorProto) -> bytes:
    """As `protoc --include_imports` writes them, of a message with a field of each kind that matters."""
    file = descriptor_pb2.FileDescriptorProto(name="payment.proto", package="shop.v1", syntax="proto3")
    file.dependency.extend([timestamp_pb2.DESCRIPTOR.name, struct_pb2.DESCRIPTOR.name])
    message = file.message_type.add(name="Payment")
    kinds = descriptor_pb2.FieldDescriptorProto
    for number, (name, kind, type_name) in enumerate(
        [
            ("amount_minor", kinds.TYPE_INT64, ""),
            ("currency_code", kinds.TYPE_STRING, ""),
            ("mark", kinds.TYPE_BYTES, ""),
            ("at", kinds.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
            ("extra", kinds.TYPE_MESSAGE, ".google.protobuf.Value"),
            ("rate", kinds.TYPE_DOUBLE, ""),
        ],
        1,
    ):
        message.field.add(name=name, number=number, type=kind, type_name=type_name or None, label=kinds.LABEL_OPTIONAL)
    known = descriptor_pb2.FileDescriptorSet()
    for module in (timestamp_pb2, struct_pb2):
        module.DESCRIPTOR.CopyToProto(known.file.add())
    known.file.add().CopyFrom(file)
    return bytes(known.SerializeToString())


def payment(**fields: Any) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors()).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.v1.Payment"))(**fields)


def protobuf(folder: Path, message: str = "shop.v1.Payment", content: bytes | None = None) -> Decoder:
    file = folder / "payment.desc"
    file.write_bytes(descriptors() if content is None else content)
    return make_decoder(f"protobuf:{file}#{message}")
