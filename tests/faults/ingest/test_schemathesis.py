"""The receiver answers as it is described, at length; ``HYPOTHESIS_PROFILE=night`` makes it longer still."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from schemathesis import GenerationMode

from tests.integration.ingest.conftest import ReceiverUnderTest
from tests.integration.ingest.described import hold_to_its_description

LONG = settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "faults"))


pytestmark = pytest.mark.timeout(7_200)


def test_every_answer_to_what_is_described_is_described(receiver: ReceiverUnderTest) -> None:
    answered = hold_to_its_description(receiver, GenerationMode.POSITIVE, LONG)
    assert answered[401] > 200
    assert answered[200] > 200


def test_every_answer_to_what_is_not_described_is_described(receiver: ReceiverUnderTest) -> None:
    """Any body is allowed, so it is endpoints that can't be."""
    assert set(hold_to_its_description(receiver, GenerationMode.NEGATIVE, LONG)) == {404}
