"""What selections and their runs refuse, each with what to do."""

from __future__ import annotations

from core.errors import PayhookError
from dlq.selection.model import Selection


class SelectionUnknown(PayhookError):
    """No selection has this number."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"there is no selection s{number}; `payhook dlq selections` lists those that are kept")


class SelectionEmpty(PayhookError):
    """The filter matches nothing that is dead."""

    def __init__(self) -> None:
        super().__init__("nothing that is dead matches; nothing was frozen")


class SelectionTooLarge(PayhookError):
    """More items match than one selection takes."""

    def __init__(self, items_max: int) -> None:
        self.items_max = items_max
        super().__init__(f"more than {items_max:,} items match; narrow the filter, such as by time or by provider")


class SelectionBroken(PayhookError):
    """The kept pairs aren't those that were frozen."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(
            f"selection s{number} isn't what was frozen (its digest differs); nothing is sent: select anew"
        )


class SelectionsFull(PayhookError):
    """All that are kept are still under way."""

    def __init__(self, kept: int) -> None:
        self.kept = kept
        super().__init__(f"{kept} selections are kept and each has an unfinished run; let one end, or cancel it")


class RunRefused(PayhookError):
    """A run isn't begun, or not changed. ``number`` is its selection's."""

    def __init__(self, number: int, problem: str) -> None:
        self.number = number
        self.problem = problem
        super().__init__(f"selection s{number}: {problem}")


class SecondPersonWanted(RunRefused):
    """Who proposed a run can't approve it, nor can ``like``: one person could act as both."""

    def __init__(self, number: int, actor: str, like: str | None = None) -> None:
        self.actor = actor
        self.like = like
        told = f"{actor} proposed it, so another person approves it"
        if like is not None:
            told += (
                f", and {like} may be the same: one of them gave the other a password. Somebody else approves it, or "
                "it is proposed again after `payhook users password` on the machine"
            )
        super().__init__(number, told)

    def __reduce__(self) -> tuple[type[SecondPersonWanted], tuple[int, str, str | None]]:
        return SecondPersonWanted, (self.number, self.actor, self.like)


def restored_since(selection: Selection, lineage: str) -> str | None:
    """Why nothing is done with a selection: it was frozen before the journal was restored. None: it wasn't.

    ``lineage``: the journal's; empty where it isn't known, and then the processor decides.
    """
    if lineage in ("", selection.lineage):
        return None
    return "the journal was restored since it was frozen: freeze again what you then see"


def check_lineage(selection: Selection, lineage: str) -> None:
    """
    :raises RunRefused: it was frozen before the journal was restored
    """
    if (why := restored_since(selection, lineage)) is not None:
        raise RunRefused(selection.number, why)
