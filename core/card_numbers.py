"""Card numbers in texts: found by issuer, length and check digit, and hidden but for what may be kept.

Issuers' prefixes and lengths: https://en.wikipedia.org/wiki/Payment_card_number#Issuer_identification_number_(IIN);
the check digit: ISO/IEC 7812-1 annex B (Luhn). The first six and the last four digits may stay (PCI DSS 3.4.1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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
_SEPARATORS = b" -"

# An id joined by "_" or "-", a decimal number and a word with digits aren't cards. Magnetic track 1 is "%B4111…".
# It begins with a digit, not with what must stand before, because so the search skips to the next digit.
_START = re.compile(
    rb"[0-9][0-9]{3}(?:(?<=%B[0-9]{4})|(?<![0-9A-Za-z_][0-9]{4})(?<![0-9A-Za-z_]-[0-9]{4})(?<![0-9]\.[0-9]{4}))"
    rb"(?=[0-9]{9}|[ -][0-9]{4}|[0-9]{2} [0-9]{13})"
)
_END = rb"(?![0-9A-Za-z_])(?!-[0-9A-Za-z_])(?!\.[0-9])"
_FORMS = tuple(
    re.compile(form + _END)
    for form in (
        rb"[0-9]{13,19}",
        rb"[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}\1[0-9]{1,3}",
        rb"[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{1,4}",
        rb"[0-9]{4}([ -])[0-9]{6}\1[0-9]{4,5}",
        rb"[0-9]{6} [0-9]{13}",
    )
)


def is_card_number(digits: bytes) -> bool:
    """Whether ASCII digits, nothing between them, have an issuer's prefix and length and the right check digit."""
    length = len(digits)
    if not DIGITS_MIN <= length <= DIGITS_MAX:
        return False
    head = int(digits[:4])
    if not any(low <= head <= high and length in lengths for low, high, lengths in _ISSUERS):
        return False
    return has_check_digit(digits)


def has_check_digit(digits: bytes) -> bool:
    """The Luhn sum of ASCII digits is a multiple of ten."""
    plain, doubled = digits[-1::-2], digits[-2::-2]
    return (sum(plain) - _ZERO * len(plain) + sum(_DOUBLED[digit - _ZERO] for digit in doubled)) % 10 == 0


def card_spans(text: bytes) -> Iterator[tuple[int, int]]:
    """Where card numbers stand in ``text`` (start, end), left to right, never overlapping.

    Together, or in groups of 4, 4-6-5, 4-6-4 and 6-13 digits with single blanks or dashes between them.
    """
    at = 0
    while (start := _START.search(text, at)) is not None:
        at = start.start()
        for form in _FORMS:
            found = form.match(text, at)
            if found is not None and is_card_number(found[0].translate(None, _SEPARATORS)):
                yield found.span()
                at = found.end()
                break
        else:
            at += 1


def masked_number(number: bytes, first_kept: int = FIRST_KEPT, last_kept: int = LAST_KEPT) -> bytes:
    """``number`` with ``*`` for its middle digits; what stands between digits stays."""
    masked = bytearray(number)
    places = [place for place, byte in enumerate(number) if _ZERO <= byte <= _ZERO + 9]
    for place in places[first_kept : len(places) - last_kept]:
        masked[place] = ord("*")
    return bytes(masked)


def without_card_numbers(text: str) -> str:
    """``text`` with its card numbers masked; the same object where there are none. For error texts and log lines.

    A text that has to be cut is cut afterwards: a number that lost its last digit isn't known as one any more.
    """
    if len(text) < DIGITS_MIN:
        return text
    plain = text.encode("latin-1", "replace")
    masked = text
    for start, end in card_spans(plain):
        masked = masked[:start] + masked_number(plain[start:end]).decode("ascii") + masked[end:]
    return masked


def shown(value: object, chars_max: int) -> str:
    """Something of a body as an error text may quote it: without card numbers, then cut, as Python writes a text."""
    return repr(without_card_numbers(str(value))[:chars_max])
