"""The receiver answers as it is described: a short run of what ``tests/faults`` does at length."""

from __future__ import annotations

from hypothesis import settings
from schemathesis import GenerationMode

from tests.integration.ingest.conftest import ReceiverUnderTest
from tests.integration.ingest.described import hold_to_its_description

SHORT = settings(max_examples=200, deadline=None, derandomize=True)


def test_every_answer_to_what_is_described_is_described(receiver: ReceiverUnderTest) -> None:
    answered = hold_to_its_description(receiver, GenerationMode.POSITIVE, SHORT)
    assert sum(answered.values()) >= 200
    assert answered[401] > 20
    assert answered[200] > 5


def test_every_answer_to_what_is_not_described_is_described(receiver: ReceiverUnderTest) -> None:
    """Any body is allowed, so it is endpoints that can't be."""
    answered = hold_to_its_description(receiver, GenerationMode.NEGATIVE, SHORT)
    assert set(answered) == {404}
