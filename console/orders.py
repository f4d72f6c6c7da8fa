"""The API's words for orders: what may be asked, and what is answered."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from console.dead_letters import StreamWanted
from core.event import Mode
from core.visible import KEPT_CHARS_MAX, is_kept_text
from dlq.command import TARGETS_MAX, Target
from dlq.command_fields import HASH_PATTERN, SEQ_MAX
from dlq.orders import Given, Order, Wanted
from journal.schema import JournalRow


def _printable(text: str) -> str:
    if not is_kept_text(text):
        raise ValueError("printable characters are wanted")
    return text


Text = Annotated[str, StringConstraints(min_length=1, max_length=KEPT_CHARS_MAX), AfterValidator(_printable)]
Seq = Annotated[int, Field(ge=1, le=SEQ_MAX)]


class ItemAsked(BaseModel):
    """One dead item."""

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
    def target(self) -> Target:
        return Target(self.item_seq, self.seen_seq, self.seen_hash)


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

    def order(self, action: str, command_id: str, actor: str) -> Order:
        items = tuple(Wanted(item.item_seq, item.target) for item in self.items)
        return Order(command_id, action, items, actor, self.reason)


class ControlOffset(BaseModel):
    """Where Kafka holds the command."""

    topic: str
    partition: int
    offset: int


class CommandDecided(BaseModel):
    """What the processor decided of a command."""

    command_id: str
    decision: str = Field(
        description="replayed, purged or resolved: at least one item; ignored: none, the reason says why"
    )
    reason: str | None = Field(description="how many items were accepted, and why others weren't")
    actor: str | None
    decided_at: datetime
    control: ControlOffset

    @classmethod
    def of(cls, command_id: str, row: JournalRow) -> CommandDecided:
        """From the command's journal row."""
        control = ControlOffset(topic=row.topic, partition=row.partition, offset=row.offset)
        return cls(
            command_id=command_id,
            decision=row.decision.value,
            reason=row.reason,
            actor=row.actor,
            decided_at=row.decided_at,
            control=control,
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
    def of(cls, order: Order, mode: Mode, given: Given) -> OrderGiven:
        sent, row = given.control, given.decided
        return cls(
            command_id=order.command_id,
            action=order.action,
            mode=mode,
            items=[wanted.item_seq for wanted in order.items],
            control=ControlOffset(topic=sent.topic, partition=sent.partition, offset=sent.offset),
            decided=None if row is None else CommandDecided.of(order.command_id, row),
        )


class ProblemView(BaseModel):
    """Problem details (RFC 9457)."""

    type: str = Field(description="names the kind of problem after its #")
    title: str
    status: int
    detail: str = Field(description="what to do")
    items: dict[int, str] | None = Field(None, description="what is wrong with which item")
    errors: list[dict[str, str]] | None = Field(None, description="what is wrong where in the body")
