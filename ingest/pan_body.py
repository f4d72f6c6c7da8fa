"""Masks the card data of one body: in each text of JSON, a form or XML, else as one text.

The length stays, JSON stays JSON, XML stays XML, a form stays a form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import orjson

from core.card_numbers import DIGITS_MIN, is_card_number, mask_card_numbers, masked_number

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
that a merchant fills (metadata, notes, custom fields, additional data). `Adapter.envelopes` adds some."""

CARD_DIGITS_MIN = 12
CARD_DIGITS_MAX = 19
"""The most digits of a field that is named as a card number."""

_BLANKS = b" \t\r\n"
_VALUE_ENDS = rb"(?=[ \t\r\n]*(?:[,}\]]|\Z))"
_JSON_TOKEN = re.compile(
    rb'[ \t\r\n]*(?:"([^"\\]*(?:\\.[^"\\]*)*)"(?:([ \t\r\n]*:)|%b)|([{\[])|([}\]])|,' % _VALUE_ENDS
    + rb"|(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null|NaN|-?Infinity)%b)[ \t\r\n]*" % _VALUE_ENDS,
    re.DOTALL,
)
"""A text with the colon that makes it a name, an opening or closing bracket, a comma, a number or word."""
_FORM = re.compile(rb"[\w.%+\[\]-]{1,128}=")
_TAG = re.compile(
    rb"<(/?)(?:[\w.-]{1,64}:)?([\w.-]{1,64})"
    rb"((?:\s++[\w.:-]++\s*+=\s*+(?:\"[^\"<]*+\"|'[^'<]*+'))*+)\s*+(/?)>"
)
_ATTRIBUTE = re.compile(rb"([\w.-]++)\s*+=\s*+[\"']((?<=\")[^\"]*+|(?<=')[^']*+)")
_CDATA, _CDATA_END = b"<![CDATA[", b"]]>"

_JSON_ESCAPE = re.compile(rb'\\(?:u[0-9A-Fa-f]{4}|["\\/bfnrt])')
_IN_JSON = re.compile(_JSON_ESCAPE.pattern + b"|.", re.DOTALL)
_IN_FORM = re.compile(rb"%[0-9A-Fa-f]{2}|.", re.DOTALL)
_IN_XML = re.compile(b".", re.DOTALL)
"""A character as a text is written there. In XML each is a byte: references to characters aren't read."""
_SHORT_ESCAPES = {ord("n"): 10, ord("t"): 9, ord("r"): 13, ord("b"): 8, ord("f"): 12}
_STARS = {1: b"*", 2: b"**", 3: b"%2A", 6: b"\\u002a"}
"""For a character, by how many bytes it is written in."""
_NO_ASCII = 0xFF
"""Stands for characters that are neither letters nor digits of ASCII."""

_CARD_VALUE = re.compile(
    rb"[ \t+-]*(?:[0-9][ \t+-]*){%(low)d,%(high)d}|[ \t]*-?(?=(?:\.?[0-9]){%(low)d})[0-9]+"
    rb"(?:\.[0-9]+(?:[eE][ +-]?[0-9]+)?|[eE][ +-]?[0-9]+)[ \t]*" % {b"low": CARD_DIGITS_MIN, b"high": CARD_DIGITS_MAX}
)
"""Digits with blanks or dashes, or a number with a fraction or an exponent."""
_DIGIT = re.compile(rb"[0-9]")
_POINT = ord(".")


class FieldKind(Enum):
    ID = "id"
    CARD = "card"
    SECRET = "secret"  # noqa: S105 - the name of a kind
    PLAIN = "plain"


class BodyPlace(NamedTuple):
    kind: FieldKind
    own: bool


class Text(NamedTuple):
    start: int
    end: int
    kind: FieldKind
    written: re.Pattern[bytes]
    is_number: bool = False


@dataclass(slots=True)
class BodyMask:
    """Masks the body of one event.

    ``kinds``: of names as `field_name` gives them. ``id_fields`` are names as they are in the body, of ids where
    ``envelopes`` lead to; ``spared`` texts that stay wherever they stand, as a whole value or in the place of a card
    number. ``found`` gathers what was masked, as it was; ``secret`` says whether a code or a track's data was among it.
    """

    kinds: Mapping[bytes, FieldKind]
    id_fields: frozenset[bytes]
    spared: frozenset[bytes]
    envelopes: frozenset[bytes] = ENVELOPES
    found: list[bytes] = field(default_factory=list)
    secret: bool = False

    def mask_body(self, body: bytes) -> bytes:
        parts, copied = list[bytes](), 0
        for text in self._split_texts(body):
            raw = body[text.start : text.end]
            masked = self._mask_number(raw, text.kind) if text.is_number else self._mask_text(raw, text)
            if masked != raw:
                parts += (body[copied : text.start], masked)
                copied = text.end
        return b"".join((*parts, body[copied:])) if parts else body

    def _split_texts(self, body: bytes) -> Iterator[Text]:
        first = body.lstrip(_BLANKS)[:1]
        if first in (b"{", b"[") and (texts := self._split_json(body)) is not None:
            return iter(texts)
        if first == b"<":
            return self._split_xml(body)
        if _FORM.match(body):
            return self._split_form(body)
        return iter((Text(0, len(body), FieldKind.PLAIN, _IN_JSON),))

    def _split_json(self, body: bytes) -> list[Text] | None:
        texts, outer = list[Text](), list[BodyPlace]()
        root = place = BodyPlace(FieldKind.PLAIN, own=True)
        at = 0
        while at < len(body):
            token = _JSON_TOKEN.match(body, at)
            if token is None:
                return None
            at = token.end()
            kind = place.kind
            if token[2] is not None:
                place, kind = self._find_place(_text_of(token[1]), outer[-1] if outer else root), FieldKind.PLAIN
            if token[1] is not None or token[5] is not None:
                is_number = token[1] is None
                start, end = token.span(5 if is_number else 1)
                if kind is not FieldKind.ID and (kind is not FieldKind.PLAIN or end - start >= DIGITS_MIN):
                    texts.append(Text(start, end, kind, _IN_JSON, is_number))
                continue
            if token[3] is not None:
                outer.append(place)
            elif token[4] is not None and outer:
                outer.pop()
            place = outer[-1] if outer else root
        return None if outer else texts

    def _split_form(self, body: bytes) -> Iterator[Text]:
        at = 0
        for pair in body.split(b"&"):
            name = pair.partition(b"=")[0]
            *path, last = [part.rstrip(b"]") for part in unquote_to_bytes(name).split(b"[")]
            place = self._find_place(last, BodyPlace(FieldKind.PLAIN, own=all(part in self.envelopes for part in path)))
            yield Text(at, at + len(name), FieldKind.PLAIN, _IN_FORM)
            yield Text(at + len(name) + 1, at + len(pair), place.kind, _IN_FORM)
            at += len(pair) + 1

    def _split_xml(self, body: bytes) -> Iterator[Text]:
        outer = list[tuple[bytes, BodyPlace]]()
        root = BodyPlace(FieldKind.PLAIN, own=True)
        at = 0
        for tag in _TAG.finditer(body):
            yield _between_tags(body, at, tag.start(), outer[-1][1].kind if outer else FieldKind.PLAIN)
            at, name = tag.end(), tag[2]
            for attribute in _ATTRIBUTE.finditer(body, *tag.span(3)):
                yield Text(*attribute.span(2), self._find_kind(attribute[1]), _IN_XML)
            if not tag[1] and not tag[4]:
                outer.append((name, self._find_place(name, outer[-1][1]) if outer else root))
            elif tag[1] and outer and outer[-1][0] == name:
                outer.pop()
            elif tag[1]:
                # It isn't well-formed: from here on nobody knows where ids stand.
                outer, root = [], BodyPlace(FieldKind.PLAIN, own=False)
        yield _between_tags(body, at, len(body), FieldKind.PLAIN)

    def _mask_text(self, raw: bytes, text: Text) -> bytes:
        if text.kind is FieldKind.ID:
            return raw
        units = text.written.findall(raw) if b"\\" in raw or b"%" in raw else None
        plain = raw if units is None else bytes(map(_read_character, units))
        if plain in self.spared or _text_of(raw) in self.spared:
            return raw
        masked = self._mask_plain(plain, text.kind)
        if units is None or masked == plain:
            return masked if units is None else raw
        changed = zip(units, plain, masked, strict=True)
        return b"".join(unit if old == new else _STARS[len(unit)] for unit, old, new in changed)

    def _mask_plain(self, plain: bytes, kind: FieldKind) -> bytes:
        if kind is FieldKind.SECRET and _DIGIT.search(plain):
            self.secret = True
            masked = b"*" * len(plain)
        elif kind is FieldKind.CARD and _CARD_VALUE.fullmatch(plain):
            masked = masked_number(plain, first_kept=0)
        else:
            cards = mask_card_numbers(plain, self.spared)
            self.found += cards.numbers
            self.secret |= cards.has_track
            return cards.text
        self.found.append(plain)
        return masked

    def _mask_number(self, raw: bytes, kind: FieldKind) -> bytes:
        """Returns another number of the same length; never one that has a right check digit."""
        digits = raw.removeprefix(b"-")
        sign = raw[: len(raw) - len(digits)]
        if raw in self.spared:
            return raw
        if kind is FieldKind.SECRET and digits[:1].isdigit():
            masked = b"0" if len(raw) == 1 else b"1".ljust(len(raw), b"0")
            self.secret = True
        elif kind is FieldKind.CARD and _CARD_VALUE.fullmatch(digits):
            masked = sign + _number_of_last_four(digits)
        elif digits.isdigit() and is_card_number(digits):
            masked = sign + _number_beside(digits)
        else:
            return raw
        self.found.append(raw)
        return masked

    def _find_place(self, name: bytes, outer: BodyPlace) -> BodyPlace:
        if outer.own and name in self.id_fields:
            return BodyPlace(FieldKind.ID, own=False)
        kind = self._find_kind(name)
        if kind is FieldKind.PLAIN and outer.kind is not FieldKind.ID:
            kind = outer.kind
        return BodyPlace(kind, outer.own and name in self.envelopes)

    def _find_kind(self, name: bytes) -> FieldKind:
        return self.kinds.get(name.translate(None, b"-_").lower(), FieldKind.PLAIN)


def read_json_escapes(body: bytes) -> bytes:
    return body if b"\\" not in body else _JSON_ESCAPE.sub(_read_but_quotes, body)


def _read_but_quotes(escape: re.Match[bytes]) -> bytes:
    code = _read_character(escape[0])
    return bytes((_NO_ASCII if code == ord('"') else code,))


def _read_character(unit: bytes) -> int:
    if len(unit) == 1:
        return unit[0]
    if unit[:1] == b"%":
        return int(unit[1:], 16)
    code = _SHORT_ESCAPES.get(unit[1], unit[1]) if len(unit) == 2 else int(unit[2:], 16)
    return code if code < _NO_ASCII else _NO_ASCII


def _between_tags(body: bytes, start: int, end: int, kind: FieldKind) -> Text:
    if body.startswith(_CDATA, start, end) and body.endswith(_CDATA_END, start, end):
        start, end = start + len(_CDATA), end - len(_CDATA_END)
    return Text(start, end, kind, _IN_XML)


def _number_of_last_four(number: bytes) -> bytes:
    """Returns another number, written in the same way: a 1, zeros and the last four digits before the exponent."""
    mantissa = number.lower().partition(b"e")[0]
    masked = bytearray(number)
    for at in [at for at, byte in enumerate(mantissa) if byte != _POINT][:-4]:
        masked[at] = ord("1" if at == 0 else "0")
    return bytes(masked)


def _number_beside(number: bytes) -> bytes:
    """Returns the same first six and last four digits around a repeated one, such that the check digit is wrong."""
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
