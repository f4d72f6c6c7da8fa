"""What an item's page shows of its payload, and how much of everything."""

from __future__ import annotations

from dataclasses import dataclass

from dlq.index import ItemStory

RAW_BYTES_MAX = 4_096
_BYTES_PER_LINE = 32


@dataclass(frozen=True, slots=True)
class Shown:
    """The payload as text: ``pretty`` where it is JSON, ``raw`` as it came (text, or bytes in hex)."""

    pretty: str | None
    raw: str | None
    is_hex: bool
    size: int


def shown(story: ItemStory) -> Shown:
    raw = story.payload.raw
    if raw is None:
        return Shown(None, None, False, 0)
    try:
        return Shown(story.payload.pretty, raw.decode("utf-8"), False, len(raw))
    except UnicodeDecodeError:
        return Shown(None, _hex(raw[:RAW_BYTES_MAX]), True, len(raw))


def _hex(raw: bytes) -> str:
    lines = (raw[at : at + _BYTES_PER_LINE] for at in range(0, len(raw), _BYTES_PER_LINE))
    return "\n".join(line.hex(" ") for line in lines)
