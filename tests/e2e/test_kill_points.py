"""A process that dies in the middle of its work leaves one effect an event, and a clean ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.killing import killed_at

pytestmark = pytest.mark.timeout(400)

AROUND_WHAT_IS_DURABLE = (
    "ingest.between_publish_and_confirm",
    "processor.before_commit",
    "processor.after_commit",
)
"""Each on one side of Kafka's acknowledgement or of the commit; `make test-faults` has every point."""


def test_kill_9_around_what_is_durable_leaves_one_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_at(AROUND_WHAT_IS_DURABLE, tmp_path, monkeypatch)
