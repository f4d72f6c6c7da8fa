"""The servers of the integration tests: attacks are made on the real receiver."""

from __future__ import annotations

from tests.cheap_passwords import real_hasher
from tests.integration.ingest.conftest import receiver, servers, shared_receiver

__all__ = ["real_hasher", "receiver", "servers", "shared_receiver"]
