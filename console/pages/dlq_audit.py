"""``/dlq/audit``: what people did and were refused, the newest first."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response

from console.access import Role, require
from console.forms import Fields
from console.pages.place import DlqPlace
from dlq.acts import Acts

PER_PAGE = 50
NUMBER_MAX = 2**62


def add_audit(router: APIRouter, place: DlqPlace, acts: Acts) -> None:
    @router.get("/dlq/audit", dependencies=[Depends(require(Role.VIEWER))])
    async def audit(request: Request) -> Response:
        before = Fields(request.query_params).number("before", 1, NUMBER_MAX)
        found = await place.asking.ask(acts.read, PER_PAGE, before)
        older = found[-1].number if len(found) == PER_PAGE and found[-1].number > 1 else None
        return place.show(request, "dlq/audit.html", acts=found, before=before, older=older)
