"""Card data is masked before Kafka: nothing behind the receiver ever holds it, and the journal says where it was.

A masked event keeps its identities. ``original_sha256`` is a keyed hash of the bytes as they were sent and
``original_content_sha256`` of their content's hash; ``body``, its hash and ``content_sha256`` are of the masked bytes,
so that a later reader computes the same. Where a security code or a track's data was masked, nothing of the
original is kept, not even so.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

from core.card_numbers import DIGITS_MIN, SEPARATORS, card_spans, without_card_numbers
from core.errors import SettingError
from core.event import WITHHELD_SHA256, Event, poison_event
from core.files import create_once, secret_lines
from core.keys import key_part
from core.money import MoneyFact
from ingest.pan_body import CARD_DIGITS_MIN, ENVELOPES, BodyMask, FieldKind, read_json_escapes
from ingest.settings import PanSettings, field_name
from providers.port import Adapter

SETTING = "ingest.secrets_dir"
FILE = "masking"
"""The key's file beside the providers' secrets, the same for every receiver; made where it isn't there."""
KEY_CHARS_MIN = 32
"""128 bits where the key is hexadecimal."""

HALVED_BYTES_MAX = 1 << 18
"""A body's bytes times its masked texts: up to this, it is masked again to find the texts that its money rests on."""
DECIMALS_MAX = 4
"""The most decimals of a currency."""


class MaskingKey:
    """HMAC-SHA256 (RFC 2104) under a key that no store of events holds."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    @classmethod
    def read(cls, file: Path) -> MaskingKey:
        """Returns the key in ``file``; where there is no such file, a random key is made and kept there.

        :raises SettingError: the file can't be made or read, or holds no key of `KEY_CHARS_MIN` characters or more
        """
        make = f"`openssl rand -hex 32 > {file}` makes one, readable by payhook alone"
        try:
            if not file.exists():
                create_once(file, secrets.token_hex(32) + "\n")
            lines = secret_lines(file.read_text("utf-8"))
        except (OSError, ValueError) as unreadable:
            raise SettingError(SETTING, f"{file} can't be made or read ({unreadable}); {make}") from unreadable
        if len(lines) != 1 or len(lines[0]) < KEY_CHARS_MIN:
            raise SettingError(SETTING, f"{file} must hold one key of {KEY_CHARS_MIN} characters or more; {make}")
        return cls(lines[0])

    def sha256(self, original: bytes) -> str:
        return hmac.digest(self._key, original, "sha256").hex()


_DIGITS_IN_TEXT = re.compile(r"[0-9]{4}")
_SQUEEZE = bytes(ord("0") if 48 <= byte <= 57 else byte + 32 if 65 <= byte <= 90 else byte for byte in range(256))
_CARD_DIGITS = b"0" * DIGITS_MIN
_VALUES = {FieldKind.CARD: rb'"?0{%d}|[\[{]' % CARD_DIGITS_MIN, FieldKind.SECRET: rb'"[^"]*0|0|[\[{]'}
"""Those of a squeezed body that may be masked."""


_HASH = re.compile(r"(?<![0-9a-f])(?<!sha256-)[0-9a-f]{64}(?![0-9a-f])")
"""In a name of an event: of its content, or of its document. One of a long id is `core.keys.key_part`'s."""

NAMES_VERSION = 1
"""The content version whose hash names an event that has no id: a key is never made again."""


class CardMasker:
    def __init__(self, settings: PanSettings, key: MaskingKey) -> None:
        self._enabled = settings.enabled
        self._key = key
        self._kinds = kinds_of(settings)
        self._members = _compile_members(self._kinds)

    def mask_event(self, event: Event, adapter: Adapter) -> Event:
        """Returns the event without card data; the same object where it has none.

        A money fact stays what it was: what it rests on is left whole, even if it looks like a card number. Where
        the masked bytes can't be read any more, the event is poison: a person looks, and nothing is stored unmasked.
        """
        if not self._enabled:
            return event
        if event.poison is not None:
            return self._mask_poison(event, adapter)
        retyped = event if _DIGITS_IN_TEXT.search(event.event_type) is None else _mask_type(event)
        return self._mask_body(event, retyped, adapter) if self.may_hold_cards(event.body) else retyped

    def may_hold_cards(self, body: bytes) -> bool:
        """Returns False only where the body holds no cards for sure. It is cheap, and looks through JSON alone.

        Squeezed, every digit is a 0, letters are small, and what may stand within numbers and names is gone.
        """
        if body[:1] not in (b"{", b"["):
            return True
        plain = read_json_escapes(body)
        squeezed = plain.translate(_SQUEEZE, SEPARATORS)
        if self._members.search(squeezed) is not None:
            return True
        return _CARD_DIGITS in squeezed and next(card_spans(plain), None) is not None

    def _mask_bytes(self, event: Event, adapter: Adapter, spared: Iterable[bytes]) -> tuple[bytes, BodyMask]:
        ids = frozenset(name.encode() for name in adapter.identity_fields)
        envelopes = ENVELOPES | {name.encode() for name in adapter.envelopes}
        mask = BodyMask(self._kinds, ids, frozenset(spared), envelopes)
        return mask.mask_body(event.body), mask

    def _mask_body(self, event: Event, retyped: Event, adapter: Adapter) -> Event:
        spared = _collect_identities(event)
        body, mask = self._mask_bytes(event, adapter, spared)
        if body == event.body:
            return retyped
        fact = _read_fact(adapter, event.body, event.event_type)
        if _read_fact(adapter, body, retyped.event_type) != fact:
            texts = self._find_money_texts(retyped, adapter, fact, spared, list(dict.fromkeys(mask.found)))
            if texts is None:
                problem = "masking the card numbers in it would change the amount or account that it reports"
                return _poison_of(event, body, problem, self._hash_original(event, mask))
            body, mask = self._mask_bytes(event, adapter, spared | texts)
        return retyped if body == event.body else self._replace_body(retyped, body, adapter, mask)

    def _find_money_texts(
        self, event: Event, adapter: Adapter, fact: object, spared: set[bytes], found: list[bytes]
    ) -> set[bytes] | None:
        """Finds the texts of ``found`` without which the fact would be another one; None where that takes too long.

        What the fact says itself is tried first. If it rests on other texts, halves are tried, then their halves.
        """

        def stays(texts: set[bytes]) -> bool:
            body, _ = self._mask_bytes(event, adapter, spared | texts)
            return _read_fact(adapter, body, event.event_type) == fact

        fact_texts = _spell_fact(fact).intersection(found) if isinstance(fact, MoneyFact) else set()
        if fact_texts and stays(fact_texts):
            return fact_texts
        if len(found) * len(event.body) > HALVED_BYTES_MAX:
            return None
        kept, halves = set(found), [found]
        while halves:
            texts = halves.pop()
            if stays(kept.difference(texts)):
                kept.difference_update(texts)
            elif len(texts) > 1:
                middle = len(texts) // 2
                halves += (texts[middle:], texts[:middle])
        return kept

    def _mask_poison(self, event: Event, adapter: Adapter) -> Event:
        """Masks a poison's body. Its identity is a hash of the bytes that came, and stays that."""
        problem = without_card_numbers(event.poison or "")
        body, mask = self._mask_bytes(event, adapter, ())
        if body != event.body:
            return _poison_of(event, body, problem, self._hash_original(event, mask))
        return event if problem == event.poison else replace(event, poison=problem)

    def _replace_body(self, event: Event, body: bytes, adapter: Adapter, mask: BodyMask) -> Event:
        original = self._hash_original(event, mask)
        try:
            content = adapter.content_sha256(body, event.content_version)
            renamed = self._rename_event(event, body, adapter, mask)
        except Exception as unreadable:  # the bytes are kept, whatever an adapter makes of them
            problem = f"its adapter can't read it with its card numbers masked: {type(unreadable).__name__}"
            return _poison_of(event, body, problem, original)
        return replace(
            renamed,
            body=body,
            content_sha256=content,
            original_sha256=original,
            original_content_sha256=None if mask.secret else self._key.sha256(bytes.fromhex(event.content_sha256)),
        )

    def _rename_event(self, event: Event, body: bytes, adapter: Adapter, mask: BodyMask) -> Event:
        """Names an event that has no id of its provider's by a hash of the masked ``body``.

        Its names held the same hash of the original, mostly that of the first content version.
        """

        def other(found: re.Match[str]) -> str:
            if found[0].encode() in event.body:
                return found[0]
            if mask.secret or found[0] == adapter.content_sha256(event.body, NAMES_VERSION):
                return adapter.content_sha256(body, NAMES_VERSION)
            return self._key.sha256(bytes.fromhex(found[0]))

        names = (_HASH.sub(other, name) for name in (event.event_id, event.event_key, event.entity_key))
        event_id, event_key, entity_key = names
        return replace(event, event_id=event_id, event_key=event_key, entity_key=entity_key)

    def _hash_original(self, event: Event, mask: BodyMask) -> str:
        return WITHHELD_SHA256 if mask.secret else self._key.sha256(event.body)


def _poison_of(event: Event, body: bytes, problem: str, original_sha256: str) -> Event:
    poison = poison_event(event.provider, body, event.mode, problem)
    return replace(poison, original_sha256=original_sha256, tenant=event.tenant, zone=event.zone)


def _mask_type(event: Event) -> Event:
    """A type is the provider's word, not an id. The body says it in the same way, so keys are still found in it."""
    if event.event_type.encode("utf-8", "surrogatepass") in _collect_identities(event):
        return event
    masked = without_card_numbers(event.event_type)
    if masked == event.event_type:
        return event
    old, new = key_part(event.event_type), key_part(masked)
    key = ":".join(new if part == old else part for part in event.event_key.split(":"))
    return replace(event, event_type=masked, event_key=key)


def _collect_identities(event: Event) -> set[bytes]:
    parts = [*event.entity_key.split(":"), *(event.fact_key or "").split(":")]
    texts = {event.event_id, event.account, *map(unquote, parts)}
    return {text.encode("utf-8", "surrogatepass") for text in texts if text}


def _read_fact(adapter: Adapter, body: bytes, event_type: str) -> MoneyFact | type[Exception] | None:
    try:
        return adapter.money(body, event_type)
    except Exception as uncertain:  # which one is part of the answer: the same must come of the masked body
        return type(uncertain)


def _spell_fact(fact: MoneyFact) -> set[bytes]:
    """Returns how a body may write what the fact says: its ids, its amount in minor units or in others by powers of
    ten.

    Shorter ones are left out: no card number is, and a card's code could be the same.
    """
    names = (fact.fact_key, fact.account, fact.payment or "", fact.pair or "", *(fact.holder or ()))
    ids = {unquote(part) for name in names for part in name.split(":")}
    amount = abs(fact.money.amount_minor)
    units = {amount * 10**power for power in range(DECIMALS_MAX + 1)}
    units |= {amount // 10**power for power in range(DECIMALS_MAX + 1) if amount % 10**power == 0}
    texts = ids | {f"{sign}{number}" for number in units for sign in ("", "-")}
    return {text.encode("utf-8", "surrogatepass") for text in texts if len(text) >= CARD_DIGITS_MIN}


def kinds_of(settings: PanSettings) -> dict[bytes, FieldKind]:
    cards = {field_name(name).encode(): FieldKind.CARD for name in settings.card_fields}
    return cards | {field_name(name).encode(): FieldKind.SECRET for name in settings.secret_fields}


def _compile_members(kinds: Mapping[bytes, FieldKind]) -> re.Pattern[bytes]:
    """Compiles a pattern of a squeezed body's members with these names and values. Most fail at their first letter."""
    by_first: dict[bytes, list[bytes]] = {}
    for name, kind in sorted(kinds.items()):
        squeezed = name.translate(_SQUEEZE)
        by_first.setdefault(squeezed[:1], []).append(rb'%b":(?:%b)' % (squeezed[1:], _VALUES[kind]))
    either = b"|".join(b"%b(?:%b)" % (first, b"|".join(rest)) for first, rest in by_first.items())
    return re.compile(b'"(?:%b)' % either if either else b"(?!)")
