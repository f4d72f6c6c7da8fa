"""``/``, ``/dlq`` and ``/dlq/items/N``: the overview, the list of dead items, and one item with its whole context."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from console.access import Role, User, require
from console.forms import Fields
from console.pages import dlq_filters
from console.pages.dlq_item import shown
from console.pages.dlq_overview import overview, said
from console.pages.place import DlqPlace
from console.rendering import render
from dlq.board import FilterInvalid

PER_PAGE = 50
GROUPS_MAX = 100
ITEM_MAX = 2**63 - 1

Viewer = Annotated[User, Depends(require(Role.VIEWER))]


def add_overview(router: APIRouter, place: DlqPlace) -> None:
    @router.get("/")
    async def home(request: Request, user: Annotated[User, Depends(require(None))]) -> Response:
        if not user.may(Role.VIEWER):
            return render(request, "home.html")
        stream = place.stream(request)
        told = await place.ask(stream, overview, stream.board)
        now = place.clock.now()
        streams = [said(one.name, one.files.status, now) for one in place.streams.values()]
        return place.show(request, "dlq/overview.html", told=told, stats=told.stats, said=streams)


def add_list(router: APIRouter, place: DlqPlace) -> None:
    @router.get("/dlq", dependencies=[Depends(require(Role.VIEWER))])
    async def dlq(request: Request) -> Response:
        fields, stream = Fields(request.query_params), place.stream(request)
        looked, grouped = dlq_filters.read(fields), fields.choice("view", ("groups", "items")) != "items"
        query = dlq_filters.query(looked.wanted)
        context = {"fields": fields, "looked": looked, "query": query, "options": dlq_filters, "grouped": grouped}
        if fields.problems:
            return place.show(request, "dlq/list.html", 422, page=None, groups=None, **context)
        if grouped:
            groups = await place.ask(stream, stream.board.groups, looked.wanted, GROUPS_MAX)
            return place.show(request, "dlq/list.html", page=None, groups=groups, **context)
        try:
            page = await place.ask(stream, stream.board.page, looked.wanted, looked.cursor, PER_PAGE, looked.sort)
        except FilterInvalid as wrong:
            fields.wrong("after", str(wrong))
            return place.show(request, "dlq/list.html", 422, page=None, groups=None, **context)
        return place.show(request, "dlq/list.html", page=page, groups=None, **context)


def add_item(router: APIRouter, place: DlqPlace) -> None:
    @router.get("/dlq/items/{item_seq}")
    async def item(request: Request, item_seq: int, user: Viewer) -> Response:
        stream = place.stream(request)
        story = await place.ask(stream, stream.dead.item, min(max(item_seq, 0), ITEM_MAX), user.name)
        return place.show(request, "dlq/item.html", story=story, item=story.item, shown=shown(story))

    @router.get("/dlq/items/{item_seq}/payload")
    async def payload(request: Request, item_seq: int, user: Viewer) -> Response:
        """The exact bytes, as a file: a browser never shows them as a page."""
        stream = place.stream(request)
        story = await place.ask(stream, stream.dead.item, min(max(item_seq, 0), ITEM_MAX), user.name)
        if story.payload.raw is None:
            return render(request, "refused.html", 404, title="The payload isn't to be had", detail=story.payload.told)
        name = f"{stream.name}-{item_seq}.bin"
        headers = {"content-disposition": f'attachment; filename="{name}"', "x-content-type-options": "nosniff"}
        return Response(story.payload.raw, media_type="application/octet-stream", headers=headers)
