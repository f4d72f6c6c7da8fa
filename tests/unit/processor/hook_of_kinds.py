"""A stream's hook, as `test_error_rules` names it."""

from __future__ import annotations

from core.decision import ErrorKind
from core.work import WorkItem

NOT_A_FUNCTION = "SNBE"


class Odd(Exception):
    """The hook has a bug with this one."""


def decide(error: BaseException, item: WorkItem | None) -> ErrorKind | str | None:
    if isinstance(error, Odd):
        raise KeyError("the hook's own bug")
    if "no such kind" in str(error):
        return "XYZ"
    if item is not None and item.provider == "slow":
        return ErrorKind.SNBE
    return "SBE" if "all of it" in str(error) else None
