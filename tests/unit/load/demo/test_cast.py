"""The demo's webhooks, and what the README says of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from core.clock import SystemClock
from load.demo.cast import Cast, make_cast
from load.traffic import PROVIDERS, Traffic
from providers import ProvidersSettings, build_adapters

README = Path(__file__).parents[4] / "README.md"


@pytest.fixture
def cast(tmp_path: Path) -> Cast:
    adapters = build_adapters(ProvidersSettings())
    for provider in PROVIDERS:
        (tmp_path / provider).write_text(adapters[provider].new_secret())
    rng = random.Random(7)
    return make_cast(Traffic(tmp_path, SystemClock(), rng, "p"), rng)


def test_the_readme_says_how_many_webhooks_the_story_posts(cast: Cast) -> None:
    assert f"a story of {cast.deliveries} webhooks" in README.read_text("utf-8")


def test_what_comes_again_came_before(cast: Cast) -> None:
    """Redeliveries are of the first half: what Redis has forgotten had been decided by then."""
    first_half = cast.honest[: len(cast.honest) // 2]
    assert all(webhook in first_half for webhook in (*cast.redelivered, *cast.after_redis_loss))


def test_one_id_comes_with_two_contents(cast: Cast) -> None:
    assert cast.first_content.event_keys == cast.other_content.event_keys
    assert cast.first_content.body != cast.other_content.body
    assert cast.poison.event_keys == ()
