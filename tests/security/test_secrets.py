"""Only what the provider and we know is a key."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ingest.endpoints import SecretFiles, SecretsMissing
from tests.unit.ingest.app_under_test import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def outcome(bench: Bench, path: str = "/webhooks/stripe") -> tuple[int, str]:
    answer = asyncio.run(bench.post(*bench.stripe(), path))
    return answer.status_code, "" if answer.is_success else answer.json()["error"]["code"]


@pytest.mark.parametrize("text", ["# later\n{}\n", "# later\n", "{}\n\n", "{} {}\n", "changeme\n", ""])
def test_what_is_no_secret_opens_nothing_and_closes_its_provider(bench: Bench, tmp_path: Path, text: str) -> None:
    """From the moment on at which the file is changed, and at the start (`SecretFiles.check`)."""
    secret = bench.secrets["stripe"]
    assert outcome(bench) == (200, "")
    (tmp_path / "stripe").write_text(text.replace("{}", secret), "utf-8")
    bench.clock.advance(2)
    for bench.secrets["stripe"] in (secret, "#", "later", "changeme"):
        assert outcome(bench) == (503, "not_configured")
    with pytest.raises(SecretsMissing, match="line 1|line 2"):
        SecretFiles(tmp_path, bench.clock).check(bench.adapters)


def test_a_providers_secret_opens_none_of_its_other_endpoints(bench: Bench, tmp_path: Path) -> None:
    assert outcome(bench, "/webhooks/stripe/eu") == (503, "not_configured")
    (tmp_path / "stripe.eu").write_text(bench.secrets["stripe"] + "\n", "utf-8")
    bench.clock.advance(2)
    assert outcome(bench, "/webhooks/stripe/eu") == (200, "")
