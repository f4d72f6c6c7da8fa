"""Runs of offsets that follow one another: a partition whose offsets are all there has one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Run = tuple[int, int]
"""First offset, and the one after the last."""

RUNS_MAX = 10_000
"""Of one partition in one portion: a journal that is in order has a few."""

Runs = dict[tuple[str, int], list[Run]]


def runs_of(topic: pa.Array, partition: np.ndarray, offset: np.ndarray) -> tuple[Runs, bool]:
    """The runs by topic and partition, and whether each partition's offsets rise from row to row. An offset that is
    there twice ends a run, and begins another at itself."""
    topics = topic.dictionary_encode()
    place = topics.indices.to_numpy().astype("i8") << 32 | partition.astype("i8")
    order = np.argsort(_numbered(place), kind="stable")
    rises = not (np.diff(offset[order])[np.diff(place[order]) == 0] < 0).any()
    if not rises:
        order = np.lexsort((offset, place))
    place, offset = place[order], offset[order]
    begins = np.flatnonzero(np.concatenate([[True], (place[1:] != place[:-1]) | (offset[1:] != offset[:-1] + 1)]))
    ends = np.append(begins[1:], len(offset)) - 1
    names = topics.dictionary.to_pylist()
    found: Runs = {}
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        where = (names[int(place[begin]) >> 32], int(place[begin]) & 0xFFFFFFFF)
        found.setdefault(where, []).append((int(offset[begin]), int(offset[end]) + 1))
    return found, rises


def all_runs(rows: pa.RecordBatch) -> tuple[Runs, bool]:
    """As `runs_of`, of first rows, each topic's histories by themselves (`journal.histories.life_of`)."""
    lives = rows["topic"].cast(pa.string())
    if "history" in rows.schema.names:
        later = pc.binary_join_element_wise(lives, rows["history"].cast(pa.string()), "#")
        lives = pc.coalesce(later, lives)
    partition, offset = rows["partition"].to_numpy(), rows["offset"].to_numpy()
    if "offset_until" not in rows.schema.names:
        return runs_of(lives, partition, offset)
    until = rows["offset_until"]
    single = until.is_null().to_numpy(zero_copy_only=False)
    _, rises = runs_of(lives, partition, offset)
    found: list[Runs] = []
    if single.any():
        found.append(runs_of(lives.filter(pa.array(single)), partition[single], offset[single])[0])
    for at in np.flatnonzero(~single).tolist():
        where = (lives[at].as_py(), int(partition[at]))
        found.append({where: [(int(offset[at]), until[at].as_py())]})
    return joined(found), rises


def _numbered(place: np.ndarray) -> np.ndarray:
    """Small numbers in the same order: those of 16 bits are sorted at once."""
    return np.searchsorted(np.unique(place), place).astype("u2")


def joined(several: Iterable[Runs]) -> Runs:
    """The runs of several portions; those that meet are one, those that overlap stay two."""
    found: Runs = {}
    for runs in several:
        for where, some in runs.items():
            found.setdefault(where, []).extend(some)
    return {where: _joined(some) for where, some in found.items()}


def follow(later: Runs, earlier: Runs) -> bool:
    """Whether in no partition offsets of later rows come before those of earlier ones."""
    return all(some[0][0] >= earlier[where][-1][1] for where, some in later.items() if where in earlier)


def too_many(runs: Runs) -> bool:
    return any(len(some) > RUNS_MAX for some in runs.values())


def _joined(some: Sequence[Run]) -> list[Run]:
    found: list[Run] = []
    for low, high in sorted(some):
        if found and found[-1][1] == low:
            found[-1] = (found[-1][0], high)
        else:
            found.append((low, high))
    return found
