"""An event masked: its identities and its money stay, its hashes are of what is stored, and where it was is said."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from core.card_numbers import has_check_digit
from core.errors import Unparseable
from core.event import WITHHELD_SHA256, Event, Mode, poison_event
from core.money import MoneyFact, Movement
from ingest.pan import CardMasker, MaskingKey
from ingest.pan_body import BodyMask
from ingest.settings import PanSettings
from load.samples.standardwebhooks import standard_event
from load.samples.stripe import stripe_event
from providers import Adapter, MoneyRule, ProvidersSettings, Request, StandardWebhooksSettings, build_adapters
from providers.port import Fetched, ModeMismatch
from tests.unit.ingest.app_under_test import MASKING_KEY, NOW

CARD, HIDDEN = "4111111111111111", "411111******1111"
SAMPLES = Path(os.environ.get("PAYHOOK_TEST_WEBHOOKS", Path(__file__).resolve().parents[4] / "shared" / "webhooks"))
ADAPTERS = build_adapters(ProvidersSettings())
CAPTURED = MoneyRule(event_type="payment.captured", movement=Movement.CAPTURE, id="/data/id")
STANDARD = build_adapters(ProvidersSettings(standardwebhooks=StandardWebhooksSettings(money=(CAPTURED,))))[
    "standardwebhooks"
]
MASKER = CardMasker(PanSettings(), MASKING_KEY)
HEADERS = [
    (b"webhook-id", b"msg_1"),
    (b"webhook-timestamp", b"1700000000"),
    (b"webhook-signature", b"v1,x"),
    (b"x-razorpay-event-id", b"ev_1"),
]


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def stripe(note: object = CARD, **changes: Any) -> Event:
    whole: dict[str, Any] = {
        "payment": "pi_1",
        "account": "acct_1",
        "amount_minor": 500,
        "currency": "EUR",
        "created": NOW,
    }
    document = json.loads(stripe_event("evt_1", "charge.succeeded", **(whole | changes)))
    document["data"]["object"]["description"] = note
    [event] = ADAPTERS["stripe"].events(Request(json.dumps(document).encode(), []), "live")
    return event


def adyen(reference: str, **changes: Any) -> Event:
    item = {
        "pspReference": reference,
        "eventCode": "REFUND",
        "success": "true",
        "merchantAccountCode": "Shop",
        "originalReference": "5555555555554444",
        "merchantReference": "378282246310005",
        "amount": {"value": 500, "currency": "EUR"},
        "additionalData": {"link": f"/payments/{reference}"},
    }
    wrapped = {"live": "true", "notificationItems": [{"NotificationRequestItem": item | changes}]}
    [event] = ADAPTERS["adyen"].events(Request(json.dumps(wrapped).encode(), []), "live")
    return event


WEBHOOK = [(b"webhook-id", b"e1"), (b"webhook-timestamp", b"1"), (b"webhook-signature", b"v1,x")]


def noted(note: str) -> Event:
    """Of a provider whose whole body is content."""
    fields: dict[str, Any] = {"payment": "p1", "account": "m1", "amount_minor": 500, "currency": "EUR"}
    document = json.loads(standard_event("payment.captured", occurred_at=NOW, **fields))
    document["data"]["note"] = note
    [event] = STANDARD.events(Request(json.dumps(document).encode(), WEBHOOK), "live")
    return event


def test_a_masked_event_is_the_same_event_with_hashes_of_what_is_stored():
    event, adapter = noted(f"paid with {CARD}"), STANDARD
    masked = MASKER.mask_event(event, adapter)
    assert masked.body == event.body.replace(CARD.encode(), HIDDEN.encode())
    assert masked.original_sha256 == MASKING_KEY.sha256(event.body)
    assert masked.body_sha256 == sha256(masked.body) != masked.original_sha256
    assert masked.content_sha256 == adapter.content_sha256(masked.body, masked.content_version) != event.content_sha256
    assert masked.original_content_sha256 == MASKING_KEY.sha256(bytes.fromhex(event.content_sha256))
    unmarked = replace(masked, original_sha256=None, original_content_sha256=None)
    assert replace(unmarked, body=event.body, content_sha256=event.content_sha256) == event
    assert adapter.money(masked.body, masked.event_type) == adapter.money(event.body, event.event_type)
    [again] = adapter.events(Request(masked.body, WEBHOOK), "live")
    assert again == unmarked


@pytest.mark.row("F7")
def test_no_plain_hash_of_an_original_is_kept_and_the_digits_cant_be_found_by_trying():
    """With six digits and four beside it, a plain hash of the body is a million tries away from the number."""
    event = noted(f"paid with {CARD}")
    masked = MASKER.mask_event(event, STANDARD)
    known = repr(replace(masked, body=b""))
    for middle in ("111111", "111112"):
        guessed = masked.body.replace(HIDDEN.encode(), f"411111{middle}1111".encode())
        content = STANDARD.content_sha256(guessed, masked.content_version)
        assert sha256(guessed) not in known
        assert content not in known
    other = CardMasker(PanSettings(), MaskingKey("another key of thirty-two letters")).mask_event(event, STANDARD)
    assert other.original_sha256 != masked.original_sha256
    assert other.original_content_sha256 != masked.original_content_sha256
    assert other.content_sha256 == masked.content_sha256


NAMELESS = (
    "<notification><kind>account_updater_daily_report</kind><timestamp>2026-01-31T12:00:00Z</timestamp>"
    "<subject><report><note>{}</note></report></subject></notification>"
)


@pytest.mark.parametrize(("before", "after"), [(CARD, HIDDEN), (f";{CARD}=25121010000012345678?", None)])
def test_an_event_that_its_provider_gave_no_id_is_named_by_what_is_left(before: str, after: str | None):
    """Else its key would be the plain hash of the original."""
    adapter = ADAPTERS["braintree"]

    def sent(note: str) -> Event:
        payload = base64.encodebytes(NAMELESS.format(note).encode())
        [event] = adapter.events(Request(urlencode({"bt_signature": "x", "bt_payload": payload}).encode(), []), "live")
        return event

    event = sent(before)
    masked = MASKER.mask_event(event, adapter)
    whole = adapter.content_sha256(event.body, 1)
    assert whole in event.event_key
    assert whole not in repr(masked)
    assert adapter.content_sha256(masked.body, 1) in masked.event_key
    if after is not None:
        again = sent(after)
        names = (again.event_id, again.event_key, again.entity_key)
        assert (masked.event_id, masked.event_key, masked.entity_key) == names


@pytest.mark.parametrize("note", [{"cvc": "123"}, f";{CARD}=25121010000012345678?", {"a": CARD, "cid": 123}])
def test_nothing_of_the_original_is_kept_where_a_code_or_a_track_was_masked(note: object):
    event = stripe(note)
    masked = MASKER.mask_event(event, ADAPTERS["stripe"])
    assert masked.original_sha256 == WITHHELD_SHA256
    assert masked.original_content_sha256 is None
    assert masked.content_sha256 == ADAPTERS["stripe"].content_sha256(masked.body, masked.content_version)


def test_the_usual_event_is_only_looked_at():
    """What is looked through costs many times what the first look does."""
    assert not MASKER.may_hold_cards(stripe(note="-").body)
    assert not MASKER.may_hold_cards(json.dumps({"number": "MM00064", "cvc_check": "pass", "cvc": None}).encode())


def test_an_event_without_card_data_is_the_same_object():
    for event in (stripe(note="order 4111"), stripe(note=f"{CARD}0000"), stripe(note="1" * 16)):
        assert MASKER.mask_event(event, ADAPTERS["stripe"]) is event


def test_masking_twice_changes_nothing():
    masked = MASKER.mask_event(stripe(), ADAPTERS["stripe"])
    assert MASKER.mask_event(masked, ADAPTERS["stripe"]) is masked


def test_it_can_be_switched_off_and_its_fields_be_named():
    event = stripe()
    assert CardMasker(PanSettings(enabled=False), MASKING_KEY).mask_event(event, ADAPTERS["stripe"]) is event
    masker = CardMasker(PanSettings(card_fields=("Description",), secret_fields=()), MASKING_KEY)
    body = masker.mask_event(stripe("4111 1111 1111 1112"), ADAPTERS["stripe"]).body
    assert b'"**** **** **** 1112"' in body
    cvc = stripe({"cvc": "123"})
    assert masker.mask_event(cvc, ADAPTERS["stripe"]) is cvc
    assert MASKER.mask_event(cvc, ADAPTERS["stripe"]) is not cvc


@pytest.mark.parametrize("name", ["", "_", "a b", "kartennummer\u00e4", 'a"'])
def test_a_fields_name_that_no_field_could_have_is_refused(name: str):
    with pytest.raises(ValueError, match="letters"):
        PanSettings(card_fields=(name,))


def test_references_that_look_like_cards_stay_whole_wherever_they_stand():
    event = adyen(CARD)
    assert MASKER.mask_event(event, ADAPTERS["adyen"]) is event
    masked = MASKER.mask_event(adyen(CARD, reason="card 4012888888881881"), ADAPTERS["adyen"])
    item = json.loads(masked.body)["NotificationRequestItem"]
    assert (item["pspReference"], item["originalReference"]) == (CARD, "5555555555554444")
    assert item["reason"] == "card 401288******1881"
    assert item["merchantReference"] == "378282246310005"
    assert item["additionalData"] == {"link": f"/payments/{CARD}"}
    assert (masked.event_key, masked.fact_key) == (event.event_key, event.fact_key)


def test_an_account_that_looks_like_a_card_stays_whole():
    event = adyen("8412534564722331", merchantAccountCode=CARD, reason="4012888888881881")
    masked = MASKER.mask_event(event, ADAPTERS["adyen"])
    item = json.loads(masked.body)["NotificationRequestItem"]
    assert item["merchantAccountCode"] == masked.account == CARD
    assert item["reason"] == "401288******1881"


def standard(settings: StandardWebhooksSettings | None = None, **data: Any) -> tuple[Event, Adapter]:
    adapter = build_adapters(ProvidersSettings(standardwebhooks=settings or StandardWebhooksSettings()))[
        "standardwebhooks"
    ]
    kind = data.pop("type", "payment.captured")
    body = json.dumps({"type": kind, "timestamp": "2026-01-31T12:00:00Z", "data": data}).encode()
    [event] = adapter.events(Request(body, HEADERS), "live")
    return event, adapter


def test_what_the_money_rests_on_stays_and_the_rest_is_masked():
    """An amount of 13 digits that begins like a Visa and has the right check digit, and a movement named by a card."""
    rule = MoneyRule(event_type="payment.captured", movement="capture", id="/data/ref", amount="/data/sum")
    cards = ["4222222222222", CARD, "5555555555554444", "4012888888881881", "378282246310005"]
    event, adapter = standard(
        StandardWebhooksSettings(money=(rule,)),
        ref="5105105105105100",
        sum=4222222222222,
        currency="EUR",
        payment="pay_1",
        cards=cards[1:],
        again=[4222222222222],
    )
    masked = MASKER.mask_event(event, adapter)
    data = json.loads(masked.body)["data"]
    assert (data["sum"], data["ref"]) == (4222222222222, "5105105105105100")
    assert data["cards"] == [card[:6] + "*" * (len(card) - 10) + card[-4:] for card in cards[1:]]
    assert adapter.money(masked.body, masked.event_type) == adapter.money(event.body, event.event_type)
    assert masked.fact_sha256 == event.fact_sha256 is not None


class Particular:
    """An adapter that fails, in one way where it finds the card number and in another where it doesn't."""

    identity_fields: frozenset[str] = frozenset()
    envelopes: frozenset[str] = frozenset()

    def money(self, body: bytes, event_type: str) -> MoneyFact | None:
        raise ValueError if CARD.encode() in body else KeyError

    def content_sha256(self, body: bytes, version: int) -> str:
        return sha256(body)


@cache
def many_cards() -> list[str]:
    """Six thousand numbers: made where they are wanted, for every process of a run reads this file."""
    numbers = [f"4{at:014d}{last}" for at in range(6_000) for last in range(10)]
    return [number for number in numbers if has_check_digit(number.encode())]


def test_an_amount_that_looks_like_a_card_takes_a_few_masks_however_many_cards_are_about_it(
    monkeypatch: pytest.MonkeyPatch,
):
    """Each is of the whole body, on the receiver's loop."""
    masks: list[int] = []
    mask = BodyMask.mask_body

    def counted(self: BodyMask, body: bytes) -> bytes:
        masks.append(len(body))
        return mask(self, body)

    monkeypatch.setattr(BodyMask, "mask_body", counted)
    event, adapter = stripe(" ".join(many_cards()), amount_minor=4222222222222), ADAPTERS["stripe"]
    masked = MASKER.mask_event(event, adapter)
    assert masked.poison is None
    assert masks == [len(event.body)] * 3
    assert masked.fact_sha256 == event.fact_sha256 is not None
    assert adapter.money(masked.body, masked.event_type) == adapter.money(event.body, event.event_type)
    assert not [card for card in many_cards() if card.encode() in masked.body]


class Summing(Particular):
    """An adapter whose money is another one without any of the card numbers."""

    def money(self, body: bytes, event_type: str) -> MoneyFact | None:
        raise ValueError if b"*" in body else KeyError


def test_an_event_whose_money_rests_on_one_of_many_cards_waits_for_a_person_masked():
    event = replace(stripe(" ".join(many_cards())), tenant="shop")
    masked = MASKER.mask_event(event, Summing())  # type: ignore[arg-type]
    assert masked.poison == "masking the card numbers in it would change the amount or account that it reports"
    assert (masked.tenant, masked.original_sha256) == ("shop", MASKING_KEY.sha256(event.body))
    assert not [card for card in many_cards() if card.encode() in masked.body]


def test_a_type_that_is_a_card_number_is_masked_in_the_key_as_in_the_body():
    event, adapter = standard(type=f"card.{CARD}", note="4012888888881881")
    masked = MASKER.mask_event(event, adapter)
    assert masked.event_type == f"card.{HIDDEN}"
    assert masked.event_key == f"standardwebhooks:msg_1:card.{HIDDEN}"
    [again] = adapter.events(Request(masked.body, HEADERS), "live")
    assert again == replace(masked, original_sha256=None, original_content_sha256=None)
    assert CARD not in repr(masked)


@pytest.mark.parametrize("reading", ["json", "cut off", "other fields"])
def test_poison_is_masked_and_its_identity_is_the_stored_bytes_hash(reading: str):
    body = {
        "json": f'{{"id":"{CARD}","card":"{CARD}","n":{CARD}}}',
        "cut off": f'{{"id": "{CARD}", "card": "{CARD}',
        "other fields": f"id={CARD}&card={CARD}",
    }[reading].encode()
    event = replace(poison_event("stripe", body, "live", f"what is {CARD}"), tenant="shop", zone="eu")
    masked = MASKER.mask_event(event, ADAPTERS["stripe"])
    # What can't be read has no paths on which an id could stand.
    place = body.index(CARD.encode()) if reading != "cut off" else -1
    assert masked.body.count(CARD.encode()) == (place >= 0)
    assert masked.body.find(CARD.encode()) == place
    expected = poison_event("stripe", masked.body, "live", f"what is {HIDDEN}")
    assert masked == replace(expected, tenant="shop", zone="eu", original_sha256=MASKING_KEY.sha256(body))
    assert masked.event_id == masked.body_sha256 == masked.content_sha256


def test_a_poisons_text_is_masked_even_where_its_body_has_nothing():
    event = poison_event("stripe", b"{}", "live", f"the type {CARD} isn't one")
    masked = MASKER.mask_event(event, ADAPTERS["stripe"])
    assert masked == replace(event, poison=f"the type {HIDDEN} isn't one")
    harmless = poison_event("stripe", b"{}", "live", "not JSON")
    assert MASKER.mask_event(harmless, ADAPTERS["stripe"]) is harmless


class Fragile:
    """An adapter to which masked bytes say nothing."""

    def __init__(self, adapter: Adapter) -> None:
        self.identity_fields = adapter.identity_fields
        self.envelopes = adapter.envelopes
        self.money = adapter.money

    def content_sha256(self, body: bytes, version: int) -> str:
        raise ZeroDivisionError


def test_a_body_that_cant_be_read_once_it_is_masked_is_kept_as_poison_and_never_unmasked():
    event = replace(stripe(), tenant="shop")
    masked = MASKER.mask_event(event, Fragile(ADAPTERS["stripe"]))  # type: ignore[arg-type]
    assert masked.poison == "its adapter can't read it with its card numbers masked: ZeroDivisionError"
    assert masked.original_sha256 == MASKING_KEY.sha256(event.body)
    assert masked.tenant == "shop"
    assert CARD.encode() not in masked.body


def test_money_that_fails_fails_in_the_same_way_after_masking():
    masked = MASKER.mask_event(stripe(f"{CARD} 4012888888881881"), Particular())  # type: ignore[arg-type]
    assert CARD.encode() in masked.body
    assert b"401288******1881" in masked.body


@pytest.fixture(scope="module")
def samples() -> list[Path]:
    if not (SAMPLES / "SOURCES.tsv").is_file():
        pytest.skip(f"no webhook samples at {SAMPLES}; set PAYHOOK_TEST_WEBHOOKS to their folder")
    return sorted(path for path in SAMPLES.glob("*/*") if path.is_file())


def events_of(adapter: Adapter, body: bytes) -> list[Event]:
    """The sample's events in the mode that it is of; none where it isn't a delivery of this adapter."""
    modes: tuple[Mode, Mode] = ("live", "test")
    for mode in modes:
        origin = b"https://api.gocardless.com" if mode == "live" else b"https://api-sandbox.gocardless.com"
        request = Request(body, [*HEADERS, (b"origin", origin)], fetched=Fetched(200, body))
        try:
            return adapter.events(request, mode)
        except (Unparseable, ModeMismatch):
            continue
    return []


def deliveries(samples: list[Path]) -> Iterator[tuple[Path, Adapter, Event]]:
    for path in samples:
        for name, adapter in ADAPTERS.items():
            if name.startswith(path.parent.name):
                yield from ((path, adapter, event) for event in events_of(adapter, path.read_bytes()))


def test_no_sample_of_a_provider_holds_card_data_and_none_is_touched(samples: list[Path]):
    """Read through by hand: their card numbers are masked by the providers, and long numbers in them are references."""
    seen = set()
    for path, adapter, event in deliveries(samples):
        assert MASKER.mask_event(event, adapter) is event, path
        seen.add(path.parent.name)
    assert seen == {path.parent.name for path in samples}
    for path in samples:
        raw = poison_event("stripe", path.read_bytes(), "live", "-")
        assert MASKER.mask_event(raw, ADAPTERS["stripe"]) is raw, path


def test_a_card_number_in_any_sample_is_masked_and_identities_and_money_stay(samples: list[Path]):
    for path, adapter, event in deliveries(samples):
        if event.poison is not None:
            continue
        body = with_card(event.body)
        content = adapter.content_sha256(body, event.content_version)
        masked = MASKER.mask_event(replace(event, body=body, content_sha256=content), adapter)
        assert CARD.encode() not in masked.body, path
        assert len(masked.body) == len(body)
        assert masked.content_sha256 == adapter.content_sha256(masked.body, masked.content_version)
        if event.fact_key is not None:
            assert adapter.money(masked.body, event.event_type) == adapter.money(event.body, event.event_type), path
        assert masked.original_content_sha256 == MASKING_KEY.sha256(bytes.fromhex(content))
        named = replace(masked, body=event.body, content_sha256=event.content_sha256)
        assert unhashed(replace(named, original_sha256=None, original_content_sha256=None)) == unhashed(event), path
        assert not set(re.findall("[0-9a-f]{64}", event.event_key)) & set(re.findall("[0-9a-f]{64}", repr(masked)))


def unhashed(event: Event) -> Event:
    """Names without the hashes of what was sent, which are others in a masked event."""
    names = (re.sub("[0-9a-f]{64}", "#", name) for name in (event.event_id, event.event_key, event.entity_key))
    event_id, event_key, entity_key = names
    return replace(event, event_id=event_id, event_key=event_key, entity_key=entity_key)


def with_card(body: bytes) -> bytes:
    """A card number in each object of JSON, or in a comment at the end of XML."""
    if body.lstrip()[:1] == b"<":
        return body + f"<!-- {CARD} -->".encode()

    def put(node: Any) -> Any:
        if isinstance(node, dict):
            return {name: put(value) for name, value in node.items()} | {"zz_note": f"with {CARD}"}
        return [put(value) for value in node] if isinstance(node, list) else node

    return json.dumps(put(json.loads(body))).encode()
