"""Bodies that spell characters in several bytes: masked in plain, written back in the same spelling and length.

Plain, a character is the byte that it reads as (`core.card_numbers.seen_as`): a full-width digit is a digit, a no-break
blank a blank, and what isn't seen between two others isn't there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html.entities import html5
from urllib.parse import unquote_to_bytes

from core.card_numbers import INVISIBLE, OTHER, seen_as

_NO_ASCII = 0x80
_QUOTE = ord('"')
_SHORT_ESCAPES = {ord("n"): 10, ord("t"): 9, ord("r"): 13, ord("b"): 8, ord("f"): 12}


_UTF8 = rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
_PERCENT_UTF8 = (
    rb"%[CDcd][0-9A-Fa-f]%[89ABab][0-9A-Fa-f]|%[Ee][0-9A-Fa-f](?:%[89ABab][0-9A-Fa-f]){2}"
    rb"|%[Ff][0-4](?:%[89ABab][0-9A-Fa-f]){3}"
)
_FORM_ESCAPES = rb"%b|%%[0-9A-Fa-f]{2}" % _PERCENT_UTF8
_XML_ESCAPES = rb"&#(?:[0-9]{1,7}|[xX][0-9A-Fa-f]{1,6});"
_PAIR = rb"\\u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}"


@dataclass(frozen=True, slots=True)
class Spelling:
    """How one kind of body spells characters: its units, what a unit means, and another character as such a unit.

    ``marks``: without any of these bytes in it, a body of ASCII is plain. ``read`` gives a code of
    `core.card_numbers.seen_as`; ``written`` gives as many bytes as its unit has. ``escapes`` matches the
    units that aren't a character of UTF-8.
    """

    marks: tuple[bytes, ...]
    escapes: bytes
    read: Callable[[bytes], int]
    written: Callable[[bytes, int], bytes]
    units: re.Pattern[bytes] = field(init=False)
    disguised: re.Pattern[bytes] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", re.compile(rb"(?s)%b|%b|." % (self.escapes, _UTF8)))
        object.__setattr__(self, "disguised", re.compile(rb"%b|[\x80-\xff]+" % self.escapes))

    def through(self, body: bytes, mask: Callable[[bytes], bytes]) -> bytes:
        """``body`` after ``mask``, which sees it plain, one byte a character, and keeps the length."""
        if body.isascii() and not any(mark in body for mark in self.marks):
            return mask(body)
        units: list[bytes] = self.units.findall(body)
        codes = [unit[0] if len(unit) == 1 and unit < b"\x80" else self.read(unit) for unit in units]
        plain = bytes(code for code in codes if code != INVISIBLE)
        masked = mask(plain)
        if masked == plain:
            return body
        after = iter(masked)
        parts = []
        for unit, code in zip(units, codes, strict=True):
            byte = code if code == INVISIBLE else next(after)
            if byte != code:
                unit = bytes([byte]) if len(unit) == 1 else self.written(unit, byte)
            parts.append(unit)
        return b"".join(parts)

    def plain(self, body: bytes) -> bytes:
        """What `through` shows of ``body``, but for the quotes in disguise: those that are left begin and end texts."""
        return self.disguised.sub(self._shown, body)

    def _shown(self, found: re.Match[bytes]) -> bytes:
        run = found[0]
        try:
            codes = [self.read(run)] if run[0] < _NO_ASCII else [seen_as(character) for character in run.decode()]
        except UnicodeDecodeError:
            codes = [self.read(unit) for unit in self.units.findall(run)]
        return bytes(OTHER if code == _QUOTE else code for code in codes if code != INVISIBLE)


def _read_raw(unit: bytes) -> int:
    """A character of UTF-8, or a byte that is none: as in Latin-1."""
    character = unit.decode("utf-8", "replace") if len(unit) > 1 else unit.decode("latin-1")
    return seen_as(character) if len(character) == 1 else OTHER


def _read_json(unit: bytes) -> int:
    if unit[:1] != b"\\":
        return _read_raw(unit)
    if len(unit) == 2:
        return _SHORT_ESCAPES.get(unit[1], unit[1])
    if len(unit) == 6:
        return seen_as(chr(int(unit[2:], 16)))
    high, low = int(unit[2:6], 16), int(unit[8:], 16)
    return seen_as(chr(0x10000 + ((high - 0xD800) << 10) + low - 0xDC00))


def _written_json(unit: bytes, byte: int) -> bytes:
    if unit[:2] == b"\\u":
        return b"\\u%04x" % byte * (len(unit) // 6)
    return bytes([byte]) * len(unit)


def _read_form(unit: bytes) -> int:
    return _read_raw(unquote_to_bytes(unit))


def _written_form(unit: bytes, byte: int) -> bytes:
    return b"%%%02X" % byte * (len(unit) // 3) if unit[:1] == b"%" else bytes([byte]) * len(unit)


def _read_xml(unit: bytes) -> int:
    if unit[:1] != b"&":
        return _read_raw(unit)
    number = unit[2:-1]
    code = int(number[1:], 16) if number[:1] in b"xX" else int(number)
    return seen_as(chr(code)) if code <= 0x10FFFF else OTHER


def _written_xml(unit: bytes, byte: int) -> bytes:
    if unit[:1] != b"&":
        return bytes([byte]) * len(unit)
    code, head = (b"%x" % byte, unit[:3]) if unit[2:3] in (b"x", b"X") else (b"%d" % byte, unit[:2])
    room = len(unit) - len(head) - 1
    return head + code.rjust(room, b"0") + b";" if len(code) <= room else b"*" * len(unit)


def _read_escaped(unit: bytes) -> int:
    if unit[:1] != b"&":
        return _read_form(unit)
    if unit[1:2] == b"#":
        return _read_xml(unit)
    character = html5.get(unit[1:].decode(), "")
    return seen_as(character) if len(character) == 1 else OTHER


def _written_escaped(unit: bytes, byte: int) -> bytes:
    if unit[:2] == b"&#":
        return _written_xml(unit, byte)
    return _written_form(unit, byte)


def _read_wide(unit: bytes) -> int:
    return unit.strip(b"\0")[0]


def _written_wide(unit: bytes, byte: int) -> bytes:
    return unit.replace(unit.strip(b"\0"), bytes([byte]))


JSON_STRING = Spelling((b"\\",), rb'%b|\\u[0-9A-Fa-f]{4}|\\["\\/bfnrt]' % _PAIR, _read_json, _written_json)
FORM_VALUE = Spelling((b"%",), _FORM_ESCAPES, _read_form, _written_form)
XML_TEXT = Spelling((b"&#",), _XML_ESCAPES, _read_xml, _written_xml)
ESCAPED_TEXT = Spelling(
    (b"%", b"&"), rb"%b|%b|&[A-Za-z][A-Za-z0-9]{1,31};" % (_FORM_ESCAPES, _XML_ESCAPES), _read_escaped, _written_escaped
)
"""A text that came from a form, a link or a page. Names of characters are HTML's: XML has none for blanks."""
ESCAPE = re.compile(ESCAPED_TEXT.escapes)
WIDE_TEXT = Spelling((b"\0",), rb"\0*[^\0]\0*", _read_wide, _written_wide)
"""UTF-16 and UTF-32, as far as they are ASCII."""
