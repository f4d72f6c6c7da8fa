"""A process that dies in the middle of its work leaves one effect an event, and a clean ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.killing import killed_at

pytestmark = pytest.mark.timeout(400)

AFTER_WHAT_IS_DURABLE = ("ingest.between_publish_and_confirm", "processor.after_commit")
"""After Kafka's acknowledgement, and after the commit; `make test-faults` has every point."""


def test_kill_9_after_what_is_durable_leaves_one_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_at(AFTER_WHAT_IS_DURABLE, tmp_path, monkeypatch)
