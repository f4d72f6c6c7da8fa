"""Signing in and out, as a browser does it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi import FastAPI

from core.clock import ManualClock
from tests.unit.console.listening import ADA, PASSWORD, Browser, Listener, csrf_of

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def listener(tmp_path: Path) -> Listener:
    return Listener(FastAPI(openapi_url=None, docs_url=None, redoc_url=None), tmp_path, ManualClock(NOW))


def test_whoever_is_not_signed_in_is_sent_to_sign_in_and_back(listener: Listener) -> None:
    browser = Browser(listener)
    sent = browser.get("/?page=2")
    assert (sent.status_code, sent.headers["location"]) == (303, "/login?next=%2F%3Fpage%3D2")
    page = browser.get(sent.headers["location"])
    assert page.status_code == 200
    answer = browser.post("/login", {"name": ADA, "password": PASSWORD, "next": "/?page=2"}, csrf_of(page))
    assert (answer.status_code, answer.headers["location"]) == (303, "/?page=2")
    assert "Signed in as <b>ada</b>" in browser.get("/").text
