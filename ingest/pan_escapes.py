"""Bodies that spell characters in several bytes: masked in plain, written back in the same spelling and length."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

OTHER = 0xFF
"""Stands for a character that isn't ASCII: it is neither a letter nor a digit."""

_SHORT_ESCAPES = {ord("n"): 10, ord("t"): 9, ord("r"): 13, ord("b"): 8, ord("f"): 12}


@dataclass(frozen=True, slots=True)
class Spelling:
    """How one kind of body spells characters: its units, what a unit means, and another character as such a unit.

    ``marks``: without any of these bytes in it, a body is plain. ``written`` gives as many bytes as its unit has.
    """

    marks: tuple[bytes, ...]
    units: re.Pattern[bytes]
    read: Callable[[bytes], int]
    written: Callable[[bytes, int], bytes]

    def through(self, body: bytes, mask: Callable[[bytes], bytes]) -> bytes:
        """``body`` after ``mask``, which sees it plain, one byte a character, and keeps the length."""
        if not any(mark in body for mark in self.marks):
            return mask(body)
        units: list[bytes] = self.units.findall(body)
        plain = bytes(unit[0] if len(unit) == 1 else self.read(unit) for unit in units)
        masked = mask(plain)
        if masked == plain:
            return body
        return b"".join(
            unit if before == after else bytes([after]) if len(unit) == 1 else self.written(unit, after)
            for unit, before, after in zip(units, plain, masked, strict=True)
        )


def _read_json(unit: bytes) -> int:
    if len(unit) == 2:
        return _SHORT_ESCAPES.get(unit[1], unit[1])
    return _ascii(int(unit[2:], 16))


def _written_json(unit: bytes, byte: int) -> bytes:
    return b"\\u%04x" % byte if len(unit) == 6 else bytes([byte]) * len(unit)


def _read_form(unit: bytes) -> int:
    return _ascii(int(unit[1:], 16))


def _written_form(_: bytes, byte: int) -> bytes:
    return b"%%%02X" % byte


def _read_xml(unit: bytes) -> int:
    number = unit[2:-1]
    return _ascii(int(number[1:], 16) if number[:1] in b"xX" else int(number))


def _written_xml(unit: bytes, byte: int) -> bytes:
    room = len(unit) - 3
    code, head = (b"%x" % byte, unit[:3]) if unit[2:3] in (b"x", b"X") else (b"%d" % byte, unit[:2])
    room = len(unit) - len(head) - 1
    return head + code.rjust(room, b"0") + b";" if len(code) <= room else b"*" * len(unit)


def _read_wide(unit: bytes) -> int:
    return unit.strip(b"\0")[0]


def _written_wide(unit: bytes, byte: int) -> bytes:
    return unit.replace(unit.strip(b"\0"), bytes([byte]))


def _ascii(code: int) -> int:
    return code if code < 0x80 else OTHER


JSON_STRING = Spelling((b"\\",), re.compile(rb'(?s)\\u[0-9A-Fa-f]{4}|\\["\\/bfnrt]|.'), _read_json, _written_json)
FORM_VALUE = Spelling((b"%",), re.compile(rb"(?s)%[0-9A-Fa-f]{2}|."), _read_form, _written_form)
XML_TEXT = Spelling((b"&#",), re.compile(rb"(?s)&#(?:[0-9]{1,7}|[xX][0-9A-Fa-f]{1,6});|."), _read_xml, _written_xml)
WIDE_TEXT = Spelling((b"\0",), re.compile(rb"(?s)\0*[^\0]\0*"), _read_wide, _written_wide)
"""UTF-16 and UTF-32, as far as they are ASCII."""
