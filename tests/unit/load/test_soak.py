"""What a soak calls growth, and whose memory it counts."""

import os
import subprocess
import sys

import psutil
import pytest

from load.memory import family, growth_mib, own_mib
from load.soak.processor import part_of


@pytest.mark.parametrize(
    ("resident", "growth"),
    [([90.0, 100, 200, 200, 200, 200, 200, 200], 0.0), ([100.0, 100, 100, 100, 110, 120, 130, 140], 35.0)],
)
def test_what_fills_caches_at_first_is_no_growth(resident: list[float], growth: float):
    assert growth_mib(resident) == growth


def test_of_a_heap_counts_what_a_collection_leaves():
    heap = [60.0, 70, 80, 90, 120, 150, 70, 100, 130, 160, 150, 180, 70, 100, 200, 160]
    assert (growth_mib(heap), growth_mib(heap, min)) == (20.0, 0.0)


def test_a_process_is_counted_with_those_below_it_and_one_that_ended_with_nothing():
    waits = "print('runs', flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", waits], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None and child.stdout.readline() == b"runs\n"
        below = psutil.Process(child.pid)
        assert below in family(os.getpid())
        assert 1 < own_mib(below) < 200
    finally:
        child.communicate(b"\n")
    assert own_mib(below) == 0.0


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["/usr/lib/jvm/bin/java", "-cp", "pyspark.jar"], "jvm"),
        (["python", "-m", "pyspark.daemon", "pyspark.worker"], "workers"),
        (["python", "-m", "stack.services.processor"], "driver"),
        (["python", "-m", "journal.checkpoints", "/lake/journal"], "checkpoints"),
        ([], "driver"),
    ],
)
def test_a_processor_has_a_driver_a_jvm_workers_and_what_makes_checkpoints(words: list[str], part: str):
    assert part_of(words) == part
