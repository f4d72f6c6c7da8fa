"""Within a batch: who holds the rest of its entity back, and who was passed over dead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.decision import ErrorKind
from core.work import Applied, Held, Ignored, Outcome, Unknown, WorkItem
from processor.errors.classify import Failure
from processor.workers.outcomes import holds_back, is_passed_dead

ITEM = WorkItem(1, "key-1", "entity", "stripe", "acct", "type", b"{}", None, 0)
LAST = replace(ITEM, last_try=(ErrorKind.SLE, ErrorKind.SNBE))
DIED = replace(ITEM, died_before=True)


def failure(kind: ErrorKind, *, missing: bool = False) -> Failure:
    return Failure(kind, "Some", None, "text", "", missing_predecessor=missing)


NRE, SNBE, SLE, SBE = (failure(kind) for kind in (ErrorKind.NRE, ErrorKind.SNBE, ErrorKind.SLE, ErrorKind.SBE))
MISSING, MISSING_NRE = failure(ErrorKind.SNBE, missing=True), failure(ErrorKind.NRE, missing=True)


@pytest.mark.parametrize(
    ("item", "result", "on_continue", "on_wait", "passed_dead"),
    [
        (ITEM, Applied(), False, False, False),
        (ITEM, Ignored("nobody"), False, False, False),
        (ITEM, Unknown("type", "no table knows it"), False, False, False),
        (DIED, Applied(), False, False, False),
        (ITEM, Held("merchants", 1.0), True, True, False),
        (ITEM, NRE, False, True, True),
        (ITEM, SNBE, True, True, False),
        (ITEM, SLE, True, True, False),
        (LAST, SNBE, False, True, True),
        (LAST, SLE, False, True, True),
        (LAST, SBE, True, True, False),
        (ITEM, MISSING, False, False, False),
        (ITEM, MISSING_NRE, False, False, True),
        (LAST, MISSING, False, False, True),
        (DIED, MISSING, False, False, True),
    ],
)
def test_who_holds_back_and_who_is_passed_over_dead(
    item: WorkItem, result: Outcome | Failure, on_continue: bool, on_wait: bool, passed_dead: bool
) -> None:
    assert holds_back(item, result, stop_on_dead=False) == on_continue
    assert holds_back(item, result, stop_on_dead=True) == on_wait
    assert is_passed_dead(item, result) == passed_dead
