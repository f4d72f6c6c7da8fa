"""``/dlq`` and ``/dlq/items/N``: the list of dead items, and one item with its whole context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from console.access import Role, User, require
from console.details import item_details, tries_of
from console.forms import Fields
from console.pages import dlq_filters
from console.pages.place import DlqPlace, WorkStream
from console.rendering import render
from dlq.index import FilterInvalid, ItemStory, Payload

PER_PAGE = 50
GROUPS_MAX = 100
ITEM_MAX = 2**63 - 1
TRIES_SHOWN = 12
RAW_BYTES_MAX = 4_096
_BYTES_PER_LINE = 32

Viewer = Annotated[User, Depends(require(Role.VIEWER))]


@dataclass(frozen=True, slots=True)
class Shown:
    """The payload as text: ``pretty`` where it is JSON, ``raw`` as it came (text, or bytes in hex)."""

    pretty: str | None
    raw: str | None
    is_hex: bool


def shown(payload: Payload) -> Shown:
    raw = payload.raw
    if raw is None:
        return Shown(None, None, False)
    try:
        return Shown(payload.pretty, raw.decode("utf-8"), False)
    except UnicodeDecodeError:
        some = raw[:RAW_BYTES_MAX]
        lines = (some[at : at + _BYTES_PER_LINE] for at in range(0, len(some), _BYTES_PER_LINE))
        return Shown(None, "\n".join(line.hex(" ") for line in lines), True)


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
    async def story_of(stream: WorkStream, item_seq: int, user: User) -> ItemStory:
        return await place.ask(stream, stream.dead.item, min(max(item_seq, 0), ITEM_MAX), user.name)

    @router.get("/dlq/items/{item_seq}")
    async def item(request: Request, item_seq: int, user: Viewer) -> Response:
        story = await story_of(place.stream(request), item_seq, user)
        tries = tries_of(story)
        context = {"details_known": item_details(story), "tries": tries[-TRIES_SHOWN:], "tries_total": len(tries)}
        payload = shown(story.payload)
        return place.show(request, "dlq/item.html", story=story, item=story.item, shown=payload, **context)

    @router.get("/dlq/items/{item_seq}/payload")
    async def payload(request: Request, item_seq: int, user: Viewer) -> Response:
        """The exact bytes, as a file: a browser never shows them as a page."""
        stream = place.stream(request)
        found = (await story_of(stream, item_seq, user)).payload
        if found.raw is None:
            return render(request, "refused.html", 404, title="The payload isn't to be had", detail=found.note)
        name = f"{stream.name}-{item_seq}.bin"
        headers = {"content-disposition": f'attachment; filename="{name}"', "x-content-type-options": "nosniff"}
        return Response(found.raw, media_type="application/octet-stream", headers=headers)
