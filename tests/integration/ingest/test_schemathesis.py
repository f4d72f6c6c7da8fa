"""The receiver answers as it is described."""

from __future__ import annotations

import pytest
from schemathesis import GenerationMode

from tests.examples import examples
from tests.integration.ingest.conftest import ReceiverUnderTest
from tests.integration.ingest.described import hold_to_its_description

REQUESTS = 200

pytestmark = [
    pytest.mark.hypothesis,
    pytest.mark.more(reason="a search; tests/unit/ingest/test_openapi holds the description"),
]


def test_every_answer_to_what_is_described_is_described(receiver: ReceiverUnderTest) -> None:
    answered = hold_to_its_description(receiver, GenerationMode.POSITIVE, examples(REQUESTS))
    assert sum(answered.values()) >= examples(REQUESTS)
    assert answered[401] > examples(REQUESTS) // 10
    assert answered[200] > examples(REQUESTS) // 40


def test_every_answer_to_what_is_not_described_is_described(receiver: ReceiverUnderTest) -> None:
    """Any body is allowed, so it is endpoints that can't be."""
    assert set(hold_to_its_description(receiver, GenerationMode.NEGATIVE, examples(REQUESTS))) == {404}
