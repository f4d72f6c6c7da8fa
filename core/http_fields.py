"""Values of HTTP header fields, read by their grammar (RFC 9110, section 5.6).

Blanks and tabs around a value or a member are no part of it, empty members of a list count for nothing, and a comma or
semicolon within a quoted string divides nothing. Names of fields are in lower case, as ASGI gives them.
"""

from __future__ import annotations

BLANKS = b" \t"
_QUOTE, _ESCAPE = b'"'[0], b"\\"[0]


def strip_blanks(value: bytes) -> bytes:
    """Strips the blanks and tabs around a value (RFC 9110, section 5.5)."""
    return value.strip(BLANKS)


def split_list(value: bytes, separator: bytes = b",") -> list[bytes]:
    """Splits a list into its members without blanks around them, and without empty ones (section 5.6.1.2)."""
    return [stripped for member in _split_unquoted(value, separator) if (stripped := member.strip(BLANKS))]


def media_type_of(value: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """Reads the media type of a Content-Type in lower case, and its parameters (sections 8.3.1 and 5.6.6).

    Parameters' names are in lower case, their values without quotes. Of several with one name the first counts. Blanks
    around an equals sign are accepted, though the grammar has none.
    """
    media_type, *members = _split_unquoted(value, b";")
    parameters: dict[bytes, bytes] = {}
    for member in members:
        name, equals, text = member.partition(b"=")
        if equals:
            parameters.setdefault(name.strip(BLANKS).lower(), _unquote_value(text.strip(BLANKS)))
    return media_type.strip(BLANKS).lower(), parameters


def _unquote_value(text: bytes) -> bytes:
    if len(text) < 2 or text[0] != _QUOTE or text[-1] != _QUOTE:
        return text
    plain = bytearray()
    escaped = False
    for byte in text[1:-1]:
        if byte == _ESCAPE and not escaped:
            escaped = True
            continue
        escaped = False
        plain.append(byte)
    return bytes(plain)


def _split_unquoted(value: bytes, separator: bytes) -> list[bytes]:
    if b'"' not in value:
        return value.split(separator)
    parts, start, quoted, escaped = [], 0, False, False
    for position, byte in enumerate(value):
        if escaped:
            escaped = False
        elif quoted and byte == _ESCAPE:
            escaped = True
        elif byte == _QUOTE:
            quoted = not quoted
        elif byte == separator[0] and not quoted:
            parts.append(value[start:position])
            start = position + 1
    return [*parts, value[start:]]
