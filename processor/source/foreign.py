"""Reads a topic that another program writes: a function says, where its records are read, which event each of them
is.

What it answers becomes the columns of the event's first row, as a receiver's headers do of a webhook. A record that it
can't name dies by reference, and the stream continues. See docs/decisions/0100-what-a-foreign-records-identity-is.md.
"""

from __future__ import annotations

import base64
import faulthandler
import hashlib
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from types import FrameType
from typing import Any, NoReturn

from core.clock import from_micros, from_rfc3339
from core.decision import ErrorKind
from core.errors import PayhookError, Unparseable
from core.event import OWN_TYPES, POISON_TYPE, Mode
from core.keys import join_key, name_of
from core.routing import foreign_provider
from core.source_record import Identified, IdentityFunction, NotAnEvent, RecordIdentity, SourceRecord
from core.strict_json import load_json
from processor.errors.classify import clean_text, make_event_failure
from processor.source.records import KafkaRecord, ParsedRecord, format_headers
from processor.workers.framing import drop_head
from processor.workers.payload import Decoder

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


IDENTITY_S_MAX = 1.0
"""An identity is a matter of microseconds. One that isn't back by then is given up, and its record is dead."""

HASTY_S_MAX, PATIENT_FOR = 0.05, 5
"""After so many that weren't back in one chunk each further one has only so long: a batch's time has a bound."""

TICK_S = 0.02
REASON_CHARS_MAX = 200


class IdentityFailed(PayhookError):
    kind = ErrorKind.NRE

    def __init__(self, identity: str, problem: str) -> None:
        self.identity = identity
        self.problem = problem
        super().__init__(
            f"{identity} doesn't say which event this record is: {problem}. Correct it or the schemas, restart the "
            "processor, then replay the record: it is published again at the end of its topic"
        )


class _IdentityTimeOver(BaseException):
    pass


class IdentityWatch:
    """Ends calls that take too long. They run one after another, on the main thread.

    Native code hears no signal: then the Python worker ends after ``frozen_s``. On another thread (in tests) nothing is
    ended.
    """

    def __init__(self, frozen_s: float) -> None:
        self._frozen_s = frozen_s
        self._since: float | None = None
        self._armed_at = 0.0
        self._late = 0

    @contextmanager
    def watch_calls(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGALRM, self._check_time)
        signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            faulthandler.cancel_dump_traceback_later()
            signal.signal(signal.SIGALRM, before)

    def call_in_time(self, function: Callable[[SourceRecord], object], record: SourceRecord) -> object:
        """
        :raises TimeoutError: it wasn't back in time
        """
        try:
            now = self._since = time.monotonic()
            self._arm_watchdog(now)
            try:
                return function(record)
            finally:
                self._since = None
        except _IdentityTimeOver:
            limit_s, self._late = self._limit_s, self._late + 1
            raise TimeoutError(f"it wasn't back after {limit_s:g} s") from None

    @property
    def _limit_s(self) -> float:
        return IDENTITY_S_MAX if self._late < PATIENT_FOR else HASTY_S_MAX

    def _arm_watchdog(self, now: float) -> None:
        if now - self._armed_at >= IDENTITY_S_MAX and threading.current_thread() is threading.main_thread():
            faulthandler.dump_traceback_later(2 * IDENTITY_S_MAX + self._frozen_s, exit=True)
            self._armed_at = now

    def _check_time(self, _number: int, _frame: FrameType | None) -> None:
        if self._since is not None and time.monotonic() - self._since > self._limit_s:
            raise _IdentityTimeOver


@dataclass(frozen=True, slots=True)
class ForeignTopic:
    """A topic of another program, and how its records are named. Picklable: it travels to the executors.

    ``name``: of the function, as it is configured.
    """

    topic: str
    name: str
    identity: IdentityFunction
    decoder: Decoder
    mode: Mode

    def identify_records(self, records: Sequence[KafkaRecord], frozen_s: float) -> list[KafkaRecord]:
        watch = IdentityWatch(frozen_s)
        with watch.watch_calls():
            return [
                self._identify_record(record, watch) if record.topic == self.topic else record for record in records
            ]

    def refuse_record(self, record: KafkaRecord, problem: str) -> KafkaRecord:
        return record._replace(refused=make_event_failure(IdentityFailed(self.name, problem)))

    def _identify_record(self, record: KafkaRecord, watch: IdentityWatch) -> KafkaRecord:
        at = None if record.at_ms is None else from_micros(record.at_ms * 1_000)
        given = SourceRecord(*record[:3], record.key, record.value, tuple(record.headers), at, self._decode_document)
        try:
            answer = watch.call_in_time(self.identity, given)
            if isinstance(answer, NotAnEvent):
                reason = clean_text(f"not an event: {answer.reason}", REASON_CHARS_MAX)
                return record._replace(until=record.offset + 1, why=reason, value=None, headers=[])
            return record._replace(named=self._parse_identity(record, answer, at))
        except BaseException as failed:  # somebody's code, which may call sys.exit()
            problem = str(failed) if isinstance(failed, _Unusable | TimeoutError) else _describe_failure(failed)
            try:
                raise IdentityFailed(self.name, problem) from failed
            except IdentityFailed as unnamed:
                return record._replace(refused=make_event_failure(unnamed))

    def _decode_document(self, value: bytes) -> Any:
        return load_json(self.decoder(value))

    def _parse_identity(self, record: KafkaRecord, answer: object, at: datetime | None) -> ParsedRecord:
        identity = _check_identity(answer)
        provider, body = foreign_provider(self.topic), record.value or b""
        sha256 = hashlib.sha256(body).hexdigest()
        texts = {name: raw.decode("utf-8", "replace") for name, raw in record.headers if raw is not None}
        return ParsedRecord(
            body=body,
            poison=None,
            event_key=join_key(provider, identity.event_key),
            entity_key=join_key(provider, identity.entity),
            fact_key=None,
            fact_sha256=None,
            provider=provider,
            account="",
            event_type=name_of(identity.event_type),
            mode=self.mode,
            tenant=None if identity.tenant is None else name_of(identity.tenant),
            zone=None if identity.zone is None else name_of(identity.zone),
            occurred_at=identity.occurred_at,
            received_at=at,
            content_sha256=sha256,
            content_version=0,
            body_sha256=sha256,
            original_sha256=None,
            original_content_sha256=None,
            dedupe=None,
            actor=None,
            headers=format_headers(texts),
        )


def unwrap_value(body: bytes, *, is_event: bool, is_json: bool) -> bytes:
    """Returns the data of a CloudEvent in structured mode, or JSON without its framing.

    :raises ValueError: the event's data isn't what it says
    """
    data = extract_data(body) if is_event else body
    return drop_head(data) if is_json else data


class _Unusable(ValueError):
    pass


def _describe_failure(failed: BaseException) -> str:
    return f"it raised {type(failed).__name__}: {str(failed)[:500]}"


def _check_identity(answer: object) -> RecordIdentity:
    if not isinstance(answer, RecordIdentity):
        _refuse(f"it answered {type(answer).__name__}, expected RecordIdentity or NotAnEvent")
    for name in ("event_key", "entity", "event_type"):
        text = getattr(answer, name)
        if not isinstance(text, str) or not text:
            _refuse(f"its {name} is {text!r:.80}, expected a string")
    for name in ("tenant", "zone"):
        text = getattr(answer, name)
        if text is not None and (not isinstance(text, str) or not text):
            _refuse(f"its {name} is {text!r:.80}, expected a string or None")
    if answer.event_type == POISON_TYPE or answer.event_type.startswith(OWN_TYPES):
        _refuse(f"its event_type is {answer.event_type!r:.80}: payhook's own types begin so")
    at: object = answer.occurred_at
    if at is not None and (not isinstance(at, datetime) or at.tzinfo is None):
        _refuse(f"its occurred_at is {at!r:.80}, expected a datetime with its zone")
    return answer


def _refuse(problem: str) -> NoReturn:
    raise _Unusable(problem)
