"""The receiver's settings hold each other to what the protocol needs."""

import pytest
from pydantic import ValidationError

from ingest.settings import IngestSettings


def test_the_defaults_let_a_claim_outlive_its_request():
    settings = IngestSettings()
    assert settings.lease_s > settings.publish_timeout_ms / 1000


def test_a_lease_that_a_request_could_outlive_is_refused():
    with pytest.raises(ValidationError, match="lease_s must be more than"):
        IngestSettings(lease_s=5)


def test_publishing_may_not_take_as_long_as_the_shortest_providers_timeout():
    with pytest.raises(ValidationError):
        IngestSettings(publish_timeout_ms=5_000)
