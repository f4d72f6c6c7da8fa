"""How far a verification is, on a terminal: a bar over the ledger's portions, and one over the invariants."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ledger.verify import Finding, Watch


class ProgressBars(Watch):
    """Two bars; rich's own lock makes them safe for several threads."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._portions = progress.add_task("the ledger, portion by portion", total=None)
        self._invariants = progress.add_task("invariants", total=None)

    def begins(self, invariants: int) -> None:
        self._progress.update(self._invariants, total=invariants)

    def looked_through(self, done: int, of: int) -> None:
        self._progress.update(self._portions, completed=done, total=of)

    def found(self, finding: Finding) -> None:
        if not finding.ok:
            self._progress.console.print(f"{finding.name} doesn't hold", style="bold red")
        self._progress.update(self._invariants, advance=1)


@contextlib.contextmanager
def watching(console: Console, *, silent: bool = False) -> Iterator[Watch]:
    """Bars for as long as the ``with`` lasts; nothing where nobody looks."""
    if silent or not console.is_terminal:
        yield Watch()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield ProgressBars(progress)
