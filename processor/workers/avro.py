"""Reads Avro's binary encoding as documents of JSON's types: by the writer's schema, resolved to the reader's.

It keeps a schema's data bounded by its bytes: no recursion, no items without a byte, no endless decimals. Left alone,
one decimal of 1 MiB takes 105 s to be made, and the interpreter is held for so long.
"""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any
from uuid import UUID

import orjson

from core.errors import PayhookError
from processor.workers.framing import FINGERPRINT_BYTES, SINGLE_OBJECT, WriterSchemas

VALUES_MAX = 10_000
"""Values in a datum without its arrays and maps; types that use one another many times could ask for any number."""

DECIMAL = "payhook-decimal"
"""The logical type under which fastavro calls `read_decimal`."""

DECIMAL_BYTES_MAX = 64
"""154 digits."""

_INNER = frozenset({"type", "items", "values", "fields"})
_LEAST_BYTES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}


class SchemaUnbounded(PayhookError):
    """A schema under which a few bytes could stand for any number of values, or for any depth."""

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        self.problem = problem
        super().__init__(f"{where}: {problem}")


@dataclass(frozen=True, slots=True)
class _Shape:
    bytes_min: int
    values: int = 1
    depth: int = 0


@dataclass(slots=True)
class _Walk:
    depth_max: int
    known: dict[str, _Shape | None] = field(default_factory=dict)
    """By full name; None while the type is being walked: a type that meets it then is part of it."""

    def measure_shape(self, schema: Any, where: str, space: str, depth: int) -> _Shape:
        if depth > self.depth_max:
            raise SchemaUnbounded(where, f"nested deeper than {self.depth_max}")
        if isinstance(schema, list):
            return self._measure_union(
                [self.measure_shape(branch, where, space, depth + 1) for branch in schema], where
            )
        if isinstance(schema, str):
            return self._find_named(schema, where, space)
        kind = schema.get("type") if isinstance(schema, dict) else None
        match kind:
            case "array" | "map":
                return self._measure_collection(schema, where, space, depth)
            case "record" | "error":
                return self._measure_record(schema, where, space, depth)
            case "enum" | "fixed":
                size = 1 if kind == "enum" else int(schema["size"])
                return self._keep_shape(_full_name(schema, space), _Shape(size))
            case None:
                raise SchemaUnbounded(where, "no type is named")
        return self.measure_shape(kind, where, space, depth + 1)

    def _measure_union(self, branches: list[_Shape], where: str) -> _Shape:
        if not branches:
            raise SchemaUnbounded(where, "an empty union")
        return _Shape(
            1 + min(branch.bytes_min for branch in branches),
            max(branch.values for branch in branches),
            max(branch.depth for branch in branches),
        )

    def _find_named(self, name: str, where: str, space: str) -> _Shape:
        if name in _LEAST_BYTES:
            return _Shape(_LEAST_BYTES[name])
        full = name if "." in name or not space else f"{space}.{name}"
        if full not in self.known:
            raise SchemaUnbounded(where, f"the type {name} isn't known")
        shape = self.known[full]
        if shape is None:
            raise SchemaUnbounded(where, f"{name} holds itself: how deep its data goes has no bound")
        return shape

    def _measure_collection(self, schema: dict[str, Any], where: str, space: str, depth: int) -> _Shape:
        is_array = schema["type"] == "array"
        item = self.measure_shape(schema["items" if is_array else "values"], f"{where}[]", space, depth + 1)
        if item.bytes_min == 0 and is_array:
            raise SchemaUnbounded(where, "its items take no bytes: a few bytes could announce any number of them")
        return self._require_bounds(_Shape(1, depth=1 + item.depth), where)

    def _measure_record(self, schema: dict[str, Any], where: str, space: str, depth: int) -> _Shape:
        name = _full_name(schema, space)
        inner = name.rpartition(".")[0]
        self.known[name] = None
        named = [(declared["type"], f"{where}.{declared['name']}") for declared in schema["fields"]]
        fields = [self.measure_shape(declared, place, inner, depth + 1) for declared, place in named]
        shape = _Shape(
            sum(shape_of_field.bytes_min for shape_of_field in fields),
            1 + sum(shape_of_field.values for shape_of_field in fields),
            1 + max((shape_of_field.depth for shape_of_field in fields), default=0),
        )
        return self._keep_shape(name, self._require_bounds(shape, where))

    def _require_bounds(self, shape: _Shape, where: str) -> _Shape:
        if shape.depth > self.depth_max:
            raise SchemaUnbounded(where, f"nested deeper than {self.depth_max}")
        if shape.values > VALUES_MAX:
            raise SchemaUnbounded(where, f"one datum holds more than {VALUES_MAX} values")
        return shape

    def _keep_shape(self, name: str, shape: _Shape) -> _Shape:
        self.known[name] = shape
        return shape


def check_bounds(schema: Any, depth_max: int) -> None:
    """
    :param schema: an Avro schema as it is read from JSON
    :raises SchemaUnbounded: names the place and what has no bound there
    """
    _Walk(depth_max).measure_shape(schema, "schema", "", 0)


def with_bounded_decimals(schema: Any) -> Any:
    if isinstance(schema, list):
        return [with_bounded_decimals(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    known = {name: with_bounded_decimals(part) if name in _INNER else part for name, part in schema.items()}
    return {**known, "logicalType": DECIMAL} if known.get("logicalType") == "decimal" else known


def read_decimal(unscaled: bytes, schema: dict[str, Any] | None, _reader_schema: object = None) -> Decimal:
    """Reads a value of `DECIMAL`; fastavro calls it.

    :raises ValueError: longer than `DECIMAL_BYTES_MAX`
    """
    if len(unscaled) > DECIMAL_BYTES_MAX:
        raise ValueError(f"a decimal of {len(unscaled)} bytes, {DECIMAL_BYTES_MAX} are the most")
    number = Decimal(int.from_bytes(unscaled, "big", signed=True))
    return number.scaleb(-int((schema or {}).get("scale", 0)), Context(prec=3 * DECIMAL_BYTES_MAX))


def _full_name(schema: dict[str, Any], space: str) -> str:
    name = str(schema["name"])
    namespace = str(schema.get("namespace", space))
    return name if "." in name or not namespace else f"{namespace}.{name}"


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
