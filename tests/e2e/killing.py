"""Killing a running stack at named points of its work."""

from __future__ import annotations

from pathlib import Path

import pytest

from load.client import wait_for
from load.embedded import embedded_stack
from load.traffic import Webhook
from tests.e2e.conftest import Stack, assert_once

BACK_S = 120.0
POINTS = (
    "ingest.between_publish_and_confirm",
    "processor.after_read",
    "processor.after_handlers",
    "processor.before_commit",
    "processor.after_commit",
    "processor.after_index",
    "processor.after_postings",
    "processor.after_dlq",
)


def killed_at(points: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills once at each point while webhooks arrive; every event has one effect in the end, and `verify` is clean."""
    fired = tmp_path / "fired"
    fired.mkdir()
    monkeypatch.setenv("PAYHOOK_TESTING", "1")
    monkeypatch.setenv("PAYHOOK_CRASH_AT", ",".join(points))
    monkeypatch.setenv("PAYHOOK_CRASH_ONCE", str(fired))
    for point in points[1:]:
        (fired / point).touch()
    with embedded_stack(tmp_path / "stack") as data_dir:
        stack = Stack(data_dir)
        webhooks: list[Webhook] = []
        for point in points:
            (fired / point).unlink(missing_ok=True)
            fresh = stack.captures(5, point.replace(".", "-").replace("_", "-"))
            poison = stack.traffic.signed("stripe", b'{"id": ' + point.encode())
            wait_for(lambda fresh=fresh, poison=poison: accepted(stack, [*fresh, poison]), BACK_S)  # type: ignore[misc]
            webhooks += fresh
            assert wait_for(lambda point=point: (fired / point).exists(), BACK_S), f"{point} never fired"  # type: ignore[misc]
        assert_once(stack, webhooks)
        stack.verify()


def accepted(stack: Stack, webhooks: list[Webhook]) -> bool:
    """Delivers until every one is answered 200, as a provider does."""
    return {answer.status for answer in stack.post(*webhooks)} == {200}
