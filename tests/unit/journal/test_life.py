"""What becomes of an item, row by row, is what reading all its rows again says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from core.decision import OPEN_DECISIONS, Decision
from journal.open_item import Life, life_after
from tests.examples import examples


class Row(NamedTuple):
    """What a life is made of."""

    decision: Decision
    blocking: bool
    conflict: bool


ROWS = st.lists(st.builds(Row, st.sampled_from(Decision), st.booleans(), st.booleans()), min_size=1, max_size=12)


def folded(rows: Sequence[Row]) -> Life[int]:
    life: Life[int] | None = None
    for at, row in enumerate(rows):
        life = life_after(life, row.decision, at, blocking=row.blocking, conflict=row.conflict)
    assert life is not None
    return life


def read_again(rows: Sequence[Row]) -> Life[int]:
    """By looking for each answer in all rows."""
    is_open = [row.decision in OPEN_DECISIONS for row in rows]
    opened = max((at for at in range(len(rows)) if is_open[at] and (at == 0 or not is_open[at - 1])), default=len(rows))
    stretch = range(opened, len(rows))
    if not is_open[-1]:
        last_open = max((at for at, yes in enumerate(is_open) if yes), default=-1)
        stretch = range(opened, last_open + 1)
    deaths = [at for at, row in enumerate(rows) if row.decision is Decision.DEAD]
    closed = None if is_open[-1] else stretch.stop if stretch else 0
    return Life(
        decision=rows[-1].decision,
        is_open=is_open[-1],
        passed_over=is_open[-1] and _passed_over(rows[opened:]),
        deaths=len(deaths),
        replays=sum(rows[at].decision is Decision.REPLAYED for at in stretch),
        first_died_at=deaths[0] if deaths else None,
        died_at=next((at for at in deaths if at in stretch), None),
        closed_at=closed,
        closed_by=None if closed is None else rows[closed].decision,
    )


def _passed_over(rows: Sequence[Row]) -> bool:
    """Of rows that leave it open: since the last one that held others back, it died, and of no conflict."""
    since = max((at + 1 for at, row in enumerate(rows) if row.blocking), default=0)
    died = [row for row in rows[since:] if row.decision is Decision.DEAD]
    return bool(died) and not died[-1].conflict


@settings(max_examples=examples(500))
@given(ROWS)
def test_the_fold_says_what_reading_all_rows_again_says(rows: list[Row]) -> None:
    assert folded(rows) == read_again(rows)


def test_an_item_that_is_taken_up_again_begins_a_new_count_and_keeps_its_first_death() -> None:
    of = [Decision.DEAD, Decision.REPLAYED, Decision.IGNORED, Decision.REPLAYED, Decision.DEAD]
    life = folded([Row(decision, blocking=False, conflict=False) for decision in of])
    assert (life.deaths, life.replays, life.first_died_at, life.died_at) == (2, 1, 0, 4)


def test_what_is_decided_of_a_closed_item_does_not_close_it_again() -> None:
    of = [Decision.DEAD, Decision.RESOLVED, Decision.REVERSED]
    life = folded([Row(decision, blocking=False, conflict=False) for decision in of])
    assert (life.closed_at, life.closed_by, life.decision) == (1, Decision.RESOLVED, Decision.REVERSED)
