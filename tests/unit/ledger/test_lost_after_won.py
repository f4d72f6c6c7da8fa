"""A dispute that is told as won and as lost: its money can't be both given back and gone, so one of them is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import pytest

from core.decision import Decision
from ledger.verify.duckdb_engine import DuckDb
from processor.decide.handlers import EARLY_UNDO
from providers import Request
from tests.unit.ledger.delivered import PROMISES, Ledger, ProviderRequest
from tests.unit.ledger.verify.ledgers import name_rows, offenders
from tests.unit.providers.samples import braintree, checkout, razorpay, square
from tests.unit.providers.shapes import changed


def at_square(state: str) -> bytes:
    return changed(square.dispute("dispute.state.updated", state), "event_id", to=f"e-{state}")


OPENED_WON_LOST: dict[str, Sequence[bytes]] = {
    "checkout": [checkout.dispute(), checkout.dispute("dispute_won"), checkout.dispute("dispute_arbitration_lost")],
    "square": [at_square("EVIDENCE_REQUIRED"), at_square("WON"), at_square("LOST")],
    "razorpay": [razorpay.dispute(one) for one in ("created", "won", "lost")],
}
AT_BRAINTREE = [braintree.dispute(), braintree.dispute("won", amount_won="12.50"), braintree.dispute("lost")]
CASES = [
    *(
        (name, [ProviderRequest(name, Request(body, ())) for body in bodies])
        for name, bodies in OPENED_WON_LOST.items()
    ),
    ("braintree", [ProviderRequest("braintree", braintree.posted(body)) for body in AT_BRAINTREE]),
]


@pytest.mark.row("G2")
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("is_opening_told", [True, False])
@pytest.mark.parametrize("told", [pytest.param(told, id=provider) for provider, told in CASES])
def test_what_contradicts_the_end_of_a_dispute_is_unknown_and_books_nothing(
    tmp_path: Path, duckdb: DuckDb, told: Sequence[ProviderRequest], is_opening_told: bool, times: int
) -> None:
    for number, order in enumerate(permutations(told if is_opening_told else told[1:])):
        ledger = Ledger(tmp_path / str(number), {})
        for one in [*order] * times:
            ledger.deliver(one)
        ledger.index.close()
        came = [(row.event_key, row.decision.value, row.reason) for row in ledger.journal.rows]
        unknown = [row for row in ledger.journal.rows if row.decision is Decision.UNKNOWN]
        assert unknown, came
        assert {row.error_code for row in unknown} == {EARLY_UNDO}
        holds = {account.rpartition(":")[2]: minor for account, minor in ledger.balances().items() if minor}
        taken = -holds.get("dispute_losses", 0)
        assert holds == ({"clearing": taken, "dispute_losses": -taken} if taken else {}), came
    name_rows(duckdb, ledger.journal.rows)
    assert offenders(duckdb, *PROMISES) == []
