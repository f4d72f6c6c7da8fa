"""Anchors: where a journal's chain stood, kept outside the lake and signed, so that no edit of the lake can follow.

The chain proves only that the journal agrees with itself: with write access to the lake one can change a row and
compute everything after it again, or cut the end off. An anchor is a copy of the head outside the lake, under a key
that the lake doesn't hold (HMAC-SHA256, RFC 2104).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import KafkaException

from core.clock import Clock, from_rfc3339, to_rfc3339
from core.errors import PayhookError, SettingError
from core.files import secret_lines

SETTING = "processor.anchor_key_file"
KEY_CHARS_MIN = 32
"""128 bits where the key is hexadecimal."""

BYTES_MAX = 1_000
_FIELDS = frozenset({"stream", "epoch", "seq", "chain", "at", "mac"})
_OPTIONAL_FIELDS = frozenset({"lineage"})
"""The audit log's anchors have none of these."""

_CHAIN = re.compile(r"[0-9a-f]{64}")


class AnchorInvalid(PayhookError):
    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"not an anchor: {problem}")


@dataclass(frozen=True, slots=True)
class Anchor:
    """``chain`` is the head after the commit whose last row is ``seq``; ``at``: when the anchor was written, UTC.

    ``lineage`` is the journal's; empty in anchors of the audit log.
    """

    stream: str
    epoch: int
    seq: int
    chain: str
    at: datetime
    lineage: str = ""


class AnchorKeys:
    """Keys by age, the newest first: the first one signs, and all of them are accepted."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = [key.encode() for key in keys]

    @classmethod
    def read(cls, file: Path) -> AnchorKeys:
        """Reads a file with one key a line, the newest first.

        :raises SettingError: the file can't be read, holds none, or a short one
        """
        make = f"`openssl rand -hex 32 > {file}` makes one, readable by payhook alone"
        try:
            keys = secret_lines(file.read_text("utf-8"))
        except (OSError, ValueError) as unreadable:
            raise SettingError(SETTING, f"{file} can't be read ({unreadable}); {make}") from unreadable
        if min(map(len, keys)) < KEY_CHARS_MIN:
            raise SettingError(SETTING, f"{file} must hold keys of {KEY_CHARS_MIN} characters or more; {make}")
        return cls(keys)

    def encode(self, anchor: Anchor) -> bytes:
        fields = _make_fields(anchor)
        return _to_canonical({**fields, "mac": _compute_mac(self._keys[0], fields)})

    def decode(self, record: bytes) -> Anchor:
        """
        :raises AnchorInvalid: it isn't an anchor, or none of the keys signed it
        """
        tree = _parse_tree(record)
        mac = tree.pop("mac")
        if not isinstance(mac, str) or not any(hmac.compare_digest(_compute_mac(key, tree), mac) for key in self._keys):
            raise AnchorInvalid("no known key signed it")
        try:
            at, lineage = from_rfc3339(tree["at"]), tree.get("lineage", "")
            anchor = Anchor(tree["stream"], tree["epoch"], tree["seq"], tree["chain"], at, lineage)
        except (TypeError, ValueError) as wrong:
            raise AnchorInvalid(f"a field of another form: {wrong}") from wrong
        if type(anchor.seq) is not int or not isinstance(anchor.chain, str) or not _CHAIN.fullmatch(anchor.chain):
            raise AnchorInvalid("seq or chain of another form")
        if not isinstance(anchor.lineage, str):
            raise AnchorInvalid("lineage of another form")
        return anchor


def new_key() -> str:
    return secrets.token_hex(32)


def _make_fields(anchor: Anchor) -> dict[str, Any]:
    fields = {**asdict(anchor), "at": to_rfc3339(anchor.at)}
    if not anchor.lineage:
        del fields["lineage"]
    return fields


def _parse_tree(record: bytes) -> dict[str, Any]:
    if len(record) > BYTES_MAX:
        raise AnchorInvalid(f"{len(record)} bytes, {BYTES_MAX} are the most")
    try:
        tree = json.loads(record)
    except (ValueError, RecursionError) as wrong:
        raise AnchorInvalid(f"not JSON: {wrong}") from wrong
    if not isinstance(tree, dict) or tree.keys() - _OPTIONAL_FIELDS != _FIELDS:
        raise AnchorInvalid(f"expected the fields {', '.join(sorted(_FIELDS))}")
    return tree


def _compute_mac(key: bytes, fields: dict[str, Any]) -> str:
    return hmac.new(key, _to_canonical(fields), hashlib.sha256).hexdigest()


def _to_canonical(tree: dict[str, Any]) -> bytes:
    return json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


log = logging.getLogger(__name__)

ANCHOR_EVERY_S = 5.0
"""A head is anchored at most this often; what was decided since the last anchor could be cut off unseen."""

ANCHORED_NOTE = "anchored"
"""The journal's note of the last seq whose anchor Kafka acknowledged: anchors that vanish are missed."""


class AnchorProducer(Protocol):
    @property
    def produce(self) -> Callable[..., None]: ...
    @property
    def poll(self) -> Callable[[float], int]: ...
    @property
    def flush(self) -> Callable[[float], int]: ...


@dataclass(frozen=True, slots=True)
class Head:
    epoch: int
    seq: int
    chain: str
    lineage: str = ""


class Anchoring:
    """Writes the anchors of one writer: its first head at once, later ones at most every `ANCHOR_EVERY_S`, and the
    last.

    Belongs to one thread.
    """

    def __init__(
        self,
        stream: str,
        topic: str,
        keys: AnchorKeys,
        producer: AnchorProducer,
        clock: Clock,
        anchored_seq: int = 0,
    ) -> None:
        self._stream = stream
        self._topic = topic
        self._keys = keys
        self._producer: AnchorProducer | None = producer
        self._clock = clock
        self._next_at = clock.monotonic_s()
        self._head: Head | None = None
        self.anchored_seq = anchored_seq
        self.failed = 0

    def on_commit(self, head: Head) -> None:
        if head.seq > self.anchored_seq:
            self._head = head
            self.poll()

    def poll(self) -> None:
        if self._producer is None:
            return
        self._producer.poll(0)
        if self._head is not None and self._clock.monotonic_s() >= self._next_at:
            self._write(self._head)

    def make_notes(self) -> dict[str, str]:
        return {ANCHORED_NOTE: str(self.anchored_seq)} if self.anchored_seq else {}

    def close(self, timeout_s: float) -> None:
        if self._head is not None and timeout_s > 0:
            self._write(self._head)
        if self._producer is not None:
            self._producer.flush(timeout_s)
            # Anchors on their way hold this one, which holds the producer: its threads would live on.
            self._producer = None

    def _write(self, head: Head) -> None:
        if self._producer is None:
            return
        self._next_at = self._clock.monotonic_s() + ANCHOR_EVERY_S
        anchor = Anchor(self._stream, head.epoch, head.seq, head.chain, self._clock.now(), head.lineage)

        def on_delivery(error: object, _message: Any) -> None:
            if error is None:
                self._on_anchored(head)
            else:
                self._on_refused(head, error)

        try:
            value = self._keys.encode(anchor)
            self._producer.produce(self._topic, key=self._stream.encode(), value=value, on_delivery=on_delivery)
        except (BufferError, KafkaException) as refused:
            self._on_refused(head, refused)

    def _on_anchored(self, head: Head) -> None:
        self.anchored_seq = max(self.anchored_seq, head.seq)
        if self._head is not None and self._head.seq <= self.anchored_seq:
            self._head = None

    def _on_refused(self, head: Head, error: object) -> None:
        self.failed += 1
        log.error("%s: row %d isn't anchored yet (%s); the next anchor covers it", self._stream, head.seq, error)


class Unanchored:
    anchored_seq = 0

    def on_commit(self, head: Head) -> None: ...
    def poll(self) -> None: ...
    def close(self, timeout_s: float) -> None: ...


def anchored_before(notes: Mapping[str, str]) -> int:
    """Reads the last seq that the journal knows to be anchored; 0 if it knows none."""
    return int(notes.get(ANCHORED_NOTE, 0))
