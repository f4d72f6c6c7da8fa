"""What the log and the runbook say of requests that are answered 503."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from ingest.errors import REFUSALS, REMEDIES, RUNBOOK, UNAVAILABLE, RequestRefused, runbook_of
from ingest.reports import EVERY_S, RefusalLog
from tests import virtual_time
from tests.unit.ingest.app_under_test import Bench

ENTRY = re.compile(r"^### 503: (\w+)\n(.*?)(?=^##)", re.DOTALL | re.MULTILINE)
CHECKOUT = Path(__file__).parents[3]


def entries() -> dict[str, str]:
    """The runbook's entries of codes, with their texts."""
    return dict(ENTRY.findall((CHECKOUT / RUNBOOK).read_text("utf-8")))


def test_every_refusal_says_what_to_do_in_a_sentence() -> None:
    assert REMEDIES.keys() == REFUSALS.keys()
    for code, text in REMEDIES.items():
        assert text.endswith(".") and len(text) <= 120, (code, text)


def test_every_code_that_is_answered_503_has_an_entry_in_the_runbook_with_its_four_parts() -> None:
    found = entries()
    assert found.keys() == UNAVAILABLE
    for code, text in found.items():
        for part in ("**You see**", "**Why**", "**Do**", "**It is over**"):
            assert text.count(part) == 1, (code, part)
        assert runbook_of(code) == f"{RUNBOOK}#503-{code}"


def test_a_thousand_refusals_of_a_minute_are_one_line_and_a_quiet_minute_ends_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")

    async def scene() -> None:
        refusals = RefusalLog()
        for _ in range(1_000):
            refusals.count_refusal("stripe", RequestRefused("not_published"))
            refusals.count_refusal("adyen", RequestRefused("wrong_type", wanted="x"))
            await asyncio.sleep(EVERY_S / 1_000)
        await asyncio.sleep(2 * EVERY_S)
        assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO"]
        first, later, over = caplog.messages
        assert "503 not_published to 1 requests of stripe: Kafka did not accept" in first
        assert "503 not_published to 999 requests of stripe" in later
        for line in (first, later):
            assert REMEDIES["not_published"] in line and "docs/runbook.md#503-not_published" in line
        assert over == "no request was answered 503 not_published for 60 s: it is over"
        refusals.count_refusal("stripe", RequestRefused("not_published"))
        assert len(caplog.messages) == 4, "what begins again is said at once"

    virtual_time.run(scene())


def test_a_line_names_the_cause(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        refusals = RefusalLog()
        refused = RequestRefused("not_configured", provider="stripe", cause="secrets/stripe is missing")
        refusals.count_refusal("stripe", refused)
        assert "secrets/stripe is missing" in caplog.text

    virtual_time.run(scene())


def test_requests_without_a_secret_are_one_line_that_names_the_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        bench = Bench(tmp_path)
        body, headers = bench.stripe()
        (tmp_path / "stripe").unlink()
        async with bench.client() as client:
            for _ in range(20):
                answer = await client.post("/webhooks/stripe", content=body, headers=headers)
                assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_configured")
        lines = [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
        assert len(lines) == 1
        assert str(tmp_path / "stripe") in lines[0].getMessage()
        assert REMEDIES["not_configured"] in lines[0].getMessage()

    virtual_time.run(scene())
