"""``/ledger/reconciliations``: what differs from providers' reports."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from console.forms import Fields
from console.pages.place import Place
from core.layout import StreamLayout
from ledger.reconciliations import KINDS, Difference, Kind, Reconciliation, Reconciliations, UnknownRun

RUNS_PER_PAGE = 50
DIFFERENCES_MAX = 50
"""Of one kind, where all kinds are shown; of one that is asked for, `OF_KIND_MAX`."""
OF_KIND_MAX = 200


@dataclass(frozen=True, slots=True)
class Kinded:
    """The differences of one kind that are shown, and how many there are."""

    kind: Kind
    explained: str
    count: int
    shown: Sequence[Difference]


def add_reports(router: APIRouter, place: Place) -> None:
    @router.get("/ledger/reconciliations")
    async def runs(request: Request) -> Response:
        page = Fields(request.query_params).number("page", 1, 1_000_000) or 1
        found = await place.asking.ask(reconciliations(place.ledger(request)).runs)
        begin = (page - 1) * RUNS_PER_PAGE
        context = {
            "runs": found[begin : begin + RUNS_PER_PAGE],
            "page": page,
            "pages": -(-len(found) // RUNS_PER_PAGE),
        }
        return place.show(request, "ledger/reconciliations.html", **context)

    @router.get("/ledger/reconciliations/{run_id}")
    async def run(request: Request, run_id: str) -> Response:
        fields = Fields(request.query_params)
        kind = fields.choice("kind", tuple(KINDS))
        try:
            head, kinds = await place.asking.ask(differing, reconciliations(place.ledger(request)), run_id, kind)
        except UnknownRun:
            return place.show(request, "ledger/unknown.html", 404, what="reconciliation", key=run_id)
        return place.show(request, "ledger/reconciliation.html", run=head, kinds=kinds, only=kind)


def reconciliations(ledger: StreamLayout) -> Reconciliations:
    """The tables of a ledger."""
    return Reconciliations(ledger.derived("reconciliation"), ledger.derived("reconciliation-runs"))


def differing(found: Reconciliations, run_id: str, only: str | None) -> tuple[Reconciliation, list[Kinded]]:
    """A run, and of each kind the first differences.

    :raises UnknownRun: there is none of that id
    """
    run = found.run(run_id)
    most = OF_KIND_MAX if only else DIFFERENCES_MAX
    kinds = []
    for kind, explained in KINDS.items():
        if run.counts[kind] and only in (None, kind):
            shown = list(itertools.islice(found.differences(run_id, kind, most), most))
            kinds.append(Kinded(kind, explained, run.counts[kind], shown))
    return run, kinds
