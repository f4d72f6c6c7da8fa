"""Anchors: where a journal's chain stood, kept outside the lake and signed, so that no edit of the lake can follow.

The chain by itself proves only that the journal agrees with itself: whoever can write the lake can change a row and
compute everything after it anew, or cut the end off. An anchor is a copy of the head that they can't change, under a
key that the lake doesn't hold (HMAC-SHA256, RFC 2104).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from core.clock import from_rfc3339, to_rfc3339
from core.errors import PayhookError, SettingError
from core.secret_lines import secret_lines

SETTING = "processor.anchor_key_file"
KEY_CHARS_MIN = 32
"""128 bits where the key is hexadecimal."""

BYTES_MAX = 1_000
_FIELDS = frozenset({"stream", "epoch", "seq", "chain", "at", "mac"})
_LATER_FIELDS = frozenset({"lineage"})
"""Those that records of older code don't have."""

_CHAIN = re.compile(r"[0-9a-f]{64}")


class AnchorInvalid(PayhookError):
    """Bytes on the anchors' topic that no holder of a key wrote."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"not an anchor: {problem}")


@dataclass(frozen=True, slots=True)
class Anchor:
    """``chain`` is the head after the commit whose last row is ``seq``; ``at``: when it was said, UTC.

    ``lineage`` is the journal's; empty where it has none, as in what older code said.
    """

    stream: str
    epoch: int
    seq: int
    chain: str
    at: datetime
    lineage: str = ""


class AnchorKeys:
    """Keys by age, the newest first: it signs, and any of them is believed."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = [key.encode() for key in keys]

    @classmethod
    def read(cls, file: Path) -> AnchorKeys:
        """One key a line, the newest first.

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
        """The record of an anchor: JSON with its MAC."""
        told = _told(anchor)
        return _canonical({**told, "mac": _mac(self._keys[0], told)})

    def decode(self, record: bytes) -> Anchor:
        """The inverse of `encode`.

        :raises AnchorInvalid: it isn't an anchor, or none of the keys signed it
        """
        tree = _tree(record)
        mac = tree.pop("mac")
        if not isinstance(mac, str) or not any(hmac.compare_digest(_mac(key, tree), mac) for key in self._keys):
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
    """A random key, hexadecimal."""
    return secrets.token_hex(32)


def _told(anchor: Anchor) -> dict[str, Any]:
    told = {
        "stream": anchor.stream,
        "epoch": anchor.epoch,
        "seq": anchor.seq,
        "chain": anchor.chain,
        "at": to_rfc3339(anchor.at),
    }
    return {**told, "lineage": anchor.lineage} if anchor.lineage else told


def _tree(record: bytes) -> dict[str, Any]:
    if len(record) > BYTES_MAX:
        raise AnchorInvalid(f"{len(record)} bytes, {BYTES_MAX} are the most")
    try:
        tree = json.loads(record)
    except (ValueError, RecursionError) as wrong:
        raise AnchorInvalid(f"not JSON: {wrong}") from wrong
    if not isinstance(tree, dict) or tree.keys() - _LATER_FIELDS != _FIELDS:
        raise AnchorInvalid(f"the fields {', '.join(sorted(_FIELDS))} are wanted")
    return tree


def _mac(key: bytes, told: dict[str, Any]) -> str:
    return hmac.new(key, _canonical(told), hashlib.sha256).hexdigest()


def _canonical(tree: dict[str, Any]) -> bytes:
    return json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
