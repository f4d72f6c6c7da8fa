"""Card numbers in texts: found by issuer, length and check digit, and hidden but for what may be kept.

Issuers' prefixes and lengths: https://en.wikipedia.org/wiki/Payment_card_number#Issuer_identification_number_(IIN);
the check digit: ISO/IEC 7812-1 annex B (Luhn). The first six and the last four digits may stay (PCI DSS 3.4.1).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

DIGITS_MIN = 13
DIGITS_MAX = 19
FIRST_KEPT = 6
LAST_KEPT = 4

_ISSUERS: tuple[tuple[int, int, frozenset[int]], ...] = tuple(
    (low, high, frozenset(lengths))
    for low, high, lengths in (
        (1800, 1800, (15, 16)),  # JCB
        (2131, 2131, (15, 16)),
        (2200, 2204, (16, 17, 18, 19)),  # Mir
        (2221, 2720, (16,)),  # Mastercard
        (3000, 3059, (14, 16, 17, 18, 19)),  # Diners Club
        (3095, 3095, (14, 16, 17, 18, 19)),
        (3400, 3499, (15,)),  # American Express
        (3528, 3589, (16, 17, 18, 19)),  # JCB
        (3600, 3699, (14, 15, 16, 17, 18, 19)),  # Diners Club
        (3700, 3799, (15,)),  # American Express
        (3800, 3999, (14, 16, 17, 18, 19)),  # Diners Club
        (4000, 4999, (13, 16, 19)),  # Visa
        (5000, 5099, range(13, 20)),  # Maestro, Verve
        (5100, 5599, (16,)),  # Mastercard
        (5600, 5999, range(13, 20)),  # Maestro
        (6000, 6999, range(13, 20)),  # Maestro, Discover, UnionPay, RuPay
        (8100, 8171, (16, 17, 18, 19)),  # UnionPay
    )
)
"""First and last value of the leading four digits, and how long such a number is."""

_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
_ZERO = ord("0")

SEPARATORS = b" \t\n\v\f\r-./_,+"
# Numbers with commas and blanks between them are a list. In a link a + is a blank.
_BETWEEN = rb"(?:[ \t-\r./_-]{1,3}|[,+])"

# It begins with a digit, not with what must stand before it, because so the search skips to the next digit.
_START = re.compile(
    rb"[0-9][0-9]{3}(?<![0-9]{5})(?=[0-9]{9}|(?:[0-9]{4})?%b[0-9]{4}|[0-9]{2}%b[0-9]{13})" % (_BETWEEN, _BETWEEN)
)
_FORMS = (
    # The digits of a decimal number aren't a card's.
    re.compile(rb"(?<![0-9]\.)[0-9]{13,19}(?![0-9])(?!\.[0-9]{1,2}(?![0-9.]))"),
    *(
        re.compile(_BETWEEN.join(rb"[0-9]{%b}" % digits for digits in groups) + rb"(?![0-9])")
        for groups in (
            (b"4", b"4", b"4", b"4", b"1,3"),
            (b"4", b"4", b"4", b"1,4"),
            (b"8", b"4", b"4"),
            (b"4", b"8", b"4"),
            (b"4", b"4", b"8"),
            (b"4", b"6", b"4,5"),
            (b"6", b"13"),
        )
    ),
)
_HEX = re.compile(
    rb"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}|[0-9A-Fa-f]{32,}", re.ASCII
)
_HEX_AROUND = 64
_TRACK_REST = re.compile(rb"[=Dd]([0-9]{7}[^\s?\"'<>&]{0,64})|\^[^^?\r\n]{0,32}\^([0-9][^?\r\n\"'<>&]{6,96})")
"""What follows the number on a magnetic track (ISO/IEC 7813): track 2's expiry, code and discretionary data; track
1's name (not in a group), and the same."""


def is_card_number(digits: bytes) -> bool:
    """Returns whether ASCII digits, nothing between them, have an issuer's prefix and length and the right check
    digit."""
    length = len(digits)
    if not DIGITS_MIN <= length <= DIGITS_MAX:
        return False
    head = int(digits[:4])
    if not any(low <= head <= high and length in lengths for low, high, lengths in _ISSUERS):
        return False
    return has_check_digit(digits)


def has_check_digit(digits: bytes) -> bool:
    plain, doubled = digits[-1::-2], digits[-2::-2]
    return (sum(plain) - _ZERO * len(plain) + sum(_DOUBLED[digit - _ZERO] for digit in doubled)) % 10 == 0


def card_spans(text: bytes) -> Iterator[tuple[int, int]]:
    """Finds where card numbers stand in ``text`` (start, end), left to right, never overlapping.

    Together, or in groups of 4 (two of them may be together), 4-6-5, 4-6-4 and 6-13 digits with up to three blanks,
    line ends, ``-``, ``.``, ``/`` and ``_`` or a ``,`` or ``+`` between them. They may stand beside letters, but not
    within a UUID or a hash in hex.
    """
    position = 0
    while (start := _START.search(text, position)) is not None:
        position = start.start()
        for form in _FORMS:
            match = form.match(text, position)
            if match is not None and _is_card(match):
                yield match.span()
                position = match.end()
                break
        else:
            position += 1


class Masked(NamedTuple):
    """A text without card numbers, of the same length. ``numbers``: those that were in it.

    ``has_track``: the rest of a magnetic track followed one of them, and is hidden too.
    """

    text: bytes
    numbers: list[bytes]
    has_track: bool


def mask_card_numbers(text: bytes, spared: Collection[bytes] = ()) -> Masked:
    masked, numbers, has_track = bytearray(text), list[bytes](), False
    for start, end in card_spans(text):
        number = text[start:end]
        if number in spared:
            continue
        numbers.append(number)
        masked[start:end] = masked_number(number)
        track = _track_rest(text, end)
        if track is not None:
            masked[slice(*track)] = b"*" * (track[1] - track[0])
            has_track = True
    return Masked(bytes(masked), numbers, has_track)


def masked_number(number: bytes, first_kept: int = FIRST_KEPT) -> bytes:
    masked = bytearray(number)
    places = [place for place, byte in enumerate(number) if _ZERO <= byte <= _ZERO + 9]
    for place in places[first_kept : len(places) - LAST_KEPT]:
        masked[place] = ord("*")
    return bytes(masked)


def without_card_numbers(text: str) -> str:
    """Returns ``text`` with its card numbers masked; the same object where there are none. For error texts and log
    lines.

    Cut a text afterwards: a number that lost its last digit isn't recognized any more.
    """
    if len(text) < DIGITS_MIN:
        return text
    plain = text.encode("latin-1", "replace")
    masked = mask_card_numbers(plain).text
    if masked == plain:
        return text
    return "".join(
        character if old == new else chr(new) for character, old, new in zip(text, plain, masked, strict=True)
    )


def quote_masked(value: object, chars_max: int) -> str:
    return repr(without_card_numbers(str(value))[:chars_max])


def _track_rest(text: bytes, end: int) -> tuple[int, int] | None:
    match = _TRACK_REST.match(text, end)
    return None if match is None else match.span(match.lastindex or 0)


def _is_card(match: re.Match[bytes]) -> bool:
    if not is_card_number(match[0].translate(None, SEPARATORS)):
        return False
    return _track_rest(match.string, match.end()) is not None or not _within_hex(match.string, *match.span())


def _within_hex(text: bytes, start: int, end: int) -> bool:
    begin = max(0, start - _HEX_AROUND)
    around = text[begin : end + _HEX_AROUND]
    return any(
        hex_match.start() + begin <= start and end <= hex_match.end() + begin for hex_match in _HEX.finditer(around)
    )
