"""Says by which schema a value was written: Avro's single object, and Confluent's framing.

Single object: C3 01, then the schema's fingerprint, CRC-64-AVRO (Avro 1.11 specification, "Single-object encoding").
Confluent: 00, then the schema's id in the registry, four bytes; Protobuf has the path of its message behind that
(Confluent's documentation of the Schema Registry, "Wire format").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

SINGLE_OBJECT = b"\xc3\x01"
FINGERPRINT_BYTES = 8
MAGIC = b"\x00"
ID_BYTES = 4
HEAD_BYTES = len(MAGIC) + ID_BYTES
INDEXES_MAX = 16
"""Messages within messages."""


class SchemaUnknown(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class WriterSchemas:
    """The schemas of a folder: each by its fingerprint, and those of a file named like ``17.avsc`` by their id too."""

    folder: str
    by_fingerprint: Mapping[bytes, bytes] = field(default_factory=dict)
    by_id: Mapping[int, bytes] = field(default_factory=dict)

    def split(self, body: bytes) -> tuple[bytes, int]:
        """Returns the schema that a value names, and where its datum begins.

        :raises ValueError: it names none
        :raises SchemaUnknown: it isn't there
        """
        if body.startswith(SINGLE_OBJECT):
            begin = len(SINGLE_OBJECT) + FINGERPRINT_BYTES
            fingerprint = body[len(SINGLE_OBJECT) : begin]
            return self._require_known(
                self.by_fingerprint.get(fingerprint), f"of fingerprint {fingerprint.hex()}"
            ), begin
        if body.startswith(MAGIC) and len(body) >= HEAD_BYTES:
            number = int.from_bytes(body[1:HEAD_BYTES], "big")
            return self._require_known(self.by_id.get(number), f"{number} ({number}.avsc)"), HEAD_BYTES
        raise ValueError("it names no schema: it begins neither as a single object (C3 01) nor as Confluent's (00)")

    def _require_known(self, schema: bytes | None, name: str) -> bytes:
        if schema is None:
            raise SchemaUnknown(f"the schema {name} isn't in {self.folder}: put it there")
        return schema


def drop_head(body: bytes) -> bytes:
    return body[HEAD_BYTES:] if body.startswith(MAGIC) and len(body) >= HEAD_BYTES else body


def unframe_message(body: bytes) -> tuple[list[int] | None, bytes]:
    """Returns path and bytes of a Protobuf message in Confluent's framing; no path where it isn't framed.

    No message begins with the framing's first byte: there is no field 0.

    :raises ValueError: the framing isn't whole
    """
    if not body.startswith(MAGIC):
        return None, body
    count, at = _read_zigzag(body, HEAD_BYTES)
    if not 0 <= count <= INDEXES_MAX:
        raise ValueError(f"its framing names a path of {count} messages")
    path = []
    for _ in range(count):
        index, at = _read_zigzag(body, at)
        path.append(index)
    return path or [0], body[at:]


def _read_zigzag(body: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(body):
            raise ValueError("its framing is cut off")
        byte, at = body[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise ValueError("its framing is cut off")


Unwrap = Callable[[bytes], bytes]
"""Takes off what another program put around its data."""
