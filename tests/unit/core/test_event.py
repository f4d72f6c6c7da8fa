"""An event survives its journey through Kafka's headers, whatever a provider calls it."""

from __future__ import annotations

import hashlib
import pickle
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SettingError, Unparseable
from core.event import Dedupe, Event, from_record, poison_event, to_headers
from core.keys import join_key, key_part
from tests.events import make_event

AT = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)


def event(**changed: object) -> Event:
    fact: dict[str, object] = {"occurred_at": AT, "fact_key": "stripe:ch_1:capture", "fact_sha256": "11" * 32}
    return make_event(**{"event_type": "charge.succeeded", **fact, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize("dedupe", list(Dedupe))
def test_headers_bring_back_the_same_event(dedupe: Dedupe) -> None:
    sent = event()
    received = from_record(sent.body, to_headers(sent, AT, dedupe, "00-trace-01"))
    assert received.event == sent
    assert (received.received_at, received.dedupe) == (AT, dedupe)
    assert received.headers["traceparent"] == "00-trace-01"


def test_headers_follow_the_cloudevents_kafka_binding() -> None:
    headers = dict(to_headers(event(), AT, Dedupe.CLAIMED))
    assert headers["ce_specversion"] == b"1.0"
    assert headers["ce_id"] == b"evt_1"
    assert headers["ce_source"] == b"/webhooks/stripe"
    assert headers["ce_type"] == b"charge.succeeded"
    assert headers["ce_time"] == b"2026-01-31T12:00:00.123456Z"


def test_what_is_absent_has_no_header() -> None:
    headers = dict(to_headers(event(fact_key=None, fact_sha256=None, occurred_at=None), AT, Dedupe.CLAIMED))
    assert {"fact_key", "fact_sha256", "ce_time", "poison", "traceparent"}.isdisjoint(headers)


@given(st.text(max_size=400))
def test_no_text_of_a_body_brings_a_control_character_into_a_header(text: str) -> None:
    sent = event(event_id=text, event_type=text, account=text, poison=text, event_key=join_key("stripe", text, text))
    for _, value in to_headers(sent, AT, Dedupe.CLAIMED):
        assert all(32 <= byte < 127 for byte in value)


def test_a_record_without_our_headers_is_unparseable() -> None:
    with pytest.raises(Unparseable, match="schema_version"):
        from_record(b"{}", [])
    with pytest.raises(Unparseable, match="missing"):
        from_record(b"{}", [("schema_version", b"1.1")])
    with pytest.raises(Unparseable, match="wrong"):
        from_record(b"{}", [("schema_version", b"one")])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("content_version", b"300"),
        ("content_version", b"-1"),
        ("content_version", b"99999999999"),
        ("content_sha256", b"zz" * 32),
        ("content_sha256", b"AA" * 32),
        ("content_sha256", b"aa"),
        ("fact_sha256", b"no hash"),
        ("received_at", b"0001-01-01T00:00:00+23:59"),
    ],
)
def test_what_the_journal_or_its_index_cannot_hold_is_unparseable(name: str, value: bytes) -> None:
    headers = dict(to_headers(event(), AT, Dedupe.CLAIMED)) | {name: value}
    with pytest.raises(Unparseable, match="wrong"):
        from_record(b"{}", headers.items())


def test_a_record_of_a_newer_receiver_is_unparseable_and_says_what_to_do() -> None:
    headers = [
        (name, b"2" if name == "schema_version" else value) for name, value in to_headers(event(), AT, Dedupe.CLAIMED)
    ]
    with pytest.raises(Unparseable, match="upgrade"):
        from_record(b"{}", headers)


def test_poison_is_named_by_its_bytes() -> None:
    poison = poison_event("stripe", b"\xff", "live", "not UTF-8")
    digest = hashlib.sha256(b"\xff").hexdigest()
    assert poison.event_key == f"stripe:{digest}:poison"
    assert poison.entity_key == f"stripe:poison:{digest}"
    assert poison.content_sha256 == poison.body_sha256 == digest
    assert from_record(poison.body, to_headers(poison, AT, Dedupe.CLAIMED)).event.poison == "not UTF-8"


def test_keys_of_different_parts_are_different() -> None:
    assert join_key("a:b", "c") != join_key("a", "b:c")
    assert join_key("a%3Ab", "c") != join_key("a:b", "c")
    assert join_key("a", "") != join_key("a")


@given(st.lists(st.text(max_size=20), min_size=1, max_size=4), st.lists(st.text(max_size=20), min_size=1, max_size=4))
def test_a_key_is_never_ambiguous(one: list[str], other: list[str]) -> None:
    assert (join_key(*one) == join_key(*other)) == (one == other)


def test_an_endless_part_is_kept_as_its_hash() -> None:
    assert key_part("x" * 257) == "sha256-" + hashlib.sha256(b"x" * 257).hexdigest()
    assert key_part("x" * 256) == "x" * 256


def test_errors_travel_between_processes() -> None:
    for error in (SettingError("a.b", "is missing"), Unparseable("no JSON")):
        back = pickle.loads(pickle.dumps(error))
        assert str(back) == str(error)
        assert vars(back) == vars(error)
