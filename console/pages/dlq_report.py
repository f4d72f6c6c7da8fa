"""``/dlq/report``: one week of a stream's dead letters, what caused them, and what became of them."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response
from markupsafe import Markup

from console.access import Role, require
from console.forms import Fields
from console.pages.place import DlqPlace
from console.plots import Steps, bars_plot, steps_plot
from dlq.report import Week, WeeklyReport, steps, weekly
from ledger.provider_bugs import bugs_of

CAUSES_PLOTTED = 8
NAMED_MAX = 20
"""Items that are named one by one; a breach of thousands is read in the list."""


def add_report(router: APIRouter, place: DlqPlace) -> None:
    @router.get("/dlq/report", dependencies=[Depends(require(Role.VIEWER))])
    async def report(request: Request) -> Response:
        fields, now = Fields(request.query_params), place.clock.now()
        week = fields.read("week", Week.named) or Week.of(now)
        if fields.problems:
            return place.show(request, "dlq/report.html", 422, fields=fields, report=None, plots=[], week=week)
        stream = place.stream(request)
        journal = str(stream.files.journal)
        made = await place.asking.ask(weekly, stream.name, journal, week, now, bugs_of(stream.name, journal))
        context = {"report": made, "steps": steps(made), "plots": plots(made), "week": week, "named_max": NAMED_MAX}
        return place.show(request, "dlq/report.html", fields=fields, **context)


def plots(report: WeeklyReport) -> list[tuple[str, Markup]]:
    """Depth by day, and the greatest causes."""
    depths = [(depth.at, depth.items) for depth in report.depths]
    begin, most, end = report.depths[0].items, report.deepest.items, report.depths[-1].items
    words = f"{begin:,} at its beginning, {most:,} at most, {end:,} at its end."
    causes = [(cause.error_class, cause.items) for cause in report.causes[:CAUSES_PLOTTED]]
    listed = ", ".join(f"{name}: {items:,}" for name, items in causes) or "none"
    return [
        ("Dead, by day", steps_plot("Dead events in the week", words, [Steps("dead", depths)], report.until)),
        ("Items by cause", bars_plot("Items that died, by cause", listed, causes)),
    ]
