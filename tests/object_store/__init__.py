"""A real S3-compatible server of this test run's own, and a network between it and its clients that can fail."""

from tests.object_store.relay import Relay
from tests.object_store.server import BUCKET, ObjectStore, client_of, object_store_server, with_bucket

__all__ = ["BUCKET", "ObjectStore", "Relay", "client_of", "object_store_server", "with_bucket"]
