"""Whatever a provider signs, the receiver answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.contract.adapter_cases import CASES
from tests.contract.adapter_cases.case import SAMPLE
from tests.contract.fuzzing import bodies, fuzzed
from tests.examples import examples

pytestmark = pytest.mark.more(reason="a search; test_adapters has each kind once")


@pytest.mark.hypothesis
@pytest.mark.parametrize("label", sorted(CASES))
def test_whatever_is_signed_is_taken_as_an_event_or_as_poison_or_refused(label: str, tmp_path: Path) -> None:
    case = CASES[label]
    with fuzzed(case, tmp_path) as receiver:
        assert receiver.take(case.body(SAMPLE)) == case.adapter().accepted().status

        @settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
        @given(body=bodies(case))
        def run(body: bytes) -> None:
            receiver.take(body)

        run()
