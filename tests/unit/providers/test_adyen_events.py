"""Adyen: every item is sliced out byte by byte, and named."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Unparseable
from providers import (
    Adapter,
    ModeMismatch,
    ProvidersSettings,
    Request,
    build_adapters,
)
from tests.unit.providers.adyen_items import OTHER_KEY, body, item, signed


def test_an_event_has_all_its_names(adapter: Adapter) -> None:
    (made,) = adapter.events(Request(body(item()), []), "live")
    assert (made.provider, made.event_id, made.event_type) == ("adyen", "PSP1", "CAPTURE")
    assert made.event_key == "adyen:PSP1:CAPTURE:true"
    assert made.entity_key == "adyen:Main:ORIGINAL1"
    assert made.fact_key == "adyen:PSP1:capture"
    assert (made.account, made.mode) == ("Main", "live")
    assert made.occurred_at == datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def test_a_payment_is_its_own_entity_and_shares_it_with_its_modifications(adapter: Adapter) -> None:
    authorised = item(pspReference="ORIGINAL1", originalReference=..., eventCode="AUTHORISATION")
    made = adapter.events(Request(body(authorised, item(), item(originalReference="")), []), "live")
    assert [event.entity_key for event in made] == ["adyen:Main:ORIGINAL1", "adyen:Main:ORIGINAL1", "adyen:Main:PSP1"]


def test_order_is_kept_for_the_merchant_by_configuration() -> None:
    adapter = build_adapters(ProvidersSettings(entity="merchant"))["adyen"]
    (made,) = adapter.events(Request(body(item()), []), "live")
    assert made.entity_key == "adyen:Main"


def test_success_and_failure_of_one_reference_are_two_events(adapter: Adapter) -> None:
    made = adapter.events(Request(body(item(), item(success="false")), []), "live")
    assert [event.event_key for event in made] == ["adyen:PSP1:CAPTURE:true", "adyen:PSP1:CAPTURE:false"]


def test_each_event_holds_the_exact_bytes_of_its_item(adapter: Adapter) -> None:
    first = '{ "NotificationRequestItem" :{"pspReference":"A","eventCode":"X","merchantAccountCode":"é",'
    first += '\n"success":"true"}}'
    second = (
        '{"NotificationRequestItem":{"eventCode":"X\\/","success":"false","pspReference":"\\u0041]},",'
        '"merchantAccountCode":"M","amount":{"value":1,"currency":"EUR"},"n":[1.50,{"a":[]}]}}'
    )
    whole = ' {"before":[{"notificationItems":[1]}],\n"notificationItems" : [ '
    whole += f'{first} ,\t{second}\r\n], "live":"true"}} \n'
    made = adapter.events(Request(whole.encode(), []), "live")
    assert [event.body for event in made] == [first.encode(), second.encode()]
    assert [event.event_id for event in made] == ["A", "A]},"]


def test_the_key_of_the_items_may_be_written_with_escapes(adapter: Adapter) -> None:
    whole = body(item()).replace(b"notificationItems", b"\\u006eotificationItems")
    (made,) = adapter.events(Request(whole, []), "live")
    assert json.loads(made.body) == {"NotificationRequestItem": item()}


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_extras = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)


@given(
    st.lists(st.dictionaries(_texts, _extras, max_size=3), min_size=1, max_size=4),
    st.dictionaries(_texts, _extras, max_size=3),
    st.sampled_from([None, 1, "\t"]),
    st.booleans(),
)
def test_items_are_sliced_exactly_wherever_they_stand(
    extras: list[dict[str, Any]], around: dict[str, Any], indent: Any, ascii_only: bool
) -> None:
    adapter = build_adapters(ProvidersSettings())["adyen"]
    wrapped = [{"NotificationRequestItem": {**extra, **item(pspReference=f"P{n}")}} for n, extra in enumerate(extras)]
    whole = {**around, "notificationItems": wrapped, "live": "true"}
    text = json.dumps(whole, indent=indent, ensure_ascii=ascii_only).encode()
    made = adapter.events(Request(text, []), "live")
    assert [json.loads(event.body) for event in made] == wrapped
    at = 0
    for event in made:
        at = text.index(event.body, at) + len(event.body)
        assert adapter.content_sha256(event.body, adapter.content_version) == event.content_sha256


@pytest.mark.parametrize(
    ("live", "endpoint", "agrees"),
    [
        ("true", "live", True),
        ("false", "test", True),
        (True, "live", True),
        ("true", "test", False),
        ("false", "live", False),
        (None, "live", False),
        ("yes", "live", False),
        ("", "test", False),
        (1, "live", False),
    ],
)
def test_the_unsigned_live_flag_must_agree_with_the_endpoint(
    adapter: Adapter, live: Any, endpoint: Any, agrees: bool
) -> None:
    of = Request(body(item(), live=live), [])
    if agrees:
        assert adapter.events(of, endpoint)[0].mode == endpoint
    else:
        with pytest.raises(ModeMismatch, match="other endpoint"):
            adapter.events(of, endpoint)


@pytest.mark.parametrize(
    "changed",
    [
        {"pspReference": ...},
        {"pspReference": ""},
        {"eventCode": ...},
        {"merchantAccountCode": ""},
        {"success": ...},
        {"success": "TRUE"},
    ],
)
def test_an_item_without_its_names_is_poison_and_costs_only_itself(adapter: Adapter, changed: dict[str, Any]) -> None:
    whole = body(item(pspReference="A"), item(**changed), item(pspReference="B"))
    first, bad, last = adapter.events(Request(whole, []), "live")
    assert [first.event_id, last.event_id] == ["A", "B"]
    assert bad.poison is not None
    assert json.loads(bad.body) == {"NotificationRequestItem": item(**changed)}
    assert bad.event_key == f"adyen:{hashlib.sha256(bad.body).hexdigest()}:poison"
    assert adapter.content_sha256(bad.body, bad.content_version) == bad.content_sha256


def test_what_is_no_notification_at_all_is_poison_as_a_whole(adapter: Adapter) -> None:
    with pytest.raises(Unparseable):
        adapter.events(Request(b'{"live":"true","notificationItems":[]}', []), "live")


def test_a_redelivery_has_the_same_content_under_another_date_and_key(adapter: Adapter) -> None:
    first = signed(item(additionalData={"authCode": "1"}))
    again = signed(item(additionalData={"authCode": "1"}, eventDate="2026-02-01T00:00:00+01:00"), OTHER_KEY)
    made = adapter.events(Request(body(first, again), []), "live")
    assert made[0].content_sha256 == made[1].content_sha256
    assert made[0].body_sha256 != made[1].body_sha256


@pytest.mark.parametrize(
    "changed",
    [
        {"amount": {"value": 1001, "currency": "EUR"}},
        {"merchantReference": "x"},
        {"originalReference": "x"},
        {"paymentMethod": "x"},
        {"additionalData": {"authCode": "1", "modification.action": "refund"}},
    ],
)
def test_other_content_under_one_key_has_another_hash(adapter: Adapter, changed: dict[str, Any]) -> None:
    """Unsigned fields too: they are never trusted alone."""
    first = item(additionalData={"authCode": "1", "modification.action": "cancel"})
    made = adapter.events(Request(body(first, {**first, **changed}), []), "live")
    assert made[0].event_key == made[1].event_key
    assert made[0].content_sha256 != made[1].content_sha256


@pytest.mark.parametrize(
    "changed",
    [
        {"reason": "Approved"},
        {"reason": ...},
        {"additionalData": {"authCode": "2", "disputeStatus": "Lost"}},
        {"additionalData": {}},
        {"additionalData": None},
        {"additionalData": ...},
        {"eventDate": "2026-02-01T00:00:00+01:00"},
    ],
)
def test_what_adyen_may_tell_otherwise_in_a_copy_is_no_conflict(adapter: Adapter, changed: dict[str, Any]) -> None:
    first = item(reason="", additionalData={"authCode": "1"})
    copy = {name: value for name, value in {**first, **changed}.items() if value is not ...}
    made = adapter.events(Request(body(first, copy), []), "live")
    assert (made[0].event_key, made[0].content_sha256) == (made[1].event_key, made[1].content_sha256)
    assert made[0].content_version == 2


@pytest.mark.parametrize("reason", ["Transaction Recaptured", "Transaction Auto-recaptured"])
def test_a_capture_that_adyen_repeats_is_no_copy_of_the_one_that_failed(adapter: Adapter, reason: str) -> None:
    """CAPTURE, CAPTURE_FAILED, CAPTURE: as a copy of the first the last would leave nothing booked, in silence."""
    made = adapter.events(Request(body(item(reason=""), item(reason=reason)), []), "live")
    assert made[0].event_key == made[1].event_key
    assert made[0].content_sha256 != made[1].content_sha256
    refunds = [item(eventCode="REFUND", reason=text) for text in ("", reason)]
    same = adapter.events(Request(body(*refunds), []), "live")
    assert same[0].content_sha256 == same[1].content_sha256


@pytest.mark.parametrize("extra", [{"authCode": "1", "hmacSignature": "x"}, {"authCode": "1"}, {}, None, ...])
def test_the_first_versions_hash_is_what_it_was(adapter: Adapter, extra: Any) -> None:
    """All but eventDate and the signature: keys sorted, no blanks."""
    of = item(reason="033899:1111:03/2030", additionalData=extra)
    left = {name: value for name, value in of.items() if name != "eventDate"}
    if isinstance(extra, dict):
        left["additionalData"] = {name: value for name, value in extra.items() if name != "hmacSignature"}
    expected = hashlib.sha256(json.dumps(left, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    [event] = adapter.events(Request(body(of), []), "live")
    assert adapter.content_sha256(event.body, 1) == expected


@pytest.mark.parametrize(
    ("reported", "event_key", "entity_key"),
    [
        (
            {"eventCode": "REPORT_AVAILABLE", "pspReference": "settlement_detail_report_batch_7.csv"},
            "adyen:Main:REPORT_AVAILABLE:settlement_detail_report_batch_7.csv:true",
            "adyen:Main:REPORT_AVAILABLE:settlement_detail_report_batch_7.csv",
        ),
        (
            {"eventCode": "RECURRING_CONTRACT", "pspReference": "M5N7TQ4TG5PFWR50", "originalReference": "PAY1"},
            "adyen:Main:RECURRING_CONTRACT:M5N7TQ4TG5PFWR50:true",
            "adyen:Main:RECURRING_CONTRACT:M5N7TQ4TG5PFWR50",
        ),
    ],
)
def test_what_is_about_no_payment_is_named_by_account_and_kind(
    adapter: Adapter, reported: dict[str, str], event_key: str, entity_key: str
) -> None:
    first, other = item(**{"originalReference": ..., **reported}), item(**{"originalReference": ..., **reported})
    other["merchantAccountCode"] = "Other"
    made = adapter.events(Request(body(first, other), []), "live")
    assert (made[0].event_key, made[0].entity_key) == (event_key, entity_key)
    assert made[0].event_key != made[1].event_key
    assert made[0].entity_key != made[1].entity_key
    merchant = build_adapters(ProvidersSettings(entity="merchant"))["adyen"]
    assert merchant.events(Request(body(first), []), "live")[0].entity_key == "adyen:Main"


@pytest.mark.parametrize(
    "code",
    [
        "AUTHORISATION",
        "CAPTURE",
        "CANCELLATION",
        "REFUND",
        "CHARGEBACK",
        "SECOND_CHARGEBACK",
        "OFFER_CLOSED",
        "NEW_CODE",
    ],
)
def test_a_payments_key_is_its_reference_code_and_success(adapter: Adapter, code: str) -> None:
    event = adapter.events(Request(body(item(eventCode=code)), []), "live")[0]
    assert (event.event_key, event.entity_key) == (f"adyen:PSP1:{code}:true", "adyen:Main:ORIGINAL1")


def test_the_answer_is_what_adyen_waits_for(adapter: Adapter) -> None:
    answer = adapter.accepted()
    assert (answer.status, answer.body, answer.content_type) == (200, b"[accepted]", "text/plain")
