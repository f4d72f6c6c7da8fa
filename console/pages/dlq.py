"""``/dlq`` and ``/dlq/items/N``: the list of dead items by a filter, and one item with its whole context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import APIRouter, Depends, Request, Response

from console.access.roles import Role, User
from console.access.routes import require_role
from console.details import item_details, trace_of, tries_of
from console.forms import Fields
from console.pages.place import DlqPlace, PageStream, Viewer
from console.rendering import render_page
from console.waits import wait_of
from core import moments
from core.clock import to_rfc3339
from core.decision import ErrorKind
from core.log import TRACEPARENT
from dead_letters.item import ItemState, Mark
from dead_letters.listing import TEXT_CHARS_MAX, Filter, FilterInvalid, Sort
from dead_letters.payload import Payload
from dead_letters.story import ItemStory
from journal.target import ItemTarget
from operations.command import CommandInvalid, target_of_text

PER_PAGE = 50
GROUPS_MAX = 100
ITEM_MAX = 2**63 - 1
TRIES_SHOWN = 12
RAW_BYTES_MAX = 4_096
_BYTES_PER_LINE = 32


OPTIONS = {
    "kinds": tuple(kind.value for kind in ErrorKind),
    "states": tuple(state.value for state in ItemState if state is not ItemState.SETTLED),
    "marks": tuple(mark.value for mark in Mark),
    "sorts": tuple(sort.value for sort in Sort),
}
"""The values that a filter's fields may have."""


@dataclass(frozen=True, slots=True)
class ListRequest:
    wanted: Filter
    sort: Sort
    cursor: str | None


def read_filter(fields: Fields) -> ListRequest:
    wanted = Filter(
        kinds=tuple(ErrorKind(kind) for kind in fields.choices("kind", OPTIONS["kinds"])),
        classes=fields.choices("class"),
        providers=fields.choices("provider"),
        types=fields.choices("type"),
        entity=fields.text("entity"),
        since=fields.read("from", moments.parse_since),
        until=fields.read("to", moments.parse_until),
        text=fields.text("text", TEXT_CHARS_MAX),
        fingerprint=fields.text("cause", 64),
        states=tuple(ItemState(state) for state in fields.choices("state", OPTIONS["states"])) or (ItemState.OPEN,),
        marks=tuple(Mark(mark) for mark in fields.choices("mark", OPTIONS["marks"])),
    )
    return ListRequest(
        wanted, Sort(fields.read_choice("sort", OPTIONS["sorts"]) or Sort.OLDEST), fields.text("after", 100)
    )


def marked_items(fields: Fields) -> list[ItemTarget]:
    try:
        seen = {target.item_seq: target for target in map(target_of_text, fields.list_values("item"))}
        Filter(items=tuple(seen))
    except (CommandInvalid, FilterInvalid) as wrong:
        fields.add_problem("item", str(wrong))
        return []
    return list(seen.values())


def query_of(wanted: Filter) -> Mapping[str, object]:
    return {
        "kind": [kind.value for kind in wanted.kinds],
        "class": list(wanted.classes),
        "provider": list(wanted.providers),
        "type": list(wanted.types),
        "entity": wanted.entity,
        "from": to_rfc3339(wanted.since) if wanted.since else None,
        "to": to_rfc3339(wanted.until) if wanted.until else None,
        "text": wanted.text,
        "cause": wanted.fingerprint,
        "state": [] if wanted.states == (ItemState.OPEN,) else [state.value for state in wanted.states],
        "mark": [mark.value for mark in wanted.marks],
    }


@dataclass(frozen=True, slots=True)
class ShownPayload:
    pretty: str | None
    raw: str | None
    is_hex: bool


def show_payload(payload: Payload) -> ShownPayload:
    raw = payload.raw
    if raw is None:
        return ShownPayload(None, None, False)
    try:
        return ShownPayload(payload.pretty, raw.decode("utf-8"), False)
    except UnicodeDecodeError:
        first_bytes = raw[:RAW_BYTES_MAX]
        lines = (first_bytes[begin : begin + _BYTES_PER_LINE] for begin in range(0, len(first_bytes), _BYTES_PER_LINE))
        return ShownPayload(None, "\n".join(line.hex(" ") for line in lines), True)


def add_list(router: APIRouter, place: DlqPlace) -> None:
    @router.get("/dlq", dependencies=[Depends(require_role(Role.VIEWER))])
    async def dlq(request: Request) -> Response:
        fields, stream = Fields(request.query_params), place.stream(request)
        looked, grouped = read_filter(fields), fields.read_choice("view", ("groups", "items")) != "items"
        query = query_of(looked.wanted)
        context = {"fields": fields, "looked": looked, "query": query, "options": OPTIONS, "grouped": grouped}
        if fields.problems:
            return place.show(request, "dlq/list.html", 422, page=None, groups=None, **context)
        if grouped:
            groups = await place.ask(stream, stream.index.groups, looked.wanted, GROUPS_MAX)
            rates = await place.ask(stream, stream.index.read_rates, looked.wanted)
            return place.show(request, "dlq/list.html", page=None, groups=groups, rates=rates, **context)
        try:
            page = await place.ask(stream, stream.index.page, looked.wanted, looked.cursor, PER_PAGE, looked.sort)
        except FilterInvalid as wrong:
            fields.add_problem("after", str(wrong))
            return place.show(request, "dlq/list.html", 422, page=None, groups=None, **context)
        return place.show(request, "dlq/list.html", page=page, groups=None, **context)


def add_item(router: APIRouter, place: DlqPlace) -> None:
    async def story_of(stream: PageStream, item_seq: int, user: User) -> ItemStory:
        return await place.ask(stream, stream.dead.item, min(max(item_seq, 0), ITEM_MAX), user.name)

    @router.get("/dlq/items/{item_seq}")
    async def item(request: Request, item_seq: int, user: Viewer) -> Response:
        stream = place.stream(request)
        story = await story_of(stream, item_seq, user)
        wait = await place.asking.ask(wait_of, stream.files, story.item, place.clock.now())
        tries = tries_of(story)
        context = {"details_known": item_details(story, wait), "tries": tries[-TRIES_SHOWN:], "tries_total": len(tries)}
        trace = trace_of(story.headers.get(TRACEPARENT))
        context |= {"trace": trace if trace.text else None, "shown": show_payload(story.payload)}
        return place.show(request, "dlq/item.html", story=story, item=story.item, **context)

    @router.get("/dlq/items/{item_seq}/payload")
    async def payload(request: Request, item_seq: int, user: Viewer) -> Response:
        """Returns the exact bytes, as a file: a browser never shows them as a page."""
        stream = place.stream(request)
        payload = (await story_of(stream, item_seq, user)).payload
        if payload.raw is None:
            return render_page(request, "refused.html", 404, title="The payload isn't available", detail=payload.note)
        name = f"{stream.name}-{item_seq}.bin"
        headers = {"content-disposition": f'attachment; filename="{name}"', "x-content-type-options": "nosniff"}
        return Response(payload.raw, media_type="application/octet-stream", headers=headers)
