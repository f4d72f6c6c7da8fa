"""Portions of few items, so that a short run has several."""

from __future__ import annotations

import pytest

from processor.decide import runs


@pytest.fixture
def three_items_a_portion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "WINDOW_FIRST", 3)
    monkeypatch.setattr(runs, "WINDOW_MAX", 3)
    monkeypatch.setattr(runs, "WINDOW_MIN", 1)
