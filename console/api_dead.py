"""The API's reading of dead items: lists, one item, statistics, groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, create_model

from console.access.roles import Role
from console.access.routes import require_role, signed_in
from console.api_routes import StrictRoute, problem_responses
from console.as_json import item_story, to_json_value
from console.dead_letters import StreamDeadLetters, Streams, StreamWanted
from console.formats import KINDS_EXPLAINED
from core.decision import ErrorKind
from dead_letters.item import ItemState, Mark
from dead_letters.listing import PAGE_MAX, Filter, Page, Sort
from dead_letters.stats import Group, Stats
from dead_letters.story import ItemStory
from operations.command import SEQ_MAX

LISTED_MAX = 100
TEXT_CHARS_MAX = 200

Words = Annotated[list[Annotated[str, Field(min_length=1, max_length=TEXT_CHARS_MAX)]], Field(max_length=LISTED_MAX)]
Number = Annotated[int, Path(ge=1, le=SEQ_MAX)]


class FilterAsked(BaseModel):
    """Selects items. Of several values in one field any will do; a field without a value leaves nothing out."""

    model_config = ConfigDict(extra="forbid")

    kinds: list[ErrorKind] = Field([], max_length=10, description=KINDS_EXPLAINED)
    classes: Words = Field([], description="the error's class", examples=[["MerchantUnknown"]])
    providers: Words = Field([], examples=[["stripe"]])
    types: Words = Field([], description="the event's type")
    entity: str | None = Field(None, min_length=1, max_length=1_000, description="a whole entity key")
    since: AwareDatetime | None = Field(None, description="dead since then, or later")
    until: AwareDatetime | None = Field(None, description="dead since before then")
    text: str | None = Field(None, max_length=TEXT_CHARS_MAX, description="a part of a key, the class or the message")
    fingerprint: str | None = Field(None, min_length=1, max_length=TEXT_CHARS_MAX, description="of a group")
    states: list[ItemState] = Field([ItemState.OPEN], max_length=10, description="open: dead, waits for a person")
    marks: list[Mark] = Field([], max_length=10)
    accounts: Words = Field([])
    tenants: Words = Field([])
    receiver: str | None = Field(None, min_length=1, max_length=60, description="the subscriber, in a notify stream")
    items: list[Annotated[int, Field(ge=1, le=SEQ_MAX)]] = Field([], max_length=1_000, description="items' numbers")

    def filter(self) -> Filter:
        fields: dict[str, Any] = {name: getattr(self, name) for name in FilterAsked.model_fields}
        fields |= {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
        return Filter(**fields)


class WithStream(FilterAsked):
    """A filter in a query."""

    stream: StreamWanted = "ledger"


class ListAsked(WithStream):
    """A page of a list."""

    cursor: str | None = Field(None, max_length=100)
    limit: int = Field(50, ge=1, le=PAGE_MAX)
    sort: Sort = Sort.OLDEST


_STORY = {
    **{name: (kind, ...) for name, kind in get_type_hints(ItemStory).items() if name != "payload"},
    **dict.fromkeys(("body_base64", "body_pretty", "body_source"), (str | None, ...)),
    "body_note": (str, ...),
}
StoryDescribed = create_model("ItemStory", __doc__=item_story.__doc__, **_STORY)  # type: ignore[call-overload]
"""For the description alone: `console.as_json` makes the answer."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Items by their error's fingerprint, the largest group first."""

    groups: list[Group]


def dead_item_routes(streams: Streams) -> APIRouter:
    router = APIRouter(prefix="/dlq", route_class=StrictRoute, dependencies=[Depends(require_role(Role.VIEWER))])
    refusals = problem_responses(401, 403, 404, 422, 503)

    async def read(stream: str, question: Callable[[StreamDeadLetters], Any]) -> Response:
        dead = streams.find_stream(stream)

        def follow_and_ask() -> Response:
            dead.index.follow()
            return JSONResponse(to_json_value(question(dead)))

        return await asyncio.to_thread(follow_and_ask)

    @router.get("/items", summary="List dead items", responses=refusals, response_model=Page)
    async def items(asked: Annotated[ListAsked, Query()]) -> Response:
        """Lists dead items, a page at a time; ``cursor`` is ``next`` of the page before."""
        page = (asked.filter(), asked.cursor, asked.limit, asked.sort)
        return await read(asked.stream, lambda dead: dead.index.page(*page))

    @router.get("/items/{item_seq}", summary="Show a dead item", responses=refusals, response_model=StoryDescribed)
    async def item(item_seq: Number, request: Request, stream: StreamWanted = "ledger") -> Response:
        """Shows one item: decisions, attempts, errors, bytes, its entity's other events.

        The audit log records who read its bytes.
        """
        actor = signed_in(request).name
        return await read(stream, lambda dead: dead.item(item_seq, actor))

    @router.get("/stats", summary="Show how much is dead", responses=refusals, response_model=Stats)
    async def stats(asked: Annotated[WithStream, Query()]) -> Response:
        """Counts the items: how many, how old, of which kind, how fast they come and go."""
        return await read(asked.stream, lambda dead: dead.index.stats(asked.filter()))

    @router.get("/groups", summary="List dead items by cause", responses=refusals, response_model=Groups)
    async def groups(asked: Annotated[WithStream, Query()]) -> Response:
        """Items by their error's fingerprint: 3,000 of one cause are one line."""
        return await read(asked.stream, lambda dead: Groups(dead.index.groups(asked.filter())))

    return router
