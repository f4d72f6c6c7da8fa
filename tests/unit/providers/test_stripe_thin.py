"""Stripe's thin events: what is asked for, with which key and in which account's name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.errors import SettingError, Unparseable
from providers.port import PointingAdapter, Request, Wanted
from providers.settings import ProvidersSettings
from providers.stripe import API_VERSION, StripeAdapter

LIVE, TEST, RESTRICTED = (f"{kind}_{'A1b2C3d4' * 3}" for kind in ("sk_live", "sk_test", "rk_live"))
ADAPTER = StripeAdapter(ProvidersSettings())


def asked(event_type: str = "v1.charge.succeeded", kind: str = "charge", of: Any = "ch_1", **more: Any) -> list[Wanted]:
    said = {"id": "evt_1", "type": event_type, "created": "2026-01-31T12:00:00Z", "livemode": True}
    body = json.dumps({**said, "related_object": {"id": of, "type": kind, "url": "/v1/elsewhere"}, **more}).encode()
    return list(ADAPTER.points_to(Request(body, []), [LIVE, TEST, RESTRICTED]))


def test_it_says_that_its_events_may_point_elsewhere() -> None:
    assert isinstance(ADAPTER, PointingAdapter)


@pytest.mark.parametrize(
    ("event_type", "kind", "path"),
    [
        ("v1.charge.updated", "charge", "charges/x_1?expand[]=refunds"),
        ("v1.charge.refund.updated", "refund", "refunds/x_1"),
        ("v1.charge.dispute.closed", "dispute", "disputes/x_1"),
        ("v1.payout.failed", "payout", "payouts/x_1"),
    ],
)
def test_the_address_is_made_of_the_objects_type_and_id_and_not_taken_from_the_event(
    event_type: str, kind: str, path: str
) -> None:
    [wanted] = asked(event_type, kind, "x_1")
    assert wanted.url == f"https://api.stripe.com/v1/{path}"
    assert (wanted.verified, wanted.may_appear, wanted.kept_s) == (True, True, 0.0)


@pytest.mark.parametrize(
    ("livemode", "keys"), [(True, (LIVE, RESTRICTED)), (False, (TEST,)), (None, (LIVE, RESTRICTED))]
)
def test_only_keys_of_the_events_mode_are_used(livemode: bool | None, keys: tuple[str, ...]) -> None:
    assert asked(livemode=livemode)[0].bearers == keys


def test_it_is_asked_in_one_version_and_in_the_name_of_the_events_account() -> None:
    assert asked()[0].headers == (("stripe-version", API_VERSION),)
    assert asked(context="org_1/acct_1")[0].headers[1:] == (("stripe-context", "org_1/acct_1"),)


@pytest.mark.parametrize("context", ["a\r\nx: y", "é", "a" * 256, " ", 7, ["acct_1"]])
def test_a_context_that_is_no_header_is_never_sent(context: Any) -> None:
    assert asked(context=context) == []


@pytest.mark.parametrize("reference", ["..", ".", "", "a\x00", "\ud800", 7, None, "x" * 256])
def test_an_id_that_is_no_part_of_an_address_is_not_asked_for(reference: Any) -> None:
    assert asked(of=reference) == []


def test_ids_are_opaque() -> None:
    assert (
        asked("v1.payout.paid", "payout", "../é?#%1")[0].url
        == "https://api.stripe.com/v1/payouts/..%2F%C3%A9%3F%23%251"
    )


@pytest.mark.parametrize(("event_type", "kind"), [("charge.succeeded", "charge"), ("v1.topup.succeeded", "topup")])
def test_fat_events_and_those_that_book_nothing_are_not_followed(event_type: str, kind: str) -> None:
    assert asked(event_type, kind) == []


@pytest.mark.parametrize("kind", ["balance", "", None, 7, ["charge"], {}])
def test_an_object_of_another_type_is_not_asked_for(kind: Any) -> None:
    assert asked(kind=kind) == []


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff", b'{"type":7}', b'{"event":1,"fetched":2}'])
def test_a_body_that_cant_be_read_points_nowhere(body: bytes) -> None:
    assert list(ADAPTER.points_to(Request(body, []), [LIVE])) == []


@pytest.mark.parametrize("key", ["", "pk_live_" + "a" * 24, "whsec_" + "a" * 24, "sk_live_", LIVE + "\n", LIVE + "é"])
def test_what_is_no_secret_key_is_never_sent(key: str) -> None:
    with pytest.raises(SettingError, match="stripe-api"):
        ADAPTER.points_to(Request(b"{}", []), [LIVE, key])


def test_an_answer_is_the_object_that_was_asked_for() -> None:
    [wanted] = asked(of="ch_1 é")
    ADAPTER.check_answer(wanted, '{"id":"ch_1 é"}'.encode())
    for other in (b'{"id":"ch_2"}', b"{}", b"[]", b"", b'{"error":{}}'):
        with pytest.raises(Unparseable):
            ADAPTER.check_answer(wanted, other)
