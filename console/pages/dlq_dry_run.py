"""``/dlq/selections/N/dry-run``: what a replay would do with each item of a selection; nothing is sent."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response

from console.access import Role, require
from console.forms import Fields
from console.pages.dlq_selections import MODES_TOLD, NUMBER_MAX
from console.pages.place import DlqPlace
from dlq.command import REPLAY, ReplayMode
from dlq.selection import Run, Verdict

PER_PAGE = 100
VERDICTS = tuple(verdict.value for verdict in Verdict)
RUNS_TOLD = {
    "in_place": "runs before every later event of its entity",
    "behind": "runs behind what was applied since",
    "poison": "its bytes are read again",
    "held": "waits behind another dead event",
    "moved": "refused: it moved on since",
    "done": "ended since: nothing is to be done",
    "conflict": "refused, or dies again: its key or its fact is held",
    "no_body": "can't run: its bytes aren't kept",
    "loop": "refused by the loop guard",
    "refused": "the mode isn't for it",
}


def add_dry_run(router: APIRouter, place: DlqPlace) -> None:
    @router.get("/dlq/selections/{number}/dry-run", dependencies=[Depends(require(Role.VIEWER))])
    async def dry_run(request: Request, number: int) -> Response:
        """Made again for the first page; later pages and single verdicts are of the same one."""
        fields, stream = Fields(request.query_params), place.stream(request)
        mode = fields.choice("run_mode", tuple(MODES_TOLD)) or ReplayMode.ALONE.value
        in_place, force = (fields.text(name) is not None for name in ("in_place", "force"))
        only, after = fields.choice("verdict", VERDICTS), fields.number("after", 0, NUMBER_MAX)
        run = Run(REPLAY, "dry run", ReplayMode(mode), None, in_place, force)
        made = await place.asking.ask(stream.dead.dry_runs.kept, number)
        if made is None or (only is None and after is None):
            made = await place.asking.ask(stream.dead.dry_runs.make, number, stream.dead.asked(run))
        verdicts = None if only is None else [Verdict(only)]
        found = await place.asking.ask(stream.dead.dry_runs.page, number, verdicts, after or 0, PER_PAGE + 1)
        context = {
            "kept": await place.asking.ask(stream.selections.get, number),
            "made": made,
            "shown": found[:PER_PAGE],
            "more": len(found) > PER_PAGE,
            "only": only,
            "fields": fields,
            "modes_told": MODES_TOLD,
            "runs_told": RUNS_TOLD,
        }
        return place.show(request, "dlq/dry_run.html", **context)
