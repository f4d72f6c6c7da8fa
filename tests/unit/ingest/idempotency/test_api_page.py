"""What docs/api.md shows is what happens."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from core.clock import ManualClock
from ingest.idempotency import request as problems
from ingest.idempotency.request import Problem
from tests.memory_answers import MemoryAnswers

PAGE = (Path(__file__).parents[4] / "docs" / "api.md").read_text("utf-8")


@pytest.mark.row("A14")
def test_the_example_application_carries_a_repeated_request_out_once() -> None:
    async def post_twice() -> list[httpx2.Response]:
        app = example["create_app"](MemoryAnswers(ManualClock(datetime(2026, 1, 31, tzinfo=UTC))))
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://shop") as client:
            return [await client.post("/refunds", headers={"idempotency-key": '"k-1"'}) for _ in range(2)]

    example: dict[str, Any] = {}
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    # As a module of its own: FastAPI looks annotations up in the module's names.
    exec(compile(code, "docs/api.md", "exec"), example)
    first, copy = asyncio.run(post_twice())
    assert (first.status_code, copy.status_code) == (201, 201)
    assert first.json()["refund"].startswith("re_") and copy.content == first.content
    assert copy.headers["idempotent-replayed"] == "true"


@pytest.mark.parametrize(
    "problem",
    [
        problems.key_missing("POST"),
        problems.key_malformed("no"),
        problems.key_in_use(1),
        problems.key_reused(),
        problems.answer_not_kept(201, 1),
        problems.too_large(1),
        problems.too_slow(1),
        problems.store_unavailable(1),
    ],
)
def test_every_refusal_is_explained_with_its_status(problem: Problem) -> None:
    [row] = [line for line in PAGE.splitlines() if f"`#{problem.slug}`" in line and line.startswith("|")]
    status, slugs = row.split("|")[1:3]
    assert str(problem.status) in status
    assert ("Retry-After" in status) == (problem.retry_after_s is not None)
    assert problem.slug in slugs
