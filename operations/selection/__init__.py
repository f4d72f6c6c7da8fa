"""Dead items frozen as numbered sets, what a replay of one would do, and what became of its run."""

from operations.frozen import Selection, SelectionBroken, SelectionUnknown
from operations.run import RunState
from operations.selection.dry_run import DryRun, DryRuns, ForecastRequest, ItemForecast, Verdict
from operations.selection.facts import FactFinder
from operations.selection.journal import RunLog
from operations.selection.model import (
    ItemShown,
    KeptSelection,
    ProgressReport,
    RunItemState,
    RunKept,
    RunRefused,
    RunRequest,
    SecondPersonWanted,
    SelectionEmpty,
    SelectionsFull,
    SelectionTooLarge,
)
from operations.selection.runs import RunOrders
from operations.selection.selections import Selections

__all__ = [
    "DryRun",
    "DryRuns",
    "FactFinder",
    "ForecastRequest",
    "ItemForecast",
    "ItemShown",
    "KeptSelection",
    "ProgressReport",
    "RunItemState",
    "RunKept",
    "RunLog",
    "RunOrders",
    "RunRefused",
    "RunRequest",
    "RunState",
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
