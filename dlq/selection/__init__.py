"""Dead items frozen as numbered sets, what a replay of one would do, and its run."""

from dlq.selection.dry_run import DryRun, DryRuns
from dlq.selection.errors import (
    RunRefused,
    SecondPersonWanted,
    SelectionBroken,
    SelectionEmpty,
    SelectionsFull,
    SelectionTooLarge,
    SelectionUnknown,
)
from dlq.selection.facts import FactFinder
from dlq.selection.file import SelectionFile
from dlq.selection.forecast import Asked, Forecast, Verdict
from dlq.selection.live import StatusLoad
from dlq.selection.model import (
    ENDED,
    ON_THEIR_WAY,
    Approval,
    ItemShown,
    Kept,
    Progress,
    Run,
    RunItemState,
    RunKept,
    RunState,
    Selection,
    Started,
)
from dlq.selection.outcomes import Outcomes
from dlq.selection.runner import Runner
from dlq.selection.selections import Selections
from dlq.settings import SelectionSettings

__all__ = [
    "ENDED",
    "ON_THEIR_WAY",
    "Approval",
    "Asked",
    "DryRun",
    "DryRuns",
    "FactFinder",
    "Forecast",
    "ItemShown",
    "Kept",
    "Outcomes",
    "Progress",
    "Run",
    "RunItemState",
    "RunKept",
    "RunRefused",
    "RunState",
    "Runner",
    "SecondPersonWanted",
    "Selection",
    "SelectionBroken",
    "SelectionEmpty",
    "SelectionFile",
    "SelectionSettings",
    "SelectionTooLarge",
    "SelectionUnknown",
    "Selections",
    "SelectionsFull",
    "Started",
    "StatusLoad",
    "Verdict",
]
