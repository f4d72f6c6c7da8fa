"""A dead letter as the DLQ topic holds it: the event's own bytes and key, with KIP-1191's headers and ours."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from core.clock import to_rfc3339
from core.keys import encode_name
from journal.histories import FIRST
from journal.schema import JournalRow

SEQ_HEADER = "payhook.seq"
HISTORY_HEADER = "payhook.history"
"""The history of its topic that the offset belongs to (`journal.histories`)."""

DECIDED_HEADER = "payhook.last_at"
"""When the dead row was decided."""

BODY_HEADER = "payhook.body"
BY_REFERENCE = "reference"
IN_FULL = "full"

STACK_HEADER = "payhook.error.stack"
"""The end of a long stack is kept: it names the error."""

HEADER_BYTES_MAX = 8_192
"""One header's value at most. A stack has up to 4,096 characters, so this cuts none of plain letters."""

KIP_1191 = "__dlq.errors."
TOPIC_HEADER, PARTITION_HEADER, OFFSET_HEADER = f"{KIP_1191}topic", f"{KIP_1191}partition", f"{KIP_1191}offset"
GROUP_HEADER, DELIVERIES_HEADER = f"{KIP_1191}group", f"{KIP_1191}delivery.count"
OF_A_REFERENCE = (SEQ_HEADER, "payhook.item_seq", HISTORY_HEADER, DECIDED_HEADER)
"""Headers of a letter without a copy, each behind `KIP_1191`: nothing of the original is in them."""

_RESERVED = (KIP_1191, "payhook.")
"""Beginnings of header names that only a dead letter has: what an event brings under them, in whatever case, is left
out, so that it can neither stand beside ours nor in the place of one that this letter doesn't need."""

_COLUMNS_AS_HEADERS = (
    *("event_key", "fact_key", "fact_sha256", "entity_key", "provider", "account", "mode", "tenant", "zone"),
    *("body_sha256", "original_sha256", "original_content_sha256", "content_sha256", "content_version", "dedupe"),
)


@dataclass(frozen=True, slots=True)
class DlqRecord:
    """The record of the dead row ``seq``. ``partition`` is that of the origin."""

    seq: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    partition: int


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    name: str
    group: str
    copy_record: bool = True

    def make_record(self, row: JournalRow, body: bytes, *, by_reference: bool) -> DlqRecord:
        return build_record(row, body, self.group, by_reference=by_reference, copy_record=self.copy_record)


def build_record(
    row: JournalRow, body: bytes, group: str, *, by_reference: bool = False, copy_record: bool = True
) -> DlqRecord:
    """Makes the record of a dead row.

    By reference (asked for, or because ``body`` isn't the row's body) it has no value: its headers name the topic,
    partition and offset it came from, the topic's history, and the hash that the record there must have.

    :param group: the consumer's name in KIP-1191's headers: the work stream's
    :param copy_record: False leaves out all that is of the original: headers that begin with `KIP_1191` say where it
        is, and which row says why it died
    """
    if not copy_record:
        own_texts = _payhook_headers(row)
        texts = _kip_1191_headers(row, group) | {KIP_1191 + name: own_texts[name] for name in OF_A_REFERENCE}
        return DlqRecord(row.seq, None, None, [(name, text.encode()) for name, text in texts.items()], row.partition)
    in_full = not by_reference and row.body_sha256 == hashlib.sha256(body).hexdigest()
    headers = _origin_headers(row) | _payhook_headers(row) | _kip_1191_headers(row, group)
    headers[BODY_HEADER] = IN_FULL if in_full else BY_REFERENCE
    return DlqRecord(
        seq=row.seq,
        key=row.entity_key.encode() if row.entity_key is not None else None,
        value=body if in_full else None,
        headers=[(name, _encode_bounded(text, keep_end=name == STACK_HEADER)) for name, text in headers.items()],
        partition=row.partition,
    )


def _encode_bounded(text: str, *, keep_end: bool) -> bytes:
    value = text.encode("utf-8", "replace")
    if len(value) <= HEADER_BYTES_MAX:
        return value
    kept = value[-HEADER_BYTES_MAX:] if keep_end else value[:HEADER_BYTES_MAX]
    return kept.decode("utf-8", "ignore").encode("utf-8")


def _origin_headers(row: JournalRow) -> dict[str, str]:
    received: dict[str, str] = json.loads(row.headers) if row.headers is not None else {}
    headers = {name: text for name, text in received.items() if not name.casefold().startswith(_RESERVED)}
    for name in _COLUMNS_AS_HEADERS:
        value = getattr(row, name)
        if value is not None:
            headers.setdefault(name, encode_name(value) if name == "account" else str(value))
    if row.event_type is not None:
        headers.setdefault("ce_type", encode_name(row.event_type))
    if row.received_at is not None:
        headers.setdefault("received_at", to_rfc3339(row.received_at))
    return headers


def _kip_1191_headers(row: JournalRow, group: str) -> dict[str, str]:
    return {
        TOPIC_HEADER: row.topic,
        PARTITION_HEADER: str(row.partition),
        OFFSET_HEADER: str(row.offset),
        GROUP_HEADER: group,
        DELIVERIES_HEADER: str(row.attempt + 1),
    }


def _payhook_headers(row: JournalRow) -> dict[str, str]:
    texts = {
        SEQ_HEADER: str(row.seq),
        "payhook.item_seq": str(row.item_seq),
        HISTORY_HEADER: str(row.history or FIRST),
        "payhook.event_key": row.event_key,
        "payhook.attempts": str(row.attempt + 1),
        "payhook.first_at": to_rfc3339(row.received_at) if row.received_at is not None else None,
        DECIDED_HEADER: to_rfc3339(row.decided_at),
        "payhook.error.class": row.error_class,
        "payhook.error.code": row.error_code,
        "payhook.error.message": row.error_message,
        STACK_HEADER: row.error_stack,
        "payhook.error.kind": row.error_kind.value if row.error_kind is not None else None,
    }
    return {name: text for name, text in texts.items() if text is not None}
