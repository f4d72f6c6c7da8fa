"""A process that dies at any named point of its work leaves one effect an event, and a clean ledger."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.killing import POINTS, mortal_stack


def test_kill_9_at_every_named_point_leaves_one_effect(tmp_path: Path) -> None:
    with mortal_stack(tmp_path) as stack:
        stack.killed_at(POINTS)
        stack.verify()
