"""Proves who made a record: payhook's producers sign what they publish, and nothing else is believed.

Kafka's access control says who may write to a topic. A right too many, or a broker's administrator, could still put an
event or a command there. So each record has a header with a keyed hash (HMAC-SHA256) over its topic, partition, key,
value and other headers. The keys are in a file, one a line: the first signs, each is accepted. The file is looked at
again every `LOOK_S`, so keys are rolled without a restart: add the new one as second line everywhere, then make it the
first, and remove the old one when Kafka holds nothing any more that it signed.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import struct
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from core.errors import PayhookError, SettingError
from core.files import secret_lines

log = logging.getLogger(__name__)

MAC_HEADER = "mac"
"""The last header. Its value, in hexadecimal: four bytes that name the key, then the hash."""

SETTING = "kafka.record_keys_file"
LOOK_S = 5.0
KEY_CHARS_MIN = 32
_ID_CHARS = 8

Header: TypeAlias = tuple[str, bytes | None]
Keys: TypeAlias = Sequence[bytes]


class Forged(PayhookError):
    """Raised when payhook didn't make the record, or it was changed: it is dead-lettered, and nothing in it is
    believed.
    """

    def __init__(self, topic: str, problem: str) -> None:
        self.topic = topic
        self.problem = problem
        super().__init__(
            f"the record on {topic} {problem}. Find out who else may write to the topic; where a receiver or operator "
            "has other keys, give all of them the same file (kafka.record_keys_file)"
        )


class RecordKeys:
    def __init__(self, file: Path) -> None:
        """
        :raises SettingError: the file can't be read, or holds a key that is too short
        """
        self._file = file
        self._keys = self._read()
        self._looked_at = time.monotonic()

    @property
    def now(self) -> Keys:
        """Reads the keys; the first one signs. While the file can't be read, the last ones stay."""
        at = time.monotonic()
        if at - self._looked_at >= LOOK_S:
            self._looked_at = at
            self._reload_keys()
        return self._keys

    @property
    def ids(self) -> tuple[str, ...]:
        """Returns names that reveal nothing of the keys; the first one is the signing key's."""
        return tuple(_derive_id(key).decode() for key in self.now)

    def add_signature(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Iterable[Header]
    ) -> list[Header]:
        return sign_record(self.now, topic, partition, key, value, headers)

    def _reload_keys(self) -> None:
        try:
            keys = self._read()
        except SettingError as wrong:
            log.warning("the keys of records stay as they are: %s", wrong)
            return
        if keys != self._keys:
            self._keys = keys
            log.info("the keys of records were read again: %d", len(keys))

    def _read(self) -> Keys:
        make = f"`openssl rand -hex 32 > {self._file}` makes one, the same for receivers, processors and operators"
        try:
            keys = secret_lines(self._file.read_text("utf-8"))
        except (OSError, ValueError) as unreadable:
            raise SettingError(SETTING, f"{self._file} can't be read ({unreadable}); {make}") from unreadable
        if not keys or min(map(len, keys)) < KEY_CHARS_MIN:
            raise SettingError(SETTING, f"{self._file} must hold keys of {KEY_CHARS_MIN} characters or more; {make}")
        return tuple(key.encode() for key in keys)


def sign_record(
    keys: Keys, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Iterable[Header]
) -> list[Header]:
    given = list(headers)
    return [*given, (MAC_HEADER, _make_mac(keys[0], _pack_message(topic, partition, key, value, given)))]


def check_record(
    keys: Keys, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
) -> Sequence[Header]:
    """Checks the hash in a record's headers, and returns the others.

    :raises Forged: it is wrong or missing
    """
    if not headers or headers[-1][0] != MAC_HEADER:
        raise Forged(topic, "has no signature")
    others, given = headers[:-1], headers[-1][1] or b""
    message = _pack_message(topic, partition, key, value, others)
    for candidate in keys:
        if given.startswith(_derive_id(candidate)) and hmac.compare_digest(_make_mac(candidate, message), given):
            return others
    raise Forged(topic, "has a signature that no known key made")


def _make_mac(key: bytes, message: bytes) -> bytes:
    return _derive_id(key) + hmac.digest(key, message, "sha256").hex().encode()


_ids: dict[bytes, bytes] = {}


def _derive_id(key: bytes) -> bytes:
    key_id = _ids.get(key)
    if key_id is None:
        key_id = _ids[key] = hashlib.sha256(b"id of a key of records:" + key).hexdigest()[:_ID_CHARS].encode()
    return key_id


_SEPARATOR = "\0"
_NONE = 0xFFFFFFFF
"""Stands for the length of what isn't there: an empty value is another record."""


def _pack_message(
    topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
) -> bytes:
    """Joins the lengths of all parts, then the parts, so that no two records have one message.

    As many names as texts are joined: a name that contains the separator would be one too many.
    """
    names = _SEPARATOR.join([f"{topic}[{partition}]", *[name for name, _ in headers]]).encode()
    parts = [names, key, value, *[text for _, text in headers]]
    present = [part for part in parts if part is not None]
    all_present = len(present) == len(parts)
    lengths = map(len, present) if all_present else [_NONE if part is None else len(part) for part in parts]
    return b"".join((struct.pack(f">{len(parts)}I", *lengths), *present))
