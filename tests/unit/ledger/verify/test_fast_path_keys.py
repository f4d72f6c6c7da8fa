"""Keys and offsets are cleared as one that counts them one by one would clear them, whatever is sorted first."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from core.keys import hash16
from ledger.verify.fast_path.hashes import COPY, HELD, KEY, TOOK, is_doubtful, key_hashes, shares
from ledger.verify.fast_path.offsets import Run, runs_of

ROLES = (0, HELD, TOOK | HELD, COPY)

entries = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.sampled_from(ROLES)), max_size=12)


def _doubted(some: list[tuple[int, int, int]], *, whole: bool) -> bool:
    """Key by key, as the sentence of the invariant says it."""
    by_key: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for key, at, role in some:
        by_key[key].append((at, role))
    return any(_is_doubtful(rows, whole=whole) for rows in by_key.values())


def _is_doubtful(rows: list[tuple[int, int]], *, whole: bool) -> bool:
    took = sum(1 for _, role in rows if role & TOOK)
    held = [at for at, role in rows if role & HELD]
    copies = [at for at, role in rows if role & COPY]
    early = bool(held and copies) and min(copies) < min(held)
    return took > 1 or len(held) > 1 or early or (whole and not held)


@given(entries, st.booleans(), st.integers(0, 12))
@example([(1, 0, TOOK | HELD), (1, 0, TOOK | HELD)], True, 1)
@example([(1, 0, COPY)], False, 0)
@example([(1, 0, COPY)], True, 0)
def test_keys_are_doubted_that_counting_doubts(some: list[tuple[int, int, int]], whole: bool, cut: int) -> None:
    parts = [np.array(part, KEY) for part in (some[:cut], some[cut:])]
    assert is_doubtful(parts, whole=whole) == _doubted(some, whole=whole)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=30), st.integers(1, 7))
def test_what_belongs_together_comes_into_one_bucket_in_its_order(numbers: list[int], count: int) -> None:
    found = np.array(numbers, "u8")
    split = shares(found, found, count)
    assert [one.tolist() for one in split] == [
        [number for number in numbers if number % count == bucket] for bucket in range(count)
    ]


@given(st.lists(st.text(max_size=5), max_size=6), st.integers(0, 3))
def test_keys_are_hashed_as_the_index_does(keys: list[str], since: int) -> None:
    hashed = key_hashes(pa.array(keys, pa.string()).slice(since))
    assert [one.tobytes() for one in hashed] == [hash16(key) for key in keys[since:]]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 6)), max_size=14))
def test_runs_are_the_offsets_that_follow_one_another(rows: list[tuple[str, int, int]]) -> None:
    topics = pa.array([topic for topic, _, _ in rows], pa.string())
    partitions, offsets = (np.array([row[at] for row in rows], "i8") for at in (1, 2))
    found, rises = runs_of(topics, partitions, offsets) if rows else ({}, True)
    assert found == _runs(rows)
    by_place: dict[tuple[str, int], list[int]] = {}
    for topic, partition, offset in rows:
        by_place.setdefault((topic, partition), []).append(offset)
    assert rises == all(some == sorted(some) for some in by_place.values())


def _runs(rows: list[tuple[str, int, int]]) -> dict[tuple[str, int], list[Run]]:
    found: dict[tuple[str, int], list[Run]] = {}
    for topic, partition, offset in sorted(rows):
        runs = found.setdefault((topic, partition), [])
        if runs and runs[-1][1] == offset:
            runs[-1] = (runs[-1][0], offset + 1)
        else:
            runs.append((offset, offset + 1))
    return found
