"""Requests in every shape, and the public sample webhooks where they are to be had."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from providers import Adapter, ProvidersSettings, build_adapters

CHECKOUT = Path(__file__).resolve().parents[3]
SAMPLES = Path(os.environ.get("PAYHOOK_TEST_WEBHOOKS", CHECKOUT.parent / "shared" / "webhooks"))
NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


@pytest.fixture
def now() -> datetime:
    return NOW


@pytest.fixture
def adapters() -> dict[str, Adapter]:
    return build_adapters(ProvidersSettings())


@pytest.fixture
def adapter(request: pytest.FixtureRequest, adapters: dict[str, Adapter]) -> Adapter:
    """Of the provider that the module is named after (``test_square``), with nothing set."""
    return adapters[request.path.stem.split("_")[1]]


@pytest.fixture
def samples() -> Path:
    """The folder of public webhook samples, which are other people's and not part of this repository."""
    if not (SAMPLES / "SOURCES.tsv").is_file():
        pytest.skip(f"no webhook samples at {SAMPLES}; set PAYHOOK_TEST_WEBHOOKS to their folder")
    return SAMPLES
