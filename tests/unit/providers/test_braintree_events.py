"""Braintree: what its notifications are called, and what money they moved."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from core.errors import Unparseable
from core.money import MoneyInvalid
from load.samples import braintree as samples_of
from providers import ProvidersSettings, build_adapters
from providers.braintree import LEFT_TO_A_PERSON
from tests.unit.providers.braintree_shapes import ADAPTER, Moved, moved, only
from tests.unit.providers.shapes import NOW

AT = "2026-01-31T12%3A00%3A00Z"


def transaction(kind: str = "transaction_settled", amount: str = "12.50", currency: str = "EUR", **more: Any) -> bytes:
    return samples_of.transaction_event(
        kind, transaction="tx1", merchant_account="M1", amount=amount, currency=currency, triggered=NOW, **more
    )


def charged() -> bytes:
    return samples_of.subscription_charged(
        subscription="sub1", transaction="tx1", merchant_account="M1", amount="12.50", currency="EUR", triggered=NOW
    )


def dispute(kind: str, **more: Any) -> bytes:
    return samples_of.dispute_event(
        kind,
        dispute="d1",
        transaction="tx1",
        merchant_account="M1",
        amount="12.50",
        currency="EUR",
        triggered=NOW,
        **more,
    )


def disbursement(kind: str = "disbursement", **more: Any) -> bytes:
    return samples_of.disbursement_event(
        kind, disbursement="db1", merchant_account="M1", amount="12.50", currency="EUR", triggered=NOW, **more
    )


def changed(xml: bytes, old: str, new: str) -> bytes:
    assert old.encode() in xml
    return xml.replace(old.encode(), new.encode(), 1)


CAPTURE = ("braintree:tx1:capture", "capture", 1_250, "EUR", "tx1")
OPENED = ("braintree:d1:dispute_opened", "dispute_opened", 1_250, "EUR", "tx1")
REFUND = ("braintree:tx1:refund", "refund", 1_250, "EUR", "tx0")
REFUND_FAILED = ("braintree:tx1:refund_failed", "refund_failed", 1_250, "EUR", "tx0")
DECLINED = ("braintree:tx1:capture_failed", "capture_failed", 1_250, "EUR", "tx1")


def declined(**more: Any) -> bytes:
    return changed(transaction("transaction_settlement_declined", **more), ">settled<", ">settlement_declined<")


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        (transaction(), CAPTURE),
        (transaction("transaction_disbursed"), CAPTURE),
        (transaction("transaction_retried"), CAPTURE),
        (charged(), CAPTURE),
        (transaction(refund_of="tx0"), REFUND),
        (transaction("transaction_disbursed", refund_of="tx0"), REFUND),
        (changed(transaction(), ">settled<", ">authorized<"), None),
        (changed(transaction(), ">settled<", ">voided<"), None),
        (transaction("transaction_reviewed"), None),
        (transaction("refund_failed", refund_of="tx0"), REFUND_FAILED),
        (changed(transaction("refund_failed", refund_of="tx0"), ">settled<", ">settlement_declined<"), REFUND_FAILED),
        (changed(transaction("refund_failed", refund_of="tx0"), ">settled<", ">processor_declined<"), None),
        (declined(), DECLINED),
        (declined(refund_of="tx0"), REFUND_FAILED),
        (changed(charged(), "charged_successfully", "charged_unsuccessfully"), None),
        (dispute("dispute_opened"), OPENED),
        (dispute("dispute_opened", about="pre_arbitration"), OPENED),
        (dispute("dispute_opened", about="retrieval"), None),
        (dispute("dispute_lost", about="retrieval"), None),
        (dispute("dispute_disputed"), None),
        (dispute("dispute_under_review"), None),
        (dispute("dispute_won", amount_won="12.5"), ("braintree:d1:dispute_won", "dispute_won", 1_250, "EUR", "tx1")),
        (dispute("dispute_lost"), ("braintree:d1:dispute_lost", "dispute_lost", 1_250, "EUR", "tx1")),
        (dispute("dispute_accepted"), ("braintree:d1:dispute_lost", "dispute_lost", 1_250, "EUR", "tx1")),
        (dispute("dispute_expired"), ("braintree:d1:dispute_lost", "dispute_lost", 1_250, "EUR", "tx1")),
        (disbursement(), ("braintree:db1:payout_paid", "payout_paid", 1_250, "EUR", None)),
        (disbursement(disbursement_type="debit"), ("braintree:db1:payout_paid", "payout_paid", -1_250, "EUR", None)),
        (disbursement(success=False), None),
        (samples_of.check_event(triggered=NOW), None),
    ],
)
def test_what_a_kind_books(xml: bytes, expected: Moved | None) -> None:
    assert moved(only(xml)) == expected


@pytest.mark.parametrize(
    ("done", "undone"),
    [
        (transaction(), declined()),
        (charged(), declined()),
        (transaction(refund_of="tx0"), declined(refund_of="tx0")),
        (transaction("transaction_disbursed", refund_of="tx0"), transaction("refund_failed", refund_of="tx0")),
        (dispute("dispute_opened"), dispute("dispute_won", amount_won="12.50")),
    ],
)
def test_what_gives_back_and_what_it_gives_back_name_each_other(done: bytes, undone: bytes) -> None:
    first, second = (ADAPTER.money(xml, only(xml).event_type) for xml in (done, undone))
    assert first is not None
    assert second is not None
    assert (first.pair, second.pair) == (second.fact_key, first.fact_key)
    assert only(done).entity_key == only(undone).entity_key


def test_a_dispute_that_is_won_in_part_is_for_a_person() -> None:
    """As a pair it would undo the whole debit, whichever of the two is reported first."""
    with pytest.raises(MoneyInvalid, match="book both parts by hand"):
        moved(only(dispute("dispute_won", amount_won="10.00")))


@pytest.mark.parametrize("xml", [disbursement(), dispute("dispute_lost")])
def test_what_nothing_gives_back_names_no_other(xml: bytes) -> None:
    fact = ADAPTER.money(xml, only(xml).event_type)
    assert fact is not None
    assert fact.pair is None


@pytest.mark.parametrize("kind", sorted(LEFT_TO_A_PERSON))
def test_what_moves_money_in_a_way_it_does_not_tell_is_for_a_person(kind: str) -> None:
    for xml in (disbursement(kind, success=False), transaction(kind)):
        with pytest.raises(MoneyInvalid, match=f"{kind} .* manual entry"):
            moved(only(xml))


def test_the_kinds_left_to_a_person_are_these() -> None:
    assert frozenset({"disbursement_exception", "local_payment_reversed"}) == LEFT_TO_A_PERSON


@pytest.mark.parametrize("wrapped", ["paypal-account", "granted-payment-instrument-update"])
def test_a_payment_method_is_an_entity_of_its_own(wrapped: str) -> None:
    subject = f"<{wrapped}><token>tok1</token><email>robin@example.com</email></{wrapped}>"
    xml = changed(transaction("payment_method_revoked_by_customer"), "<subject>", f"<subject>{subject}")
    xml = xml[: xml.index(b"<transaction>")].rstrip() + xml[xml.index(b"</transaction>") + len(b"</transaction>") :]
    event = only(xml)
    assert (event.entity_key, event.event_id) == ("braintree::tok1", event.content_sha256)


def test_one_transaction_under_several_kinds_is_one_fact() -> None:
    events = [only(xml) for xml in (charged(), transaction("transaction_disbursed"), transaction())]
    assert len({event.event_key for event in events}) == 3
    assert len({(event.fact_key, event.fact_sha256) for event in events}) == 1
    assert {event.entity_key for event in events} == {"braintree::tx1"}


def test_a_sale_its_refund_and_its_dispute_share_one_entity() -> None:
    refund = changed(transaction(refund_of="tx1"), "<id>tx1<", "<id>tx2<")
    assert {only(xml).entity_key for xml in (transaction(), refund, dispute("dispute_opened"))} == {"braintree::tx1"}


def test_the_newest_of_a_subscriptions_transactions_is_the_charge() -> None:
    older = samples_of.subscription_charged(
        subscription="sub1",
        transaction="tx0",
        merchant_account="M1",
        amount="9.00",
        currency="EUR",
        triggered=NOW - timedelta(days=31),
    ).decode()
    start, end = older.index("<transaction>"), older.index("</transaction>") + len("</transaction>")
    for place in ("</transactions>", "<transactions "):
        both = charged().decode()
        at = both.index(place) if place == "</transactions>" else both.index(">", both.index(place)) + 1
        assert moved(only((both[:at] + older[start:end] + both[at:]).encode())) == CAPTURE
    undated = (both[:at] + older[start:end] + both[at:]).replace("created-at", "made-at").encode()
    with pytest.raises(MoneyInvalid):
        moved(only(undated))


@pytest.mark.parametrize(
    "xml",
    [
        changed(declined(), "<type>sale</type>", ""),
        changed(declined(), ">sale<", ">something<"),
        changed(transaction(), "<type>sale</type>", ""),
        changed(transaction(), ">sale<", ">something<"),
        changed(transaction(), ">settled<", ">something_new<"),
        changed(transaction(), "<id>tx1</id>", ""),
        changed(transaction(), "<currency-iso-code>EUR</currency-iso-code>", ""),
        changed(transaction(), "<amount>12.50</amount>", ""),
        changed(transaction(), "<amount>12.50</amount>", '<amount nil="true"/>'),
        changed(disbursement(), "true", ""),
        changed(disbursement(), ">credit<", ">both<"),
        charged().replace(b"transactions", b"former-transactions"),
        transaction().replace(b"transaction>", b"thing>").replace(b"<thing>", b"<thing/><thing>"),
    ],
)
def test_what_cant_be_reported_for_sure_books_nothing_and_loses_no_event(xml: bytes) -> None:
    with pytest.raises(MoneyInvalid):
        moved(only(xml))


@pytest.mark.parametrize(
    ("amount", "currency", "amount_minor"),
    [("100", "USD", 10_000), ("100.5", "USD", 10_050), ("1250", "JPY", 1_250), ("1.234", "KWD", 1_234)],
)
def test_amounts_are_read_without_a_float(amount: str, currency: str, amount_minor: int) -> None:
    booked = moved(only(transaction(amount=amount, currency=currency)))
    assert booked is not None
    assert booked[2:4] == (amount_minor, currency)


@pytest.mark.parametrize(
    ("amount", "currency"),
    [("12.505", "EUR"), ("1.5", "JPY"), ("1e3", "EUR"), ("12,50", "EUR"), ("NaN", "EUR"), ("1", "EURO"), ("1", "")],
)
def test_an_amount_that_cant_be_reported_books_nothing(amount: str, currency: str) -> None:
    with pytest.raises(MoneyInvalid):
        moved(only(transaction(amount=amount, currency=currency)))


def test_a_field_that_comes_twice_books_nothing() -> None:
    xml = changed(transaction(), "<amount>12.50</amount>", "<amount>12.50</amount><amount>1250</amount>")
    with pytest.raises(Unparseable):
        moved(only(xml))


def test_a_redelivery_in_other_words_is_a_conflict_and_not_another_event() -> None:
    event, other = only(transaction()), only(transaction(amount="12.51"))
    assert event.event_key == other.event_key == f"braintree:transaction/tx1/{AT}:transaction_settled"
    assert event.content_sha256 != other.content_sha256
    assert only(changed(transaction(), "  <kind>", "<kind>")).content_sha256 == event.content_sha256


def test_another_time_or_source_is_another_event() -> None:
    keys = {
        only(xml).event_key
        for xml in (
            transaction(),
            changed(transaction(), "12:00:00Z</timestamp>", "12:00:01Z</timestamp>"),
            changed(transaction(), "<subject>", "<source-merchant-id>s1</source-merchant-id><subject>"),
            transaction("transaction_disbursed"),
        )
    }
    assert len(keys) == 4


@pytest.mark.parametrize(
    "xml",
    [
        samples_of.check_event(triggered=NOW),
        changed(transaction(), "<id>tx1</id>", ""),
        changed(transaction(), '<timestamp type="datetime">2026-01-31T12:00:00Z</timestamp>', ""),
    ],
)
def test_what_has_no_id_or_time_is_named_by_its_content(xml: bytes) -> None:
    event = only(xml)
    assert event.event_id == event.content_sha256
    assert event.poison is None


CHECK = samples_of.check_event(triggered=NOW)


@pytest.mark.parametrize(
    ("xml", "account"),
    [
        (transaction(), "M1"),
        (charged(), "M1"),
        (dispute("dispute_opened"), "M1"),
        (disbursement(), "M1"),
        (changed(CHECK, "<subject>", "<source-merchant-id>s1</source-merchant-id><subject>"), "s1"),
        (CHECK, ""),
    ],
)
def test_the_account_is_the_merchant_accounts_id(xml: bytes, account: str) -> None:
    assert only(xml).account == account
    merchant = build_adapters(ProvidersSettings(entity="merchant"))["braintree"]
    assert only(xml, merchant).entity_key == f"braintree:{account}"


@pytest.mark.parametrize(
    "xml",
    [
        b"<something/>",
        changed(transaction(), "<kind>transaction_settled</kind>", ""),
        changed(transaction(), "</kind>", "</kind><kind>check</kind>"),
        b"<notification/>",
        b"not xml",
        b'<!DOCTYPE notification [<!ENTITY k "check">]><notification><kind>&k;</kind></notification>',
    ],
)
def test_what_is_no_notification_is_poison(xml: bytes) -> None:
    with pytest.raises(Unparseable):
        only(xml)
