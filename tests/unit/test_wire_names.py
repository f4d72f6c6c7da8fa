"""No name that others rely on changes by accident."""

from __future__ import annotations

from pathlib import Path

from tests.wire_names import wire_names

HELD = Path(__file__).with_name("wire_names.txt")


def test_each_name_that_others_rely_on_is_held() -> None:
    held, now = HELD.read_text().splitlines(), list(wire_names())
    gone = [name for name in held if name not in set(now)]
    new = [name for name in now if name not in set(held)]
    assert (gone, new) == ([], []), "if you mean it: python -m tests.wire_names > tests/unit/wire_names.txt"
