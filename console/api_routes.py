"""Holds what the API's routes have in common: how they read JSON, what their description says, the words for orders."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Annotated, Any, Self, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator
from starlette.exceptions import HTTPException

from console.access.roles import Role
from console.access.routes import require_role
from console.dead_letters import StreamWanted
from core import strict_json
from core.errors import Unparseable
from core.event import Mode
from core.visible import KEPT_CHARS_MAX, is_kept_text
from ingest.idempotency.request import HEADER, KEY_CHARS_MAX
from journal.schema import JournalRow
from journal.target import ItemTarget
from operations.command import HASH_PATTERN, REPLAY, SEQ_MAX, TARGETS_MAX
from operations.orders import OperatorOrder, OrderedItem, PlacedOrder

COMMAND_ID = r"^[0-9a-f]{32}$"
Route = TypeVar("Route", bound=Callable[..., Any])

_REFUSED = {
    400: "Idempotency-Key is missing or malformed, or the body isn't JSON",
    401: "not signed in: send Authorization: Bearer with a token",
    403: "the user lacks the role, or a web page from elsewhere sends it",
    404: "no such item, command, selection or stream",
    409: "it changed since you saw it, or it was started differently before; `detail` says which",
    413: "the body is too large",
    415: "the body isn't application/json",
    422: "the request isn't valid, or this key came before with another request",
    503: "Kafka, the journal or the store of keys doesn't answer: repeat it with the same key (Retry-After)",
}


class StrictRequest(Request):
    """Reads JSON as webhooks' is read: what two readers could read differently is refused."""

    async def json(self) -> Any:
        try:
            return strict_json.load_json(await self.body())
        except Unparseable as unreadable:
            raise HTTPException(400, unreadable.problem) from None


class StrictRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return handle_strictly


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemView"}}}
    return {status: {"description": _REFUSED[status], "content": content} for status in statuses}


def add_acting_route(
    routes: APIRouter | FastAPI, path: str, role: Role, status: int = 202, **described: Any
) -> Callable[[Route], Route]:
    """Adds a route that acts, once for each Idempotency-Key."""
    return routes.post(
        path,
        status_code=status,
        responses=problem_responses(400, 401, 403, 404, 409, 413, 415, 422, 503),
        openapi_extra={"parameters": [_KEY]},
        dependencies=[Depends(require_role(role))],
        **described,
    )


_KEY = {
    "name": HEADER,
    "in": "header",
    "required": True,
    "description": (
        "A new random value for each thing that you want done, such as a UUID in double quotes; the same one when "
        "a request is repeated. Known for 24 hours. See draft-ietf-httpapi-idempotency-key-header."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": KEY_CHARS_MAX + 2},
    "example": '"8e03978e-40d5-43e8-bc93-6894a57f9324"',
}


class View(BaseModel):
    """Reads an answer's fields from the attributes of the code's object."""

    model_config = ConfigDict(from_attributes=True, populate_by_name=True)

    @classmethod
    def from_object(cls, shown: object) -> Self:
        return cls.model_validate(shown)


def _check_printable(text: str) -> str:
    if not is_kept_text(text):
        raise ValueError("expected printable characters")
    return text


Text = Annotated[str, StringConstraints(min_length=1, max_length=KEPT_CHARS_MAX), AfterValidator(_check_printable)]
Seq = Annotated[int, Field(ge=1, le=SEQ_MAX)]


class ItemAsked(BaseModel):
    """Names one dead item."""

    model_config = ConfigDict(strict=True, extra="forbid")

    item_seq: Seq = Field(description="the item's number: ID in `payhook dlq list`")
    seen_seq: Seq = Field(
        description="seq of the item's last row as you saw it; if that isn't the last one any more, nothing is done"
    )
    seen_hash: str = Field(
        pattern=f"^{HASH_PATTERN}$",
        description="the beginning of that row's hash: after a restore of the journal a seq names another row",
    )

    @property
    def target(self) -> ItemTarget:
        return ItemTarget(self.item_seq, self.seen_seq, self.seen_hash)


class OrderAsked(BaseModel):
    """An act on dead items. All of them or none: if one can't be acted on, nothing is sent."""

    model_config = ConfigDict(strict=True, extra="forbid")

    items: list[ItemAsked] = Field(min_length=1, max_length=TARGETS_MAX, description="each item once")
    reason: Text = Field(description="kept with every decision")
    mode: Mode = Field("live", description="whose ledger: live or test traffic")
    stream: StreamWanted | None = Field(None, description="the items' shard: ledger.1; null: the first one")

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len({item.item_seq for item in self.items}) != len(self.items):
            raise ValueError("an item is named twice")
        return self

    def order(self, command_id: str, actor: str) -> OperatorOrder:
        items = tuple(OrderedItem(item.item_seq, item.target) for item in self.items)
        return OperatorOrder(command_id, items, actor, self.reason)


class ControlOffset(View):
    """Says where Kafka holds the command."""

    topic: str
    partition: int
    offset: int


class CommandDecided(BaseModel):
    """Says what the processor decided of a command."""

    command_id: str
    decision: str = Field(
        description="replayed, purged, resolved or released: at least one item; ignored: none, the reason says why"
    )
    reason: str | None = Field(description="how many items were accepted, and why others weren't")
    actor: str | None
    decided_at: datetime
    control: ControlOffset

    @classmethod
    def from_row(cls, command_id: str, row: JournalRow) -> CommandDecided:
        return cls(
            command_id=command_id,
            decision=row.decision.value,
            reason=row.reason,
            actor=row.actor,
            decided_at=row.decided_at,
            control=ControlOffset.from_object(row),
        )


class OrderGiven(BaseModel):
    """The order is on its way: Kafka has its command, and the processor will decide it."""

    command_id: str = Field(description="made of the caller, the Idempotency-Key and the request")
    action: str
    mode: Mode
    items: list[int] = Field(description="the items' numbers")
    control: ControlOffset
    decided: CommandDecided | None = Field(description="only where the same order was given and decided before")

    @classmethod
    def from_order(cls, order: OperatorOrder, mode: Mode, given: PlacedOrder) -> OrderGiven:
        row = given.decided
        return cls(
            command_id=order.command_id,
            action=REPLAY,
            mode=mode,
            items=[target.item_seq for target in order.items],
            control=ControlOffset.from_object(given.control),
            decided=None if row is None else CommandDecided.from_row(order.command_id, row),
        )


class ProblemView(BaseModel):
    """Problem details (RFC 9457)."""

    type: str = Field(description="names the kind of problem after its #")
    title: str
    status: int
    detail: str = Field(description="what to do")
    items: dict[int, str] | None = Field(None, description="what is wrong with which item")
    errors: list[dict[str, str]] | None = Field(None, description="what is wrong where in the body")
