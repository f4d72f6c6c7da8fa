"""Versions of the headers that carry an event through Kafka, and how older ones are read.

A version is ``major.minor``. A minor one adds headers, or says more in one: whoever knows an older minor reads it and
passes over what is new. A major one can't be read by older code. Every version ever written stays readable, since
Kafka holds records for days and the journal their headers for ever: `STEPS` lifts a record from one version to the
next, and `core.event` knows the newest form only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote, unquote

from core.errors import Unparseable

VERSION_HEADER = "schema_version"
POISON_CHARS_MAX = 500

Version: TypeAlias = tuple[int, int]
Texts: TypeAlias = dict[str, str]

SCHEMA_VERSION: Version = (1, 1)
"""1.0: the first form, written as ``1``; its later records hold ``original_sha256``, ``tenant`` and ``zone`` too.
1.1: ``poison`` is whole and readable; its later records hold ``original_content_sha256`` too."""

_VERSION = re.compile(r"([0-9]{1,4})(?:\.([0-9]{1,4}))?")
_HASHED = re.compile(r"sha256-[0-9a-f]{64}")
_PLAIN = " !\"#$&'()*+,/;<=>?@[]^{|}"


@dataclass(frozen=True, slots=True)
class Step:
    """From ``version`` to the next one that was ever written; ``lift`` changes header texts in place."""

    version: Version
    lift: Callable[[Texts], None]


def _from_1_0(texts: Texts) -> None:
    """1.0 wrote `poison` as a key's part: encoded in another way, and as a mere hash beyond 256 characters."""
    poison = texts.get("poison")
    if poison is None:
        return
    if _HASHED.fullmatch(poison):
        texts["poison"] = quote_text(f"the bytes can't be read; of the reason only the hash was kept ({poison})")
    else:
        texts["poison"] = quote_text(unquote(poison))


STEPS: tuple[Step, ...] = (Step((1, 0), _from_1_0),)
"""Oldest first, one a version."""


def version_text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def quote_text(text: str) -> str:
    """A text as a header holds it, cut to `POISON_CHARS_MAX`: what isn't plain ASCII is percent-encoded UTF-8."""
    return quote(text[:POISON_CHARS_MAX], safe=_PLAIN, errors="backslashreplace")


def unquote_text(text: str) -> str:
    """The inverse of `quote_text`; what can't be printed comes back escaped, so that every store takes it."""
    plain = unquote(text)[:POISON_CHARS_MAX]
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in plain)


def upcast(texts: Mapping[str, str], steps: Sequence[Step] = STEPS, newest: Version = SCHEMA_VERSION) -> Texts:
    """A record's header texts in the form of ``newest``; the given ones stay as they are.

    Those of a newer minor version come back unchanged.

    :raises KeyError: there is no version
    :raises Unparseable: it can't be read, is of a newer major version, or of one that no step begins at
    """
    version = _version(texts[VERSION_HEADER])
    lifted = dict(texts)
    if version[0] > newest[0]:
        told, known = version_text(version), version_text(newest)
        raise Unparseable(f"header schema {told} is newer than {known}: upgrade the processor first")
    if version >= newest:
        return lifted
    due = [step for step in steps if step.version >= version]
    if not due or due[0].version != version:
        raise Unparseable(f"header schema {version_text(version)} was never written by a receiver")
    for step in due:
        step.lift(lifted)
    return lifted


def _version(text: str) -> Version:
    found = _VERSION.fullmatch(text)
    if found is None:
        raise Unparseable(f"header {VERSION_HEADER} is wrong: {text[:40]!r}, such as 1.1 is wanted")
    return int(found[1]), int(found[2] or 0)
