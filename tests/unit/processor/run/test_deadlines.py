"""What two batches that an event meets wait for hanging calls, together."""

from __future__ import annotations

import pytest

from processor.run.deadlines import Deadlines, OutSince, Patience


@pytest.mark.parametrize("call_s", [0.01, 0.3, 2.0])
@pytest.mark.parametrize("batch_s", [0.05, 0.5, 10.0])
def test_a_patient_batch_and_a_hasty_one_wait_less_than_the_batchs_deadline(call_s: float, batch_s: float):
    patient, hasty = Deadlines(call_s, batch_s), Deadlines(call_s, batch_s, hasty=True)
    assert 0 < hasty.patience_s <= patient.patience_s
    assert patient.patience_s + hasty.patience_s < batch_s


def test_no_batch_waits_longer_than_a_call_may_take():
    assert Deadlines(0.2, 0.5).patience_s == 0.2
    assert Deadlines(2.0, 0.5).patience_s == pytest.approx(0.4)


def test_a_batch_after_one_that_waited_is_hasty_and_the_next_one_is_not():
    patience = Patience(0.5)
    said = []
    for waited_s in (0.0, 0.04, 0.4, 0.4, 0.4, 0.1, 0.0, 0.0):
        said.append(patience.hasty)
        patience.waited(waited_s)
    assert said == [False, False, False, True, False, True, False, False]


def test_a_call_is_out_since_the_first_worker_began_it():
    out = OutSince(call_s=2.0)
    assert out.seen("7", seconds=0.4, now=10.0) == pytest.approx(0.4)
    assert out.seen("7", seconds=0.1, now=11.0) == pytest.approx(1.4)
    assert out.seen("8", seconds=0.1, now=11.0) == pytest.approx(0.1)


def test_the_next_attempts_call_is_another_one():
    out = OutSince(call_s=2.0)
    out.seen("7", seconds=0.4, now=10.0)
    out.seen("8", seconds=0.4, now=10.0)
    out.forget({"7"}, now=11.0)
    assert out.seen("7", seconds=0.1, now=11.0) == pytest.approx(0.1)
    assert out.seen("8", seconds=0.1, now=11.0) == pytest.approx(1.4)
    out.forget(set(), now=40.0)
    assert out.seen("8", seconds=0.1, now=40.0) == pytest.approx(0.1)


def test_a_call_that_is_out_is_asked_for_again_when_its_time_is_over_at_the_latest():
    out = OutSince(call_s=2.0)
    asked, seconds = [], 0.4
    while seconds < 2.0:
        asked.append(seconds)
        seconds += out.look_again_s(seconds)
    assert asked == pytest.approx([0.4, 0.8, 1.6]) and seconds == pytest.approx(2.0)
