"""CloudEvents 1.0 over Kafka, in binary mode (headers ``ce_…``) and in structured mode as JSON.

Source: cloudevents/spec, bindings/kafka-protocol-binding.md and formats/json-format.md. An event is its ``source`` and
``id`` ("Producers MUST ensure that source + id is unique for each distinct event").
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping

from core.clock import from_rfc3339
from core.errors import Unparseable
from core.source_record import Identified, NotAnEvent, RecordIdentity, SourceRecord
from core.strict_json import load_json

CONTENT_TYPE = "content-type"
STRUCTURED = "application/cloudevents"
STRUCTURED_JSON = "application/cloudevents+json"
WANTED = ("specversion", "id", "source", "type")
PREFIX = "ce_"
_BLANK = " \t\n\r"


def identify_cloudevent(record: SourceRecord) -> Identified:
    """Makes events of one Kafka key one entity; without a key those of one ``partitionkey``, else of one ``subject``.

    :raises ValueError, Unparseable: the record is no CloudEvent
    """
    attributes = _read_attributes(record)
    if not attributes and record.value is None:
        return NotAnEvent("a tombstone")
    missing = [name for name in WANTED if not attributes.get(name)]
    if missing:
        raise ValueError(f"it is no CloudEvent: {' and '.join(missing)} missing; name an identity function")
    if not attributes["specversion"].startswith("1."):
        raise ValueError(f"it is a CloudEvent of version {attributes['specversion'][:20]}, expected 1.0")
    source, time = attributes["source"], attributes.get("time")
    return RecordIdentity(
        event_key=f"{source} {attributes['id']}",
        entity=_choose_entity(record, source, attributes),
        event_type=attributes["type"],
        occurred_at=None if time is None else from_rfc3339(time),
    )


def extract_data(body: bytes) -> bytes:
    """Returns the data of an event in structured mode, byte for byte; any other body unchanged.

    :raises ValueError: ``data_base64`` isn't Base64
    """
    try:
        document = load_json(body)
    except Unparseable:
        return body
    if not isinstance(document, dict) or not all(isinstance(document.get(name), str) for name in WANTED):
        return body
    if "data_base64" in document:
        return base64.b64decode(document["data_base64"], validate=True)
    return dict(_split_members(body.decode("utf-8"))).get("data", "").encode()


def _read_attributes(record: SourceRecord) -> Mapping[str, str]:
    headers = {name.casefold(): raw.decode() for name, raw in record.headers if raw is not None and _is_ours(name)}
    media_type = headers.get(CONTENT_TYPE, "").partition(";")[0].strip().casefold()
    if not media_type.startswith(STRUCTURED):
        return {name.removeprefix(PREFIX): text for name, text in headers.items() if name.startswith(PREFIX)}
    if media_type != STRUCTURED_JSON:
        raise ValueError(f"it is in structured mode as {media_type[:80]}, expected {STRUCTURED_JSON}")
    document = load_json(record.value or b"")
    return (
        {name: value for name, value in document.items() if isinstance(value, str)}
        if isinstance(document, dict)
        else {}
    )


def _is_ours(name: str) -> bool:
    """Ignores case: Kafka tells header names apart by it, but gateways from HTTP write them in any."""
    return name.casefold() == CONTENT_TYPE or name.casefold().startswith(PREFIX)


def _choose_entity(record: SourceRecord, source: str, attributes: Mapping[str, str]) -> str:
    if record.key:
        return decode_key(record.key)
    if partition_key := attributes.get("partitionkey"):
        return partition_key
    return f"{source} {attributes.get('subject') or attributes['id']}"


def decode_key(key: bytes) -> str:
    try:
        text = key.decode("utf-8")
    except UnicodeDecodeError:
        return f"hex-{key.hex()}"
    return text if text.isprintable() else f"hex-{key.hex()}"


def _split_members(text: str) -> Iterator[tuple[str, str]]:
    """Yields name and raw text of each member of a JSON object, so that no number is parsed and written again."""
    decoder, at = json.JSONDecoder(), text.index("{") + 1
    while text[(at := _skip_blanks(text, at))] != "}":
        name, at = decoder.raw_decode(text, at)
        begin = _skip_blanks(text, _skip_blanks(text, at) + 1)
        _, at = decoder.raw_decode(text, begin)
        yield name, text[begin:at]
        at = _skip_blanks(text, at)
        at += text[at] == ","


def _skip_blanks(text: str, at: int) -> int:
    while text[at : at + 1] in _BLANK and at < len(text):
        at += 1
    return at
