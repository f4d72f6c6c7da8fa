"""Fixtures of the receiver's tests: a provider to fetch from, and a clock."""

from __future__ import annotations

from tests.unit.ingest.provider_server import clock, provider

__all__ = ["clock", "provider"]
