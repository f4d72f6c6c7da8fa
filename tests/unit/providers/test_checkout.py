"""Checkout.com: proven by its signature, named by its own ids, booked once under each action's or dispute's."""

from __future__ import annotations

import hashlib
import hmac
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from core.errors import Unparseable
from core.event import Mode
from core.money import UNDOS, MoneyFact, MoneyInvalid, Movement
from load.samples import checkout as samples_of
from load.samples import sign
from providers import Adapter, ModeMismatch, ProvidersSettings, Request, build_adapters
from providers.checkout import LEFT_TO_A_PERSON
from tests.unit.providers.shapes import NO_MONEY, NOW, Row, changed, money, moved, only, row
from tests.unit.providers.shapes import refusal as refusal_of

SECRET = "new-signature-key"
HEADER = b"cko-signature"
ADAPTER = build_adapters(ProvidersSettings())["checkout"]


def signed(body: bytes, secret: str = SECRET) -> bytes:
    return sign(ADAPTER, body, secret, NOW).headers["Cko-Signature"].encode()


def refusal(body: bytes, *signatures: bytes, secrets: tuple[str, ...] = (SECRET,)) -> str | None:
    return refusal_of(ADAPTER, Request(body, [(HEADER, signature) for signature in signatures]), *secrets)


# The signature. Checkout.com publishes neither a vector nor a check in its SDKs: openssl made this one, by
# printf '%s' BODY | openssl dgst -sha256 -hmac sample-signature-key
OPENSSL_BODY = '{"id":"evt_sample","type":"payment_captured","data":{"note":"prix en €"}}'.encode()
OPENSSL_KEY = "sample-signature-key"
OPENSSL_SIGNATURE = b"c03fc8491ce8c4efa77cd52cf515392dd32dc10309085dfe0c2c30152ad9b3c6"


def test_what_openssl_signs_proves_and_is_what_we_sign() -> None:
    body, signature, key = OPENSSL_BODY, OPENSSL_SIGNATURE, OPENSSL_KEY
    assert refusal(body, signature, secrets=(key,)) is None
    assert signed(body, key) == signature


@given(body=st.binary(max_size=200), key=st.text(min_size=1, max_size=60))
def test_what_the_documentation_describes_and_we_sign_is_the_same(body: bytes, key: str) -> None:
    described = hmac.new(key.encode(), body, hashlib.sha256).hexdigest().encode()
    assert signed(body, key) == described
    assert refusal(body, described, secrets=(key,)) is None


def payment(event_type: str, **more: Any) -> bytes:
    expected: dict[str, Any] = {
        "event_id": "evt_1",
        "action": "act_1",
        "payment": "pay_1",
        "amount_minor": 1_250,
        "currency": "EUR",
        "created": NOW,
        **more,
    }
    return samples_of.payment_event(event_type, **expected)


def dispute(event_type: str, **more: Any) -> bytes:
    expected: dict[str, Any] = {
        "event_id": "evt_2",
        "dispute": "dsp_1",
        "payment": "pay_1",
        "amount_minor": 1_250,
        "currency": "EUR",
        "created": NOW,
        **more,
    }
    return samples_of.dispute_event(event_type, **expected)


BODY = payment("payment_captured")


# Identities.


IDENTITIES: dict[str, Row] = {
    "AuhorizationDeclined": (  # of an issued card: there is no payment, order is kept for its transaction
        "checkout:evt_az5sblvku4ge3dwpztvyizgcau:authorization_declined",
        "checkout::trx_y3oqhf46pyzuxjbcn2giaqnb44",
        *NO_MONEY,
        "2018-04-10T08:13:14+00:00",
    ),
    "PaymentApproved": (
        "checkout:evt_jyvkfwne6gnenlfm5yuyosi4wa:payment_approved",
        "checkout::pay_m3ncbzghvosu7b2j77hqln4agu",
        *NO_MONEY,
        "2022-11-14T12:18:54.321194+00:00",
    ),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_each_public_sample_is_named_and_booked_as_read_by_hand(samples: Path, adapter: Adapter, name: str) -> None:
    assert row(adapter, (samples / f"checkout/{name}.json").read_bytes()) == IDENTITIES[name]


def test_a_payment_and_its_dispute_are_one_entity_of_one_account(adapter: Adapter) -> None:
    """A dispute names accounts of ours that a payment doesn't."""
    captured, disputed = only(adapter, BODY), only(adapter, dispute("dispute_evidence_required"))
    assert captured.entity_key == disputed.entity_key == "checkout::pay_1"
    assert captured.account == disputed.account == ""


def test_an_account_that_all_events_have_is_where_the_settings_say() -> None:
    pointed = {"checkout": {"account": "/data/processing_channel_id"}}
    adapter = build_adapters(ProvidersSettings.model_validate(pointed))["checkout"]
    body = changed(BODY, "data", "processing_channel_id", to="pc_1")
    event, fact = only(adapter, body), money(adapter, body)
    assert (event.account, event.entity_key) == ("pc_1", "checkout:pc_1:pay_1")
    assert fact is not None
    assert fact.account == "pc_1"
    assert only(adapter, changed(body, "data", "processing_channel_id", to=7)).account == ""
    merchant = ProvidersSettings.model_validate({**pointed, "entity": "merchant"})
    assert only(build_adapters(merchant)["checkout"], body).entity_key == "checkout:pc_1"
    with pytest.raises(ValidationError):
        ProvidersSettings.model_validate({"checkout": {"account": "data"}})


def test_what_became_of_earlier_deliveries_is_no_other_content(adapter: Adapter) -> None:
    first, again = only(adapter, BODY), only(adapter, payment("payment_captured", delivery=2))
    assert first.body != again.body
    assert (first.event_key, first.content_sha256) == (again.event_key, again.content_sha256)
    assert adapter.content_sha256(first.body, 1) == first.content_sha256


def test_an_older_event_has_its_time_under_another_name(adapter: Adapter) -> None:
    older = changed(changed(BODY, "created_on", to=...), "timestamp", to="2023-05-24T09:12:32.357+00:00")
    assert str(only(adapter, older).occurred_at) == "2023-05-24 09:12:32.357000+00:00"


@pytest.mark.parametrize(
    ("link", "reported"),
    [
        ("https://api.checkout.com/workflows/events/evt_1", "live"),
        ("https://prefix.api.checkout.com/workflows/events/evt_1", "live"),
        ("https://api.sandbox.checkout.com/workflows/events/evt_1", "test"),
        ("https://prefix.api.sandbox.checkout.com/workflows/events/evt_1", "test"),
        ("https://api.checkout.com.attacker.example/", None),
        ("https://attacker.example/api.checkout.com/", None),
        ("http://api.checkout.com/", None),
        (None, None),
        (7, None),
    ],
)
def test_where_an_event_comes_from_agrees_with_the_endpoint_or_says_nothing(
    adapter: Adapter, link: object, reported: Mode | None
) -> None:
    body = changed(BODY, "_links", "self", "href", to=link)
    endpoints: tuple[Mode, Mode] = ("live", "test")
    for endpoint in endpoints:
        if reported in (None, endpoint):
            assert only(adapter, body, mode=endpoint).mode == endpoint
        else:
            with pytest.raises(ModeMismatch) as caught:
                only(adapter, body, mode=endpoint)
            assert (caught.value.endpoint, caught.value.reported) == (endpoint, reported)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"id":1,"type":"x"}', b'{"id":"e"}', b"\xff"])
def test_what_is_no_event_is_unparseable(adapter: Adapter, body: bytes) -> None:
    with pytest.raises(Unparseable):
        only(adapter, body)


# Money.


@pytest.mark.parametrize(
    ("body", "fact_key", "movement"),
    [
        (payment("payment_captured"), "checkout:act_1:capture", "capture"),
        (payment("payment_refunded"), "checkout:act_1:refund", "refund"),
        (dispute("dispute_evidence_required"), "checkout:dsp_1:dispute_opened", "dispute_opened"),
        (dispute("dispute_won"), "checkout:dsp_1:dispute_won", "dispute_won"),
        (dispute("dispute_canceled"), "checkout:dsp_1:dispute_won", "dispute_won"),
        (dispute("dispute_resolved"), "checkout:dsp_1:dispute_won", "dispute_won"),
    ],
)
def test_each_movement_books_under_its_own_id(adapter: Adapter, body: bytes, fact_key: str, movement: str) -> None:
    assert moved(adapter, body) == (fact_key, movement, 1_250, "EUR", "pay_1")


@pytest.mark.parametrize(
    "event_type",
    ["payment_approved", "payment_declined", "payment_voided", "payment_refund_declined", "payment_capture_declined"],
)
def test_what_is_approved_or_declined_moves_nothing(adapter: Adapter, event_type: str) -> None:
    assert moved(adapter, payment(event_type)) is None


@pytest.mark.parametrize(
    "event_type", ["dispute_received", "dispute_evidence_submitted", "dispute_arbitration_sent_to_scheme"]
)
def test_what_only_tells_of_a_dispute_moves_nothing(adapter: Adapter, event_type: str) -> None:
    assert moved(adapter, dispute(event_type)) is None


@pytest.mark.parametrize("event_type", ["payment_captured", "payment_refunded"])
def test_two_parts_of_one_payment_are_two_facts_of_one_entity(adapter: Adapter, event_type: str) -> None:
    first, second = (only(adapter, payment(event_type, action=action)) for action in ("act_1", "act_2"))
    assert first.fact_key != second.fact_key
    assert first.entity_key == second.entity_key


LOSSES = ["dispute_lost", "dispute_expired", "dispute_accepted", "dispute_arbitration_lost"]


def facts(body: bytes) -> list[MoneyFact]:
    """What the events of one notification book, in their order."""
    events = ADAPTER.events(Request(body, ()), "live")
    found = [ADAPTER.money(event.body, event.event_type) for event in events]
    assert [event.fact_key for event in events] == [fact.fact_key if fact else None for fact in found]
    return [fact for fact in found if fact]


def booked(*bodies: bytes) -> dict[Movement, int]:
    """The sums by movement: each fact once, an undo only after what it undoes, and that not after its undo."""
    taken: dict[str, MoneyFact] = {}
    sums: dict[Movement, int] = dict.fromkeys(Movement, 0)
    for fact in (fact for body in bodies for fact in facts(body)):
        counts = fact.pair is None or (fact.pair in taken) == (fact.movement in UNDOS)
        if fact.fact_key not in taken and counts:
            sums[fact.movement] += fact.money.amount_minor
        taken.setdefault(fact.fact_key, fact)
    return sums


def still_withheld(sums: dict[Movement, int]) -> int:
    return sums[Movement.DISPUTE_OPENED] - sums[Movement.DISPUTE_WON] - sums[Movement.DISPUTE_LOST]


@pytest.mark.parametrize("event_type", LOSSES)
def test_a_loss_books_the_debit_before_it_too(event_type: str) -> None:
    """Its own event is named as ever; the other's key is its type with an end."""
    withheld, lost = ADAPTER.events(Request(dispute(event_type), ()), "live")
    assert (lost.event_key, lost.event_type) == (f"checkout:evt_2:{event_type}", event_type)
    assert (withheld.event_key, withheld.event_type) == (f"{lost.event_key}.withheld", f"{event_type}.withheld")
    assert (withheld.body, withheld.content_sha256) == (lost.body, lost.content_sha256)
    assert (withheld.entity_key, lost.entity_key) == ("checkout::pay_1", "checkout::pay_1")
    assert (withheld.fact_key, lost.fact_key) == ("checkout:dsp_1:dispute_opened", "checkout:dsp_1:dispute_lost")


def test_a_debit_is_one_fact_whichever_event_reports_it() -> None:
    (opened,) = facts(dispute("dispute_evidence_required"))
    assert {facts(dispute(event_type))[0].sha256 for event_type in LOSSES} == {opened.sha256}


@pytest.mark.parametrize("losses", list(itertools.permutations(LOSSES, 2)))
@pytest.mark.parametrize("at", [None, 0, 1, 2])
def test_a_lost_dispute_ends_at_its_loss_with_nothing_withheld(losses: tuple[str, str], at: int | None) -> None:
    expected = list(losses)
    if at is not None:
        expected.insert(at, "dispute_evidence_required")
    sums = booked(*(dispute(event_type) for event_type in expected))
    assert (sums[Movement.DISPUTE_LOST], still_withheld(sums)) == (1_250, 0)


@pytest.mark.parametrize("end", ["dispute_won", "dispute_canceled", "dispute_resolved"])
@pytest.mark.parametrize("at", [None, 0, 1])
def test_a_dispute_that_ends_well_withholds_nothing_whether_or_not_it_debited(end: str, at: int | None) -> None:
    expected = [end]
    if at is not None:
        expected.insert(at, "dispute_evidence_required")
    sums = booked(*(dispute(event_type) for event_type in ["dispute_received", *expected, end]))
    assert (sums[Movement.DISPUTE_LOST], still_withheld(sums)) == (0, 0)


@pytest.mark.parametrize("reason", ["rapid_dispute_resolution", "negative_amount", "something_new", 7])
def test_a_dispute_resolved_in_another_way_is_for_a_person(adapter: Adapter, reason: object) -> None:
    body = changed(dispute("dispute_resolved"), "data", "resolved_reason", to=reason)
    with pytest.raises(MoneyInvalid, match="manual entry"):
        money(adapter, body)
    refunded = changed(body, "data", "resolved_reason", to="already_refunded")
    assert moved(adapter, refunded) == ("checkout:dsp_1:dispute_won", "dispute_won", 1_250, "EUR", "pay_1")


@pytest.mark.parametrize("event_type", sorted(LEFT_TO_A_PERSON))
def test_what_moves_money_in_a_way_it_does_not_tell_is_for_a_person(adapter: Adapter, event_type: str) -> None:
    with pytest.raises(MoneyInvalid, match=f"{event_type} .* manual entry"):
        money(adapter, payment(event_type))


def test_the_types_left_to_a_person_are_these() -> None:
    assert frozenset({"dispute_arbitration_won", "payment_paid", "payment_returned"}) == LEFT_TO_A_PERSON


@pytest.mark.parametrize("amount", [12.5, 1250.0, "1250", True, None, [1250], {"value": 1250}, 10**16])
def test_an_amount_is_an_integer_and_nothing_like_it(adapter: Adapter, amount: Any) -> None:
    with pytest.raises(MoneyInvalid):
        money(adapter, changed(BODY, "data", "amount", to=amount))


@pytest.mark.parametrize(
    ("currency", "amount", "amount_minor"),
    [("JPY", 100, 100), ("BHD", 100_000, 100_000), ("KWD", 1_310, 1_310), ("CLP", 10_000, 100), ("ISK", 500, 500)],
)
def test_minor_units_are_iso_4217s_but_for_the_chilean_peso(
    adapter: Adapter, currency: str, amount: int, amount_minor: int
) -> None:
    body = payment("payment_captured", amount_minor=amount, currency=currency)
    assert moved(adapter, body) == ("checkout:act_1:capture", "capture", amount_minor, currency, "pay_1")


@pytest.mark.parametrize(
    ("path", "to", "error"),
    [
        (("data", "currency"), None, MoneyInvalid),
        (("data", "currency"), "EURO", MoneyInvalid),
        (("data", "action_id"), ..., Unparseable),
        (("data",), None, Unparseable),
    ],
)
def test_a_movement_that_is_not_reported_whole_is_not_booked(
    adapter: Adapter, path: tuple[str, ...], to: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        money(adapter, changed(BODY, *path, to=to))


def test_centavos_of_a_peso_are_not_booked(adapter: Adapter) -> None:
    with pytest.raises(MoneyInvalid, match="whole number"):
        money(adapter, payment("payment_captured", amount_minor=10_050, currency="CLP"))
