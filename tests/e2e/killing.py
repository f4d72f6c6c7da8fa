"""Killing a running stack at named points of its work."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
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


class MortalStack(Stack):
    """A stack whose processes die at a named point once, each time that it is asked for."""

    def __init__(self, data_dir: Path, fired: Path) -> None:
        super().__init__(data_dir)
        self._fired = fired

    def killed_at(self, points: Sequence[str]) -> None:
        """Kills once at each point while webhooks arrive; every event has one effect in the end."""
        webhooks: list[Webhook] = []
        for point in points:
            fresh = self.captures(5, point.replace(".", "-").replace("_", "-"))
            poison = self.traffic.signed("stripe", b'{"id": ' + point.encode())
            fired = self._fired / point
            fired.unlink()
            wait_for(lambda fresh=fresh, poison=poison: self._taken([*fresh, poison]), BACK_S)  # type: ignore[misc]
            webhooks += fresh
            assert wait_for(fired.exists, BACK_S), f"{point} never fired"
        assert_once(self, webhooks)

    def _taken(self, webhooks: list[Webhook]) -> bool:
        """Delivers until every one is answered 200, as a provider does."""
        return {answer.status for answer in self.post(*webhooks)} == {200}


@contextlib.contextmanager
def mortal_stack(folder: Path) -> Iterator[MortalStack]:
    """One whose processes live for as long as nobody asks."""
    fired = folder / "fired"
    fired.mkdir()
    for point in POINTS:
        (fired / point).touch()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PAYHOOK_TESTING", "1")
        environment.setenv("PAYHOOK_CRASH_AT", ",".join(POINTS))
        environment.setenv("PAYHOOK_CRASH_ONCE", str(fired))
        with embedded_stack(folder / "stack") as data_dir:
            yield MortalStack(data_dir, fired)
