"""A run in words."""

from __future__ import annotations

import pytest

from dlq.command import ReplayMode
from dlq.selection.model import Run


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (Run("replay", "mended"), ""),
        (Run("replay", "mended", ReplayMode.WITH_FOLLOWERS, per_s=50.0), ", with_followers, 50 a second"),
        (Run("replay", "mended", in_place=True, force=True), ", in place, forced"),
        (Run("purge", "never sent", propose=True), ", two people"),
    ],
)
def test_it_says_what_isnt_as_usual(run: Run, said: str) -> None:
    assert run.said == said
