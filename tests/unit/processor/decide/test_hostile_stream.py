"""Handlers, adapters, senders and operators do anything: the stream advances, and every other event is decided."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from processor.settings import DeadHead
from tests.unit.processor.hostile_stream import EVERYTHING, HostileBatch, run, steps


@pytest.mark.parametrize("policy", DeadHead)
def test_everything_odd_once(tmp_path: Path, policy: DeadHead) -> None:
    run(tmp_path, policy, EVERYTHING)


@pytest.mark.row("F2")
@settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(policy=st.sampled_from(list(DeadHead)), todo=steps())
@example(
    policy=DeadHead.WAIT,
    todo=[
        HostileBatch(arriving=(("e1", ("nothing",)), ("e1", ())), poison=True),
        HostileBatch(copy=(1, 9), adapter="a newer version", orders=(("replay", 0), ("replay", 2))),
        HostileBatch(adapter="a key that is half a pair", orders=(("purge", 0),), raw="a time before all others"),
    ],
)
def test_whatever_is_done_to_it_the_stream_goes_on(policy: DeadHead, todo: list[HostileBatch]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), policy, todo)
