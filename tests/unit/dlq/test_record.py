"""A dead letter's record: the event's own bytes, with where it came from and why it died."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from core.decision import Decision, ErrorKind
from dlq.record import HEADER_BYTES_MAX, build_record
from journal.schema import JournalRow

BODY = b'{"id": "evt_1"}'
AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize("shift", range(4))
def test_a_long_text_is_cut_between_two_characters_and_a_stack_keeps_its_end(shift: int) -> None:
    """The end of a stack names the error, the beginning of a message says the most."""
    text = f"BEGIN{'x' * shift}{'日' * 3_000}END"
    record = build_record(dead_row(error_stack=text, error_message=text), BODY, "ledger")
    headers = {name: value.decode("utf-8") for name, value in record.headers}
    stack, message = headers["payhook.error.stack"], headers["payhook.error.message"]
    assert text.endswith(stack) and text.startswith(message)
    for kept in (stack, message):
        assert HEADER_BYTES_MAX - 3 < len(kept.encode()) <= HEADER_BYTES_MAX


def dead_row(seq: int = 7, **changes: Any) -> JournalRow:
    fields: dict[str, Any] = {
        "seq": seq,
        "item_seq": 3,
        "first": False,
        "topic": "payments.events",
        "partition": 2,
        "offset": 41,
        "decision": Decision.DEAD,
        "decided_at": AT,
        "received_at": datetime(2026, 1, 31, 11, tzinfo=UTC),
        "attempt": 5,
        "event_key": "stripe:evt_1:charge.captured",
        "entity_key": "stripe:acct_1:pi_1",
        "provider": "stripe",
        "event_type": "charge.captured",
        "body_sha256": hashlib.sha256(BODY).hexdigest(),
        "error_class": "MerchantUnknown",
        "error_message": "no merchant for 'ä'",
        "error_stack": "Traceback",
        "error_kind": ErrorKind.SNBE,
    }
    return JournalRow(**(fields | changes))


def test_a_record_holds_the_events_bytes_key_and_partition() -> None:
    record = build_record(dead_row(), BODY, "payhook-ledger")
    assert (record.value, record.key, record.partition) == (BODY, b"stripe:acct_1:pi_1", 2)


@pytest.mark.row("C1")
def test_the_headers_say_where_it_came_from_and_why_it_died() -> None:
    headers = dict(build_record(dead_row(), BODY, "payhook-ledger").headers)
    assert headers["__dlq.errors.topic"] == b"payments.events"
    assert headers["__dlq.errors.partition"] == b"2"
    assert headers["__dlq.errors.offset"] == b"41"
    assert headers["__dlq.errors.group"] == b"payhook-ledger"
    assert headers["__dlq.errors.delivery.count"] == b"6"
    assert headers["payhook.error.class"] == b"MerchantUnknown"
    assert headers["payhook.error.message"] == "no merchant for 'ä'".encode()
    assert headers["payhook.error.stack"] == b"Traceback"
    assert headers["payhook.error.kind"] == b"SNBE"
    assert headers["payhook.attempts"] == b"6"
    assert headers["payhook.first_at"] == b"2026-01-31T11:00:00.000000Z"
    assert headers["payhook.last_at"] == b"2026-01-31T12:00:00.000000Z"
    assert headers["payhook.event_key"] == b"stripe:evt_1:charge.captured"
    assert headers["payhook.seq"] == b"7"
    assert headers["payhook.item_seq"] == b"3"
    assert headers["payhook.history"] == b"1"
    assert headers["payhook.body"] == b"full"


def test_a_letter_by_reference_says_which_record_it_means() -> None:
    """An older copy of Kafka holds another record at the same offset."""
    record = build_record(dead_row(history=3), BODY, "payhook-ledger", by_reference=True)
    headers = dict(record.headers)
    assert (record.value, headers["payhook.history"], headers["__dlq.errors.offset"]) == (None, b"3", b"41")
    assert headers["body_sha256"].decode() == hashlib.sha256(BODY).hexdigest()


def test_the_events_own_headers_are_kept_but_never_shadow_where_it_came_from() -> None:
    """KIP-1191: headers of the same name are overwritten."""
    row = dead_row(headers='{"traceparent":"00-a-b-01","__dlq.errors.offset":"999","event_key":"stripe:evt_1:x"}')
    names = [name for name, _ in build_record(row, BODY, "g").headers]
    headers = dict(build_record(row, BODY, "g").headers)
    assert headers["traceparent"] == b"00-a-b-01"
    assert headers["__dlq.errors.offset"] == b"41"
    assert len(names) == len(set(names))


@pytest.mark.row("C1")
def test_an_event_cannot_bring_a_dead_letters_header_in_any_case_or_in_the_place_of_one_that_is_not_needed() -> None:
    """A reader that folds names, or asks for a code that this death doesn't have, must not find the sender's word."""
    brought = {"__DLQ.errors.topic": "other", "Payhook.Seq": "1", "payhook.error.code": "insufficient_funds"}
    headers = dict(
        build_record(dead_row(headers=json.dumps(brought | {"traceparent": "00-a-b-01"})), BODY, "g").headers
    )
    assert headers["traceparent"] == b"00-a-b-01"
    assert not headers.keys() & brought.keys()
    assert len({name.casefold() for name in headers}) == len(headers)
    assert headers["__dlq.errors.topic"] == b"payments.events" and headers["payhook.seq"] == b"7"


def test_a_record_by_reference_has_no_value_and_says_so() -> None:
    record = build_record(dead_row(), BODY, "g", by_reference=True)
    assert record.value is None
    assert dict(record.headers)["payhook.body"] == b"reference"


def test_bytes_that_are_not_the_rows_body_are_never_passed_off_as_it() -> None:
    for row, body in [(dead_row(), b""), (dead_row(), b"other"), (dead_row(body_sha256=None), BODY)]:
        record = build_record(row, body, "g")
        assert record.value is None
        assert dict(record.headers)["payhook.body"] == b"reference"


def test_a_row_that_no_receiver_named_still_has_a_record() -> None:
    row = dead_row(event_key=None, entity_key=None, provider=None, received_at=None, body_sha256=None, event_type=None)
    record = build_record(row, b"", "g")
    assert record.key is None
    assert dict(record.headers)["payhook.seq"] == b"7"


@pytest.mark.row("C2")
def test_a_stream_that_copies_nothing_leaves_key_and_value_out_and_says_where_they_are() -> None:
    record = build_record(
        dead_row(headers='{"traceparent":"00-a-b-01","secret":"of the original"}'),
        BODY,
        "payhook-ledger",
        copy_record=False,
    )
    assert (record.key, record.value) == (None, None)
    assert dict(record.headers) == {
        "__dlq.errors.topic": b"payments.events",
        "__dlq.errors.partition": b"2",
        "__dlq.errors.offset": b"41",
        "__dlq.errors.group": b"payhook-ledger",
        "__dlq.errors.delivery.count": b"6",
        "__dlq.errors.payhook.seq": b"7",
        "__dlq.errors.payhook.item_seq": b"3",
        "__dlq.errors.payhook.history": b"1",
        "__dlq.errors.payhook.last_at": b"2026-01-31T12:00:00.000000Z",
    }
