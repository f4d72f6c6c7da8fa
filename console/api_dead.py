"""The API's reading of dead items: lists, one item, statistics, groups."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import asdict, fields
from datetime import datetime
from typing import Annotated, Any, Self

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from console.access import Role, require, signed_in
from console.api_routes import StrictRoute, problems
from console.dead_letters import Streams, StreamWanted
from core.decision import ErrorKind
from dlq.board import PAGE_MAX, Filter, Group, Item, ItemState, ItemStory, Mark, Sort, Stats
from dlq.commands import SEQ_MAX

LISTED_MAX = 100
TEXT_CHARS_MAX = 200

Words = Annotated[list[Annotated[str, Field(min_length=1, max_length=TEXT_CHARS_MAX)]], Field(max_length=LISTED_MAX)]
Number = Annotated[int, Path(ge=1, le=SEQ_MAX)]


class FilterAsked(BaseModel):
    """What is wanted; of several values in one field any will do, an empty field wants nothing."""

    model_config = ConfigDict(extra="forbid")

    kinds: list[ErrorKind] = Field([], max_length=10, description="NRE, SLE, SNBE, SBE")
    classes: Words = Field([], description="the error's class", examples=[["MerchantUnknown"]])
    providers: Words = Field([], examples=[["stripe"]])
    types: Words = Field([], description="the event's type")
    entity: str | None = Field(None, max_length=1_000, description="a whole entity key")
    since: AwareDatetime | None = Field(None, description="dead since then, or later")
    until: AwareDatetime | None = Field(None, description="dead since before then")
    text: str | None = Field(None, max_length=TEXT_CHARS_MAX, description="a part of a key, the class or the message")
    fingerprint: str | None = Field(None, max_length=TEXT_CHARS_MAX, description="of a group")
    states: list[ItemState] = Field([ItemState.OPEN], max_length=10, description="open: dead, waits for a person")
    marks: list[Mark] = Field([], max_length=10)
    accounts: Words = Field([])
    tenants: Words = Field([])
    items: list[Annotated[int, Field(ge=1, le=SEQ_MAX)]] = Field([], max_length=1_000, description="items' numbers")

    def filter(self) -> Filter:
        told: dict[str, Any] = {name: getattr(self, name) for name in FilterAsked.model_fields}
        wanted: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in told.items()}
        return Filter(**wanted)


class WithStream(FilterAsked):
    """A filter in a query."""

    stream: StreamWanted = "ledger"


class ListAsked(WithStream):
    """A page of a list."""

    cursor: str | None = Field(None, max_length=100)
    limit: int = Field(50, ge=1, le=PAGE_MAX)
    sort: Sort = Sort.OLDEST


class ItemTold(BaseModel):
    """One dead or waiting item. Times are UTC, the amount is in minor units."""

    item_seq: int
    seen_seq: int = Field(description="seq of its last row: what an order names with it")
    seen_hash: str = Field(description="the beginning of that row's hash: an order names that too")
    state: ItemState
    decision: str
    attempts: int
    times_died: int
    replays: int
    kind: ErrorKind | None
    error_class: str | None
    error_code: str | None
    message: str | None
    fingerprint: str | None
    mark: Mark | None
    provider: str | None
    account: str | None
    tenant: str | None
    event_type: str | None
    event_key: str | None
    entity_key: str | None
    topic: str
    partition: int
    offset: int
    received_at: datetime | None
    since: datetime
    first_dead_at: datetime | None
    last_decided_at: datetime
    due_at: datetime | None
    closed_at: datetime | None
    cause_seq: int | None
    actor: str | None
    reason: str | None
    amount_minor: int | None
    currency: str | None

    @classmethod
    def of(cls, item: Item) -> Self:
        told = {field.name: getattr(item, field.name) for field in fields(item)}
        amount = told.pop("amount")
        money = (None, None) if amount is None else (amount.amount_minor, amount.currency)
        return cls(**told, amount_minor=money[0], currency=money[1])


class ItemsTold(BaseModel):
    """A page of items. ``next``: the cursor of the page after it."""

    items: list[ItemTold]
    next: str | None
    total: int = Field(description="of the whole filter")
    seq: int = Field(description="the journal's row up to which this goes")


class StoryTold(BaseModel):
    """One item with its whole context; rows are the journal's."""

    item: ItemTold
    rows: list[dict[str, Any]]
    rows_cut: bool = Field(description="the first and the last of more")
    attempts: list[dict[str, Any]]
    acts: list[dict[str, Any]]
    headers: dict[str, str]
    body_base64: str | None = Field(description="its exact bytes, card numbers masked; null: body_told says why")
    body_pretty: str | None
    body_told: str
    before: list[dict[str, Any]] = Field(description="events of the same entity before it")
    after: list[dict[str, Any]]
    held: list[ItemTold] = Field(description="the first of those that wait or died because of it")
    held_total: int
    alike: list[ItemTold] = Field(description="earlier ones with its fingerprint")
    alike_total: int

    @classmethod
    def of(cls, story: ItemStory) -> Self:
        raw = story.payload.raw
        return cls(
            item=ItemTold.of(story.item),
            rows=[asdict(row) for row in story.rows],
            rows_cut=story.cut,
            attempts=[asdict(one) for one in story.attempts],
            acts=[asdict(one) for one in story.acts],
            headers=story.headers,
            body_base64=None if raw is None else base64.b64encode(raw).decode("ascii"),
            body_pretty=story.payload.pretty,
            body_told=story.payload.told,
            before=[asdict(one) for one in story.before],
            after=[asdict(one) for one in story.after],
            held=[ItemTold.of(one) for one in story.held.items],
            held_total=story.held.total,
            alike=[ItemTold.of(one) for one in story.alike.items],
            alike_total=story.alike.total,
        )


class GroupsTold(BaseModel):
    """Items by their error's fingerprint, the largest group first."""

    groups: list[Group]


def routes(streams: Streams) -> APIRouter:
    """Reading, for whoever may view."""
    router = APIRouter(prefix="/dlq", route_class=StrictRoute, dependencies=[Depends(require(Role.VIEWER))])

    @router.get("/items", responses=problems(401, 403, 404, 422, 503))
    async def items(asked: Annotated[ListAsked, Query()]) -> ItemsTold:
        """Dead items, a page of them; ``cursor`` is ``next`` of the page before."""
        board = streams.of(asked.stream).board

        def read() -> ItemsTold:
            board.follow()
            page = board.page(asked.filter(), asked.cursor, asked.limit, asked.sort)
            return ItemsTold(items=list(map(ItemTold.of, page.items)), next=page.next, total=page.total, seq=page.seq)

        return await asyncio.to_thread(read)

    @router.get("/items/{item_seq}", responses=problems(401, 403, 404, 422, 503))
    async def item(item_seq: Number, request: Request, stream: StreamWanted = "ledger") -> StoryTold:
        """Everything that is known of one item: decisions, attempts, errors, bytes, its entity's other events.

        That its bytes were read is on record, with who did.
        """
        dead, actor = streams.of(stream), signed_in(request).name

        def read() -> StoryTold:
            dead.board.follow()
            return StoryTold.of(dead.item(item_seq, actor))

        return await asyncio.to_thread(read)

    @router.get("/stats", responses=problems(401, 403, 404, 422, 503))
    async def stats(asked: Annotated[WithStream, Query()]) -> Stats:
        """What the items come to: how many, how old, of which kind, how fast they come and go."""
        board = streams.of(asked.stream).board

        def read() -> Stats:
            board.follow()
            return board.stats(asked.filter())

        return await asyncio.to_thread(read)

    @router.get("/groups", responses=problems(401, 403, 404, 422, 503))
    async def groups(asked: Annotated[WithStream, Query()]) -> GroupsTold:
        """Items by their error's fingerprint: 3,000 of one cause are one line."""
        board = streams.of(asked.stream).board

        def read() -> GroupsTold:
            board.follow()
            return GroupsTold(groups=board.groups(asked.filter()))

        return await asyncio.to_thread(read)

    return router
