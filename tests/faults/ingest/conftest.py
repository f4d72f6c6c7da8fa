"""The receiver as a process on its own Redis and Kafka, as the integration tests have it."""

from tests.integration.ingest.conftest import receiver, servers, shared_receiver

__all__ = ["receiver", "servers", "shared_receiver"]
