"""Masks one body, whatever it is written in. Length stays, JSON stays JSON, XML stays XML, a form stays a form.

What isn't JSON, XML or a form (a body cut off, UTF-16, a plain text) is masked as a text.
"""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import unquote_to_bytes

import orjson

from core.card_numbers import DIGITS_MIN, card_spans, is_card_number, masked_number, track_rest
from ingest.pan_escapes import ESCAPE, ESCAPED_TEXT, FORM_VALUE, JSON_STRING, WIDE_TEXT, XML_TEXT

_ADYEN = "notificationItems NotificationRequestItem data events accountHolder balanceAccount categoryData sweep"
_BRAINTREE = "notification subject transactions transaction subscription dispute"
_CHECKOUT_GOCARDLESS_MOLLIE = "processing source links _embedded entity event"
_PADDLE_PAYPAL = (
    "payments resource disputed_transactions batch_header payout_item related_resources purchase_units captures "
    "refunds authorizations supplementary_data related_ids"
)
_RAZORPAY = "payload payment order refund payment_link invoice payout virtual_account account"
_SQUARE_STRIPE = "object disputed_payment charges request"

ENVELOPES = frozenset(
    " ".join((_ADYEN, _BRAINTREE, _CHECKOUT_GOCARDLESS_MOLLIE, _PADDLE_PAYPAL, _RAZORPAY, _SQUARE_STRIPE))
    .encode()
    .split()
)
"""Names of objects and elements. The path to an id goes from a body's root through these alone: none of them is a map
that a merchant fills (metadata, notes, custom fields, additional data)."""


DEPTH_MAX = 4
"""Bodies within bodies: JSON in a text of JSON, XML in base64 in a form."""
CARD_DIGITS_MIN = 12
CARD_DIGITS_MAX = 19

_BLANKS = b" \t\r\n"
_LEADING = bytes(range(0x80, 0x100)) + _BLANKS
"""Blanks and byte order marks."""
BRACKETS = frozenset({b"{", b"[", b"<"})
_VALUE_ENDS = rb"(?=[ \t\r\n]*(?:[,}\]]|\Z))"
_JSON_TOKEN = re.compile(
    rb'[ \t\r\n]*(?:"([^"\\]*(?:\\.[^"\\]*)*)"(?:([ \t\r\n]*:)|%b)|([{\[])|([}\]])|,' % _VALUE_ENDS
    + rb"|(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null|NaN|-?Infinity)%b)[ \t\r\n]*" % _VALUE_ENDS,
    re.DOTALL,
)
"""A text with the colon that makes it a name, an opening or closing bracket, a comma, a number or word."""
_PLUS, _BLANK = b"+ "
_POINT = ord(".")
_NUMBER = re.compile(rb"([0-9]+)(?:\.([0-9]+))?(?:[eE][+ ]?(-?0*[0-9]{1,6}))?")
"""Of JSON, without its sign: what stands before the point and behind it, and the exponent. In a form a + is a blank."""
_FORM = re.compile(rb"[\w.%+\[\]-]{1,128}=")
PAIR = rb"[\w.%+\[\]-]{1,128}=[^\s\"<>&]*"
_INNER_FORM = re.compile(rb"%b(?:&%b)+" % (PAIR, PAIR))
"""A form in a text: two fields or more, and no blank in it."""
_ELEMENT = re.compile(rb"<(?:[\w.-]{1,64}:)?([\w.-]{1,64})(?:\s[^<>]{0,1024})?>(?:<!\[CDATA\[)?([^<>\[\]]+)")
_NAMED = re.compile(
    rb"(?<![\w-])([A-Za-z][\w-]{0,63})\\{0,8}[\"']?\s{0,32}[:=]\s{0,32}\\{0,8}[\"']?([^\"'\\&<>,;{}\[\]\r\n]+)"
)
_TAG = re.compile(rb"<(/?)(?:[\w.-]{1,64}:)?([\w.-]{1,64})(?:\s[^<>]{0,1024}?)?(/?)>")
BASE64 = re.compile(rb"[A-Za-z0-9+/\r\n]{16,}={0,2}\s*")
_BASE64_LETTERS = re.compile(rb"[A-Za-z0-9+/_-]{18,}={0,2}")
_QUARTET = rb"[CDSTijyz][AEIMQUYcgkosw048][g-z0-9+/_-]"
BASE64_DIGITS = re.compile(rb"[MNOP]%b(?:[I-P]%b){2}" % (_QUARTET, _QUARTET))
"""A digit and eight digits, blanks, ``-``, ``.``, ``/`` and ``,`` (0x3_ and 0x2_) in base64: four letters for three."""
_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_FROM_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class Kind(Enum):
    """What a field's name says of its value."""

    ID = "id"
    CARD = "card"
    SECRET = "secret"  # noqa: S105 - the name of a kind
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class CardFields:
    """Names as `field_name` gives them, in bytes."""

    card: frozenset[bytes]
    secret: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a body something stands: what its name says, and whether the provider has its ids here."""

    kind: Kind
    own: bool


@dataclass(slots=True)
class BodyMask:
    """Masks the bodies of one event.

    ``id_fields`` are names as they are in the body, of ids where `ENVELOPES` lead to; ``spared`` texts that stay
    wherever they stand, as a whole value or in the place of a card number. ``found`` gathers what was masked, as it
    was; ``secret`` says whether a code or a track's data was among it.
    """

    fields: CardFields
    id_fields: frozenset[bytes]
    spared: frozenset[bytes]
    found: list[bytes] = field(default_factory=list)
    secret: bool = False

    def masked(self, body: bytes, depth: int = 0, own: bool = True) -> bytes:
        """``own``: the provider wrote the body's outermost names."""
        if b"\0" in body:
            return WIDE_TEXT.through(body, lambda plain: self.masked(plain, depth, own)) if body.strip(b"\0") else body
        inner = body.lstrip(_LEADING)
        before, first = body[: len(body) - len(inner)], inner[:1]
        if depth < DEPTH_MAX:
            if first in (b"{", b"["):
                found, secret = len(self.found), self.secret
                masked = self._json(inner, depth, own)
                if masked is not None:
                    return before + masked
                del self.found[found:]
                self.secret = secret
            elif first == b"<":
                return before + XML_TEXT.through(inner, lambda plain: self._xml(plain, depth, own))
            elif depth == 0 and _FORM.match(inner):
                return before + self._form(inner, depth, own)
        # It may or may not be written in JSON's escapes.
        return self._text(
            JSON_STRING.through(body, lambda plain: self._text(self._escaped(plain, depth), depth)), depth
        )

    def _json(self, body: bytes, depth: int, own: bool) -> bytes | None:
        """None where it isn't made of JSON's tokens from end to end, or a bracket isn't closed."""
        parts: list[bytes] = []
        outer: list[Place] = []
        root = place = Place(Kind.PLAIN, own)
        at = copied = 0
        while at < len(body):
            token = _JSON_TOKEN.match(body, at)
            if token is None:
                return None
            at = token.end()
            if token[1] is not None:
                start, end = token.span(1)
                if token[2] is not None:
                    place = self._place(_text_of(token[1]), outer[-1] if outer else root)
                    masked = self._json_text(token[1], Kind.PLAIN, depth) if end - start >= DIGITS_MIN else None
                else:
                    masked = self._json_text(token[1], place.kind, depth)
            elif token[5] is not None:
                start, end = token.span(5)
                masked = self._json_number(token[5], place.kind)
            else:
                place = _nested(token, place, outer) or root
                continue
            if masked is not None:
                parts += (body[copied:start], masked)
                copied = end
        if outer:
            return None
        return b"".join((*parts, body[copied:])) if parts else body

    def _json_text(self, raw: bytes, kind: Kind, depth: int) -> bytes | None:
        if kind is Kind.ID:
            return None
        found, secret = len(self.found), self.secret
        masked = JSON_STRING.through(raw, lambda plain: self._value(plain, kind, depth + 1))
        if masked == raw:
            return None
        if _text_of(raw) in self.spared:
            del self.found[found:]
            self.secret = secret
            return None
        return masked

    def _json_number(self, raw: bytes, kind: Kind) -> bytes | None:
        """Another number of the same length; never one that has a right check digit."""
        if kind is Kind.ID or raw in self.spared:
            return None
        digits = raw.removeprefix(b"-")
        sign = raw[: len(raw) - len(digits)]
        if kind is Kind.SECRET and digits[:1].isdigit():
            masked = b"0" if len(raw) == 1 else b"1".ljust(len(raw), b"0")
            self.secret = True
        elif kind is Kind.CARD and _holds_card_digits(digits):
            masked = sign + _number_of_last_four(digits)
        elif digits.isdigit() and is_card_number(digits):
            masked = sign + _number_beside(digits)
        else:
            return None
        self.found.append(raw)
        return masked

    def _form(self, body: bytes, depth: int, own: bool) -> bytes:
        return b"&".join([self._form_pair(pair, depth, own) for pair in body.split(b"&")])

    def _form_pair(self, pair: bytes, depth: int, own: bool) -> bytes:
        name, sign, value = pair.partition(b"=")
        *path, last = [part.rstrip(b"]") for part in unquote_to_bytes(name).split(b"[")]
        place = self._place(last, Place(Kind.PLAIN, own and all(part in ENVELOPES for part in path)))
        if len(name) >= DIGITS_MIN:
            name = FORM_VALUE.through(name, lambda plain: self._form_value(plain, Kind.PLAIN, depth + 1, own=False))
        value = FORM_VALUE.through(value, lambda plain: self._form_value(plain, place.kind, depth + 1, own))
        return name + sign + value

    def _form_value(self, plain: bytes, kind: Kind, depth: int, own: bool) -> bytes:
        if kind is Kind.ID or plain in self.spared:
            return plain
        if kind is Kind.PLAIN and (inner := body_in_base64(plain)):
            return _base64_like(plain, inner, self.masked(inner, depth, own))
        masked = self._value(plain.replace(b"+", b" "), kind, depth)
        return bytes(old if old == _PLUS and new == _BLANK else new for old, new in zip(plain, masked, strict=True))

    def _xml(self, plain: bytes, depth: int, own: bool) -> bytes:
        ids = self._xml_ids(plain) if own else []
        return self._text(self._named(plain, _ELEMENT), depth, ids=ids)

    def _xml_ids(self, plain: bytes) -> list[tuple[int, int]]:
        """Where ids stand between a tag and its end."""
        ids: list[tuple[int, int]] = []
        outer: list[Place] = []
        opened = -1
        for tag in _TAG.finditer(plain):
            if tag[1]:
                place = outer.pop() if outer else Place(Kind.PLAIN, own=False)
                if place.kind is Kind.ID and opened >= 0:
                    ids.append((opened, tag.start()))
                opened = -1
            elif not tag[3]:
                outer.append(self._place(tag[2], outer[-1]) if outer else Place(Kind.PLAIN, own=True))
                opened = tag.end()
        return ids

    def _value(self, plain: bytes, kind: Kind, depth: int) -> bytes:
        """One value, plain: by its field's name, or as a body of its own, or as a text."""
        masked = self._by_kind(plain, kind)
        if masked is not None:
            return masked
        if plain.lstrip(_BLANKS)[:1] in BRACKETS:
            return self.masked(plain, depth, own=False)
        if depth < DEPTH_MAX and (inner := body_in_base64(plain)):
            return _base64_like(plain, inner, self.masked(inner, depth + 1, own=False))
        if depth < DEPTH_MAX and _INNER_FORM.fullmatch(plain):
            plain = self._form(plain, depth, own=False)
        return self._text(self._escaped(plain, depth, kind), depth, named=False)

    def _escaped(self, plain: bytes, depth: int, kind: Kind = Kind.PLAIN) -> bytes:
        """What a form's or a page's escapes say, where there are any."""
        if depth >= DEPTH_MAX or not ESCAPE.search(plain):
            return plain
        return ESCAPED_TEXT.through(plain, lambda inner: self._value(inner, kind, depth + 1))

    def _by_kind(self, plain: bytes, kind: Kind) -> bytes | None:
        """None where the name says nothing, or the value isn't what it says."""
        if kind is Kind.SECRET and any(byte in b"0123456789" for byte in plain):
            masked = b"*" * len(plain)
            self.secret = True
        elif kind is Kind.CARD and _holds_card_digits(plain):
            masked = masked_number(plain, first_kept=0)
        else:
            return None
        self.found.append(plain)
        return masked

    def _text(self, plain: bytes, depth: int, named: bool = True, ids: list[tuple[int, int]] | None = None) -> bytes:
        """Card numbers in a text; with ``named`` also what follows a name and ``:`` or ``=``. ``ids`` are left out."""
        ids = ids or []
        if named:
            spared = [found.span(2) for found in _NAMED.finditer(plain) if found[2].strip() in self.spared]
            ids = sorted([*ids, *spared])
            plain = self._named(plain, _NAMED)
        if depth < DEPTH_MAX and BASE64_DIGITS.search(plain):
            plain = self._base64(plain, depth, ids)
        masked = bytearray(plain)
        for start, end in card_spans(plain):
            card = plain[start:end]
            if card not in self.spared and not _within(ids, start, end):
                self.found.append(card)
                masked[start:end] = masked_number(card)
                rest = track_rest(plain, end)
                if rest is not None:
                    masked[slice(*rest)] = b"*" * (rest[1] - rest[0])
                    self.secret = True
        return bytes(masked)

    def _base64(self, plain: bytes, depth: int, ids: list[tuple[int, int]]) -> bytes:
        """``plain`` with what its words hide in base64, from whichever letter on."""
        masked = bytearray(plain)
        for word in _BASE64_LETTERS.finditer(plain):
            if word[0] in self.spared or _within(ids, *word.span()):
                continue
            for begin in sorted({found.start() % 4 for found in BASE64_DIGITS.finditer(word[0])}):
                start, end = word.start() + begin, word.end()
                letters = bytes(masked[start:end]).translate(_URL_SAFE)
                inner = _decoded(letters)
                after = _base64_like(letters, inner, self.masked(inner, depth + 1, own=False))
                if after != letters:
                    url_safe = b"-" in word[0] or b"_" in word[0]
                    masked[start:end] = after.translate(_FROM_URL_SAFE) if url_safe else after
        return bytes(masked)

    def _named(self, plain: bytes, pattern: re.Pattern[bytes]) -> bytes:
        masked = bytearray(plain)
        for found in pattern.finditer(plain):
            kind = self._kind(found[1])
            if kind is not Kind.PLAIN and found[2].strip() not in self.spared:
                start, end = found.span(2)
                masked[start:end] = self._by_kind(found[2], kind) or found[2]
        return bytes(masked)

    def _place(self, name: bytes, outer: Place) -> Place:
        if outer.own and name in self.id_fields:
            return Place(Kind.ID, own=False)
        kind = self._kind(name)
        return Place(outer.kind if kind is Kind.PLAIN else kind, outer.own and name in ENVELOPES)

    def _kind(self, name: bytes) -> Kind:
        known = name.translate(None, b"-_").lower()
        if known in self.fields.secret:
            return Kind.SECRET
        return Kind.CARD if known in self.fields.card else Kind.PLAIN


def _nested(token: re.Match[bytes], place: Place, outer: list[Place]) -> Place | None:
    """What holds after a bracket or a comma: an array's values have its name, an object's have their own. None at the
    root.
    """
    if token[3] is not None:
        # A body's outermost bracket has no name.
        own = Place(Kind.PLAIN, place.own) if place.kind is Kind.ID and token[3] == b"{" else place
        outer.append(own)
        return own
    if token[4] is not None and outer:
        outer.pop()
    return outer[-1] if outer else None


def _within(places: list[tuple[int, int]], start: int, end: int) -> bool:
    """Whether the last of ``places``, which are sorted, that begins before ``start`` ends after ``end``."""
    before = bisect_right(places, start, key=lambda place: place[0])
    return before > 0 and end <= places[before - 1][1]


def _holds_card_digits(plain: bytes) -> bool:
    """12 to 19 digits. Of a number with a fraction or an exponent that has 12 or more: all of them, or those before
    the point once the exponent has moved it.
    """
    digits = plain.translate(None, b" -\t")
    if digits.isdigit():
        return CARD_DIGITS_MIN <= len(digits) <= CARD_DIGITS_MAX
    number = _NUMBER.fullmatch(plain.strip(b" \t").removeprefix(b"-"))
    if number is None:
        return False
    whole, fraction, exponent = number.groups(b"")
    written = whole + fraction
    count = len(written.lstrip(b"0"))
    before_point = count - len(fraction) + int(exponent or b"0")
    return len(written) >= CARD_DIGITS_MIN and any(
        CARD_DIGITS_MIN <= length <= CARD_DIGITS_MAX for length in (count, before_point)
    )


def _number_of_last_four(number: bytes) -> bytes:
    """Another number, written in the same way: a 1, zeros and the last four digits before the exponent."""
    mantissa = number.lower().partition(b"e")[0]
    masked = bytearray(number)
    for at in [at for at, byte in enumerate(mantissa) if byte != _POINT][:-4]:
        masked[at] = ord("1" if at == 0 else "0")
    return bytes(masked)


def _number_beside(number: bytes) -> bytes:
    """The same first six and last four digits around a repeated one, such that the check digit is wrong."""
    between = len(number) - 10
    candidates = (number[:6] + fill * between + number[-4:] for fill in (b"0", b"1", b"5"))
    return next(other for other in candidates if not is_card_number(other))


def _text_of(raw: bytes) -> bytes:
    if b"\\" not in raw:
        return raw
    try:
        return str(orjson.loads(b'"' + raw + b'"')).encode()
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return raw


def body_in_base64(encoded: bytes) -> bytes:
    """XML or JSON in base64; empty for everything else that is made of base64's letters."""
    body = _decoded(encoded) if BASE64.fullmatch(encoded) else b""
    return body if body.lstrip(_LEADING)[:1] in BRACKETS else b""


def _decoded(encoded: bytes) -> bytes:
    """What is whole in it; empty where nothing is."""
    letters = encoded.translate(None, b"\r\n =")
    letters = letters[: len(letters) - (len(letters) % 4 == 1)]
    try:
        return base64.b64decode(letters + b"=" * (-len(letters) % 4))
    except binascii.Error:
        return b""


def _base64_like(encoded: bytes, body: bytes, masked: bytes) -> bytes:
    """``masked`` in base64 with the line breaks of ``encoded``, which held ``body`` of the same length."""
    if masked == body:
        return encoded
    letters = iter(base64.b64encode(masked))
    return bytes(byte if byte in b"\r\n" else next(letters, byte) for byte in encoded)
