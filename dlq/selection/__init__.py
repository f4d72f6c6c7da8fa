"""Dead items frozen as numbered sets, what a replay of one would do, and what became of its run."""

from dlq.frozen import Selection, SelectionBroken, SelectionUnknown
from dlq.run import RunState
from dlq.selection.dry_run import DryRun, DryRuns, ForecastRequest, ItemForecast, Verdict
from dlq.selection.facts import FactFinder
from dlq.selection.journal import RunLog
from dlq.selection.model import (
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
from dlq.selection.runs import RunOrders
from dlq.selection.selections import Selections

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
