"""The servers of the integration tests: attacks are made on the real receiver."""

from __future__ import annotations

from tests.integration.ingest.conftest import receiver, servers, shared_receiver
from tests.unit.console.conftest import real_hasher

__all__ = ["real_hasher", "receiver", "servers", "shared_receiver"]
