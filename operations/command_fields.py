"""Fields of a command as JSON holds them, each checked as it is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from core.clock import from_rfc3339
from core.visible import KEPT_CHARS_MAX, is_kept_text
from journal.target import HASH_CHARS, ItemTarget
from operations.command import CommandInvalid

SEQ_MAX = 2**63 - 1
HASH_PATTERN = f"[0-9a-f]{{{HASH_CHARS}}}"
_HASH = re.compile(HASH_PATTERN)
_TEXT = re.compile(f"([1-9][0-9]{{0,18}})[.]([1-9][0-9]{{0,18}})[.]({HASH_PATTERN})")

Word = TypeVar("Word", bound=StrEnum)


def text_of(tree: Mapping[str, Any], name: str) -> str:
    value = tree[name]
    if not isinstance(value, str) or not is_kept_text(value):
        raise CommandInvalid(f"{name}: expected printable text of 1 to {KEPT_CHARS_MAX} characters")
    return value


def time_of(tree: Mapping[str, Any], name: str) -> datetime:
    try:
        return from_rfc3339(text_of(tree, name))
    except ValueError as wrong:
        raise CommandInvalid(f"{name}: {wrong}") from wrong


def word_of(tree: Mapping[str, Any], name: str, words: type[Word]) -> Word | None:
    if name not in tree:
        return None
    try:
        return words(tree[name])
    except ValueError as wrong:
        raise CommandInvalid(f"{name}: expected {' or '.join(words)}") from wrong


def whole_of(tree: Mapping[str, Any], name: str, most: int) -> int:
    value = tree.get(name, 0)
    if type(value) is not int or not 0 <= value <= most:
        raise CommandInvalid(f"{name}: expected a whole number from 0 to {most}")
    return value


def flag_of(tree: Mapping[str, Any], name: str) -> bool:
    value = tree.get(name, False)
    if type(value) is not bool:
        raise CommandInvalid(f"{name}: expected true or false")
    return value


def targets_of(tree: Mapping[str, Any], name: str, most: int) -> tuple[ItemTarget, ...]:
    value = tree[name]
    if not isinstance(value, list) or not 0 < len(value) <= most:
        raise CommandInvalid(f"{name}: expected a list of 1 to {most} targets")
    targets = tuple(_parse_target(item, name) for item in value)
    if len({target.item_seq for target in targets}) != len(targets):
        raise CommandInvalid(f"{name}: an item is named twice")
    return targets


def _parse_target(item: object, name: str) -> ItemTarget:
    match item:
        case [int() as item_seq, int() as seen_seq, str() as seen_hash] if (
            0 < item_seq <= seen_seq <= SEQ_MAX and type(item_seq) is int and _HASH.fullmatch(seen_hash)
        ):
            return ItemTarget(item_seq, seen_seq, seen_hash)
    raise CommandInvalid(
        f"{name}: expected [item_seq, seen_seq, seen_hash] for each, the first not above the second, the third the "
        f"first {HASH_CHARS} hex digits of that row's hash; list the items again, and order what you then see"
    )


def target_of_text(text: str) -> ItemTarget:
    match = _TEXT.fullmatch(text)
    if match is None:
        raise CommandInvalid(f"{text[:60]!r} names no item as it was seen; list the items again")
    return _parse_target([int(match[1]), int(match[2]), match[3]], "item")
