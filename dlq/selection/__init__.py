"""Dead items frozen as numbered sets, what a replay of one would do, and what became of its run."""

from dlq.frozen import Selection, SelectionBroken, SelectionFiles, SelectionUnknown
from dlq.run import RunState
from dlq.selection.dry_run import DryRun, DryRuns
from dlq.selection.facts import FactFinder
from dlq.selection.forecast import Asked, Forecast, Verdict
from dlq.selection.model import (
    Approval,
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
    Started,
)
from dlq.selection.selections import Places, Selections

__all__ = [
    "Approval",
    "Asked",
    "DryRun",
    "DryRuns",
    "FactFinder",
    "Forecast",
    "ItemShown",
    "Kept",
    "Places",
    "Progress",
    "Run",
    "RunItemState",
    "RunKept",
    "RunRefused",
    "RunState",
    "SecondPersonWanted",
    "Selection",
    "SelectionBroken",
    "SelectionEmpty",
    "SelectionFiles",
    "SelectionTooLarge",
    "SelectionUnknown",
    "Selections",
    "SelectionsFull",
    "Started",
    "Verdict",
]
