"""The search for a stream that something odd stops, at length and with other examples each time; ``HYPOTHESIS_SEED``
repeats one. What it finds becomes an example of ``tests/unit/processor/decide/test_hostile_stream.py``.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from processor.settings import DeadHead
from tests.unit.processor.hostile_stream import HostileBatch, run, steps

LONG = settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "faults"))


@pytest.mark.timeout(3_600)
def test_whatever_is_done_to_it_the_stream_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    number = int(os.environ.get("HYPOTHESIS_SEED") or random.SystemRandom().randrange(2**32))
    with capsys.disabled():
        sys.stdout.write(f"\nHYPOTHESIS_SEED={number}\n")

    @seed(number)
    @settings(LONG, database=None, suppress_health_check=list(HealthCheck))
    @given(policy=st.sampled_from(list(DeadHead)), todo=steps())
    def search(policy: DeadHead, todo: list[HostileBatch]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            run(Path(folder), policy, todo)

    search()
