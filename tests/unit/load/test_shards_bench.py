"""The rate of two shards together is of the time in which both decided, or there is none."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from core.layout import Layout
from load.bench.shards import _rate


def committed(layout: Layout, shard: int, commits: Sequence[tuple[int, float]]) -> None:
    """``commits``: the last seq of each, and the second at which it was there."""
    log = Path(os.fspath(layout.ledger("live", shard).journal)) / "_delta_log"
    log.mkdir(parents=True)
    for number, (seq, at) in enumerate(commits):
        entry = log / f"{number:020}.json"
        entry.write_text(json.dumps({"commitInfo": {"payhook.batch_seq": number, "payhook.seq": seq}}), "utf-8")
        os.utime(entry, (at, at))


@pytest.mark.parametrize(("began", "rate"), [(100.0, 200.0), (104.0, 200.0), (109.0, None), (111.0, None)])
def test_a_shard_that_began_late(tmp_path: Path, began: float, rate: float | None) -> None:
    layout = Layout(tmp_path)
    committed(layout, 0, [(100 * n, 100.0 + n) for n in range(1, 11)])
    committed(layout, 1, [(100 * n, began + n) for n in range(1, 11)])
    assert _rate([layout.ledger("live", shard) for shard in (0, 1)]) == rate
