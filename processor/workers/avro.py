"""Reads Avro's binary encoding as documents of JSON's types: by the writer's schema, resolved to the reader's."""

from __future__ import annotations

import base64
import io
import math
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Any
from uuid import UUID

import orjson

from processor.workers.avro_schema import DECIMAL, read_decimal, with_bounded_decimals
from processor.workers.framing import FINGERPRINT_BYTES, SINGLE_OBJECT, WriterSchemas

SCHEMAS_MAX = 256
"""Of a stream's folder."""

_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""As Protobuf's mapping has them; JSON has no numbers for these."""


@lru_cache(maxsize=2 * SCHEMAS_MAX)
def parse_avro(content: bytes) -> tuple[Any, bytes]:
    """Returns the parsed schema and its fingerprint, CRC-64-AVRO, as a single object begins with it."""
    import fastavro.read
    import fastavro.schema

    fastavro.read.LOGICAL_READERS[f"bytes-{DECIMAL}"] = read_decimal
    fastavro.read.LOGICAL_READERS[f"fixed-{DECIMAL}"] = read_decimal
    schema = orjson.loads(content)
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    fingerprint = bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))
    return fastavro.schema.parse_schema(with_bounded_decimals(schema)), fingerprint


def decode_avro(content: bytes, body: bytes) -> Any:
    schema, fingerprint = parse_avro(content)
    is_single = body.startswith(SINGLE_OBJECT + fingerprint)
    return _read_avro(body, len(SINGLE_OBJECT) + FINGERPRINT_BYTES if is_single else 0, schema, None)


def decode_resolved(schemas: WriterSchemas, reader: bytes | None, body: bytes) -> Any:
    writer, begin = schemas.split(body)
    return _read_avro(body, begin, parse_avro(writer)[0], None if reader is None else parse_avro(reader)[0])


def _read_avro(body: bytes, begin: int, writer: Any, reader: Any) -> Any:
    import fastavro

    stream = io.BytesIO(body)
    stream.seek(begin)
    document = fastavro.schemaless_reader(stream, writer, reader)
    if stream.tell() != len(body):
        raise ValueError(f"{len(body) - stream.tell()} bytes follow the datum")
    return _as_json(document)


def _as_json(value: Any) -> Any:
    """Makes JSON's types of a value as fastavro gives it. Recursion ends: the schema isn't recursive."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _NOT_FINITE[str(value)]
        case dict():
            return {name: _as_json(member) for name, member in value.items()}
        case list():
            return [_as_json(member) for member in value]
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case Decimal() | UUID():
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no JSON")
