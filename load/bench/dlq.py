"""How long an operator waits for the DLQ's list, statistics and a frozen selection, with a million open items; and how
fast a selection is replayed (`load.bench.dlq_replay`).

``python -m load.bench.dlq --data DIR --items 50000`` is the former with fewer.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from core.clock import ManualClock
from core.decision import ErrorKind
from core.layout import Layout
from dlq.board import Board, Filter, Sort
from dlq.frozen import Frozen, Selection, SelectionFiles
from dlq.selection.freeze import gather
from load.bench.dead_items import PER_HOUR, PROVIDERS, make_dead_items
from load.bench.dlq_replay import REPLAY_SECONDS, REPLAY_SECONDS_SHORT, measure_replay
from load.bench.figures import is_short
from load.bench.history import FIRST_AT

DLQ_SECONDS = 420.0 + REPLAY_SECONDS
DLQ_SECONDS_SHORT = 60.0 + REPLAY_SECONDS_SHORT
ITEMS, ITEMS_SHORT = 1_000_000, 50_000
FROZEN = 100_000
ASKED = 5
STREAM = "ledger"
LISTS = (
    Filter(),
    Filter(providers=PROVIDERS[1:2]),
    Filter(kinds=(ErrorKind.SLE,)),
    Filter(classes=("Failed_a", "Failed_c"), types=("payout.paid",)),
)
"""What operators list first; each by age, oldest and newest first. The slowest of them counts."""


def measure_dlq(folder: Path, console: Console) -> dict[str, float]:
    """The board's figures, then the replay's."""
    return measure_board(folder, console) | measure_replay(folder / "replay", console)


def measure_board(folder: Path, console: Console, items: int | None = None) -> dict[str, float]:
    """Milliseconds of a first page with its count, the slowest of `LISTS`; seconds of all statistics, and of freezing
    100,000 items into a file of their own; rows a second of a board that is made anew. Medians, the file's opening
    included.
    """
    count = items or (ITEMS_SHORT if is_short() else ITEMS)
    places = Layout(folder / f"dead-{count}").stream(STREAM)
    shutil.rmtree(places.root, ignore_errors=True)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(f"{count:,} dead items", total=count)
        make_dead_items(Path(places.journal), STREAM, count, lambda rows: progress.advance(task, rows))
    board = Board(
        places.board, places.journal, places.bodies, ManualClock(FIRST_AT + timedelta(hours=count / PER_HOUR + 1))
    )
    began = time.perf_counter()
    assert board.follow().rows == count
    follow_per_s = count / (time.perf_counter() - began)
    console.print(f"followed at {follow_per_s:,.0f} rows/s, {_bytes(places.board) / count:,.0f} bytes an item")
    list_ms = max(
        1_000 * _median_s(_page(board, wanted, sort)) for wanted in LISTS for sort in (Sort.OLDEST, Sort.NEWEST)
    )
    stats_s = max(_median_s(_figures(board, wanted)) for wanted in LISTS)
    freeze_s = _median_s(lambda: _freeze(board, SelectionFiles(folder / "frozen"), count))
    again_ms = 1_000 * _median_s(board.follow)
    console.print(
        f"a first page of {count:,}: {list_ms:.0f} ms; statistics and groups: {stats_s:.2f} s; "
        f"freezing {min(FROZEN, count):,}: {freeze_s:.2f} s; following where nothing is new: {again_ms:.0f} ms"
    )
    return {
        "dlq.list_ms_1m": list_ms,
        "dlq.stats_s_1m": stats_s,
        "dlq.freeze_s_100k": freeze_s,
        "dlq.follow_per_s": follow_per_s,
    }


def _page(board: Board, wanted: Filter, sort: Sort) -> Callable[[], object]:
    def ask() -> object:
        page = board.page(wanted, sort=sort)
        assert page.items and page.total
        return page

    return ask


def _figures(board: Board, wanted: Filter) -> Callable[[], object]:
    def ask() -> object:
        figures, groups = board.stats(wanted), board.groups(wanted)
        assert figures.open == sum(group.count for group in groups)
        return figures

    return ask


def _freeze(board: Board, files: SelectionFiles, count: int) -> None:
    """About `FROZEN` items into a file of the lake."""
    first = random.Random(13).randint(0, max(0, count - FROZEN))
    since = FIRST_AT + timedelta(hours=first / PER_HOUR)
    wanted = Filter(since=since, until=since + timedelta(hours=min(FROZEN, count) / PER_HOUR))
    table = gather(board.seen(wanted), count, {}).table
    selection = Selection(STREAM, since, "bench", "", "{}", table.num_rows, count, "")
    assert files.put(Frozen(selection, table)).count >= min(FROZEN, count) - 1


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _median_s(ask: Callable[[], object]) -> float:
    took = []
    for _ in range(ASKED):
        began = time.perf_counter()
        ask()
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--data", type=Path, required=True, help="folder for everything that is made")
    wanted = parser.parse_args()
    wanted.data.mkdir(parents=True, exist_ok=True)
    console = Console()
    console.print(measure_board(wanted.data / "dlq", console, wanted.items))


if __name__ == "__main__":
    main()
