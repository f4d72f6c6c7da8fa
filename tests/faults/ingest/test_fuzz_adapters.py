"""Signed nonsense at length, for every adapter; ``HYPOTHESIS_PROFILE=night`` makes it longer still."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.contract.adapter_cases import CASES
from tests.contract.fuzzing import bodies, fuzzed

LONG = settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "faults"))


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("label", sorted(CASES))
def test_whatever_is_signed_is_taken_as_an_event_or_as_poison_or_refused(label: str, tmp_path: Path) -> None:
    case = CASES[label]
    with fuzzed(case, tmp_path) as receiver:

        @settings(LONG, suppress_health_check=list(HealthCheck))
        @given(body=bodies(case))
        def run(body: bytes) -> None:
            receiver.take(body)

        run()
