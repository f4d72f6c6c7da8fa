"""A body masked as the receiver masks it, by the shipped settings."""

from __future__ import annotations

import re
from pathlib import Path

from ingest.pan import CardMasker, MaskingKey, kinds_of
from ingest.pan_body import BodyMask
from ingest.settings import PanSettings

CARD, HIDDEN, LAST_FOUR = "4111111111111111", "411111******1111", "************1111"
KINDS = kinds_of(PanSettings())
MASKER = CardMasker(PanSettings(), MaskingKey("k" * 32))
PAGE = Path(__file__).parents[3] / "docs" / "card-numbers.md"


def masked(body: bytes, ids: tuple[str, ...] = ("id",), spared: tuple[str, ...] = ()) -> bytes:
    mask = BodyMask(KINDS, frozenset(map(str.encode, ids)), frozenset(map(str.encode, spared)))
    result = mask.mask_body(body)
    assert len(result) == len(body)
    assert mask.found or result == body
    # A number that is all zeros is hidden by zeros.
    assert result != body or all(set(one) <= set(b"-+.eE0") for one in mask.found)
    # The quick look before it never says no where there is something.
    assert result == body or MASKER.may_hold_cards(body)
    return result


def bodies_with_what_is_not_found() -> list[tuple[str, bytes]]:
    """The examples in the page's table "What isn't found", as their lines say they are encoded."""
    section = PAGE.read_text("utf-8").split("## What isn't found")[1].split("\n## ")[0]
    lines = re.findall(r"^\| ([^|]+) \| `([^`|]+)` \| (UTF-[0-9]+) \|$", section, re.MULTILINE)
    return [(what, example.encode(encoding)) for what, example, encoding in lines]
