"""What goes out of a row, and under which id."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from core.decision import Decision
from core.money import Money
from core.work import Posting, postings_to_json
from notify.errors import NoticeUnreadable
from notify.facts import (
    EnvelopeHead,
    message_id,
    notice_json,
    read_notice,
    reversal_id,
    subscriber_of,
    trial_json,
)
from tests.unit.notify.place import reversal, row


def test_the_envelope_is_this_text() -> None:
    """A receiver's parser was written against it: a change of what is there needs a new version."""
    assert notice_json(row(tenant="shop-a")).decode() == (
        '{"version":1,"id":"msg_ee681dbf894895333b12a6602c848d32","type":"charge.captured",'
        '"time":"2026-01-31T12:00:00.000000Z","fact":{"seq":7,"provider":"stripe","account":"acct_1",'
        '"entity":"stripe:acct_1:pi_1","event_key":"stripe:evt_1:charge.captured",'
        '"fact_key":"stripe:ch_evt_1:capture","amount_minor":1250,"currency":"EUR","postings":['
        '{"account":"provider:stripe:clearing","side":"debit","amount_minor":1250,"currency":"EUR"},'
        '{"account":"merchant:main:payable","side":"credit","amount_minor":1250,"currency":"EUR"}],'
        '"mode":"live","tenant":"shop-a","occurred_at":"2026-01-31T12:00:00.000000Z"}}'
    )


def test_neither_headers_nor_log_lines_nor_errors_go_out() -> None:
    said = notice_json(row(error_message="4111 1111 1111 1111", error_stack="Traceback"))
    for secret in (b"authorization", b"4111", b"Traceback", b"headers"):
        assert secret not in said


def test_what_has_no_value_is_left_out() -> None:
    fact = json.loads(notice_json(row(postings=None, tenant=None, occurred_at=None, fact_key=None)))["fact"]
    assert fact.keys() == {"seq", "provider", "account", "entity", "event_key", "mode"}


def test_the_amount_is_the_debits_sum_and_left_out_where_currencies_differ() -> None:
    def lines(*amounts: tuple[int, str]) -> str | None:
        both = [(side, amount, currency) for amount, currency in amounts for side in ("debit", "credit")]
        return postings_to_json([Posting("a:b:c", side, Money(amount, code)) for side, amount, code in both])  # type: ignore[arg-type]

    one = json.loads(notice_json(row(postings=lines((5, "EUR"), (7, "EUR")))))["fact"]
    assert (one["amount_minor"], one["currency"]) == (12, "EUR")
    two = json.loads(notice_json(row(postings=lines((5, "EUR"), (7, "USD")))))["fact"]
    assert "amount_minor" not in two
    assert len(two["postings"]) == 4


def test_the_envelope_of_a_reversal_is_this_text() -> None:
    """It has no fact: a receiver that knows no reversals must not book it as another payment."""
    assert notice_json(reversal(row())).decode() == (
        '{"version":1,"id":"msg_beaf35881c7890472e2f60b8618724fe","type":"payhook.reversed",'
        '"time":"2026-01-31T12:00:00.000000Z","reversal":{"of":"msg_ee681dbf894895333b12a6602c848d32",'
        '"event_type":"charge.captured","seq":9,"provider":"stripe","account":"acct_1",'
        '"entity":"stripe:acct_1:pi_1","event_key":"stripe:evt_1:charge.captured",'
        '"fact_key":"stripe:ch_evt_1:capture","amount_minor":1250,"currency":"EUR","postings":['
        '{"account":"provider:stripe:clearing","side":"credit","amount_minor":1250,"currency":"EUR"},'
        '{"account":"merchant:main:payable","side":"debit","amount_minor":1250,"currency":"EUR"}],'
        '"mode":"live","occurred_at":"2026-01-31T12:00:00.000000Z"}}'
    )


def test_a_reversals_id_is_of_mode_and_event_alone_and_no_events_id() -> None:
    again = reversal(row(), seq=99, decided_at=datetime(2027, 1, 1, tzinfo=UTC), actor="bob")
    assert json.loads(notice_json(again))["id"] == reversal_id("live", "stripe:evt_1:charge.captured")
    keys = ("stripe:evt_1:a", "stripe:evt_2:a")
    ids = {of(mode, key) for of in (message_id, reversal_id) for mode in ("live", "test") for key in keys}
    assert len(ids) == 8


def test_only_what_changed_the_books_goes_out() -> None:
    for decision in set(Decision) - {Decision.APPLIED, Decision.REVERSED}:
        with pytest.raises(AssertionError):
            notice_json(row(decision=decision))


def test_the_id_is_of_mode_and_event_alone() -> None:
    again = row(seq=99, decided_at=datetime(2027, 1, 1, tzinfo=UTC), postings=None)
    assert json.loads(notice_json(again))["id"] == json.loads(notice_json(row()))["id"]
    ids = {message_id(mode, key) for mode in ("live", "test") for key in ("stripe:evt_1:a", "stripe:evt_2:a")}
    assert len(ids) == 4


@pytest.mark.parametrize("stream", ["notify", "shop-a~notify", "other"])
def test_a_key_names_its_subscriber(stream: str) -> None:
    assert subscriber_of(f"{stream}:shop:shop-b~stripe%3Aevt_1%3Acharge.captured") == "shop"


@pytest.mark.parametrize("key", ["notify:shop", "notify:shop:", "notify::x", ""])
def test_a_key_without_a_subscriber_is_said(key: str) -> None:
    with pytest.raises(NoticeUnreadable, match="doesn't name a subscriber"):
        subscriber_of(key)


def test_the_handler_reads_id_mode_and_tenant() -> None:
    body = notice_json(row(tenant="shop-a", mode="test"))
    assert read_notice("k", body) == EnvelopeHead(message_id("test", "stripe:evt_1:charge.captured"), "test", "shop-a")
    taken_back = notice_json(reversal(row(mode="test")))
    key = "stripe:evt_1:charge.captured"
    assert read_notice("k", taken_back) == EnvelopeHead(reversal_id("test", key), "test", None, "charge.captured")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"version": 2}, "version 2"),
        ({"id": "msg_1"}, "isn't an envelope"),
        ({"id": "msg_" + "0" * 31 + "."}, "isn't an envelope"),
        ({"fact": None}, "isn't an envelope"),
        ({"fact": {"mode": "both"}}, "isn't an envelope"),
        ({"fact": {"mode": "live", "tenant": 5}}, "isn't an envelope"),
        ({"fact": None, "reversal": {"mode": "live", "event_type": 5}}, "isn't an envelope"),
    ],
)
def test_a_body_that_is_no_envelope_is_never_sent(change: dict[str, object], problem: str) -> None:
    body = json.dumps({**json.loads(notice_json(row())), **change}).encode()
    with pytest.raises(NoticeUnreadable, match=problem):
        read_notice("k", body)


def test_bytes_that_are_no_json_are_never_sent() -> None:
    for body in (b"", b"[]", b"{", b"\xff"):
        with pytest.raises(NoticeUnreadable):
            read_notice("k", body)


def test_a_test_event_has_no_fact_to_book() -> None:
    assert trial_json("msg_1", "2026-01-31T12:00:00.000000Z") == (
        b'{"version":1,"id":"msg_1","type":"payhook.test","time":"2026-01-31T12:00:00.000000Z"}'
    )
