"""Only what the provider and we know is a key."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ingest.endpoints import EndpointContexts, SecretFiles, SecretsMissing
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
        SecretFiles(tmp_path, bench.clock, EndpointContexts(bench.settings)).check(bench.adapters)


def test_a_providers_secret_opens_none_of_its_other_endpoints(bench: Bench, tmp_path: Path) -> None:
    assert outcome(bench, "/webhooks/stripe/eu") == (503, "not_configured")
    (tmp_path / "stripe.eu").write_text(bench.secrets["stripe"] + "\n", "utf-8")
    bench.clock.advance(2)
    assert outcome(bench, "/webhooks/stripe/eu") == (200, "")


@pytest.mark.parametrize("shared", ["{}\n", "whsec_a_newer_one_0123456789abcdef\n{}\n"])
def test_a_file_that_comes_to_share_a_secret_with_another_tenants_endpoint_closes_both(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, shared: str
) -> None:
    """While it does, what is signed for the one would take effect at the other as well."""
    bench = Bench(tmp_path, endpoints={"stripe/eu": {"tenant": "shop-a"}})
    bench.secrets["stripe"] = bench.secrets["stripe/eu"]
    eu, us = "/webhooks/stripe/eu", "/webhooks/stripe/us"
    assert (outcome(bench, eu), outcome(bench, us)) == ((200, ""), (503, "not_configured"))
    (tmp_path / "stripe.us").write_text(shared.format(bench.secrets["stripe"]), "utf-8")
    bench.clock.advance(2)
    assert [outcome(bench, path) for path in (us, eu)] == [(503, "not_configured")] * 2
    assert f"{tmp_path / 'stripe.us'}: it shares a secret with stripe.eu" in caplog.text
    assert [headers.get("tenant") for *_, headers in bench.publisher.records] == ["shop-a"]
    (tmp_path / "stripe.us").unlink()
    bench.clock.advance(2)
    assert (outcome(bench, eu), outcome(bench, us)) == ((200, ""), (503, "not_configured"))
