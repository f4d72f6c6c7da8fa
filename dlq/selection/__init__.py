"""Dead items frozen as numbered sets, what a replay of one would do, and what became of its run."""

from dlq.frozen import Selection, SelectionBroken, SelectionUnknown
from dlq.run import RunState
from dlq.selection.dry_run import Asked, DryRun, DryRuns, Forecast, Verdict
from dlq.selection.facts import FactFinder
from dlq.selection.journal import RunLog
from dlq.selection.model import (
    ItemShown,
    Kept,
    Progress,
    Run,
    RunItemState,
    RunKept,
    RunRefused,
    SecondPersonWanted,
    SelectionEmpty,
    SelectionsFull,
    SelectionTooLarge,
)
from dlq.selection.runs import Runs
from dlq.selection.selections import Selections

__all__ = [
    "Asked",
    "DryRun",
    "DryRuns",
    "FactFinder",
    "Forecast",
    "ItemShown",
    "Kept",
    "Progress",
    "Run",
    "RunItemState",
    "RunKept",
    "RunLog",
    "RunRefused",
    "RunState",
    "Runs",
    "SecondPersonWanted",
    "Selection",
    "SelectionBroken",
    "SelectionEmpty",
    "SelectionTooLarge",
    "SelectionUnknown",
    "Selections",
    "SelectionsFull",
    "Verdict",
]
