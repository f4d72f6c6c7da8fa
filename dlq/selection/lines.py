"""Items of one entity go together where followers go with their head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence


def lined_up(item_seqs: Sequence[int], entities: Mapping[int, str | None]) -> list[tuple[int, int, int]]:
    """(turn, the turn at which its entity's line begins, item): an entity's items together, in their order."""
    lines: dict[str, list[int]] = {}
    for seq in item_seqs:
        lines.setdefault(entities.get(seq) or f"={seq}", []).append(seq)
    turns: list[tuple[int, int, int]] = []
    for line in lines.values():
        begin = len(turns)
        turns += [(begin + at, begin, seq) for at, seq in enumerate(line)]
    return turns


def looks(turns: Sequence[tuple[int, int, int]], count: int) -> Iterator[list[int]]:
    """Items in their turns, about ``count`` at a time; a line is never parted."""
    some: list[int] = []
    for turn, begin, seq in turns:
        if len(some) >= count and turn == begin:
            yield some
            some = []
        some.append(seq)
    if some:
        yield some
