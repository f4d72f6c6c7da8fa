"""The API's words for selections and their runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Self

from pydantic import AfterValidator, AliasPath, BaseModel, ConfigDict, Field, model_validator

from console.api_dead import FilterAsked
from console.api_routes import ItemAsked, Text, View
from dead_letters.listing import ITEMS_MAX, Filter
from journal.target import ItemTarget
from operations.command import PER_S_MAX, PER_S_MIN, ReplayMode
from operations.frozen import RunState
from operations.selection.dry_run import DryRun, ItemForecast, Verdict
from operations.selection.model import RunItemState, RunKept, RunRequest


class SelectionAsked(BaseModel):
    """Selects what is to be frozen: everything dead, ignored or unknown that matches now, each item as it is now. Or
    single items as they were seen.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {"filter": {"classes": ["MerchantUnknown"]}, "note": "account acct_1 was opened"}
        },
    )

    filter: FilterAsked = Field(
        default_factory=FilterAsked,
        description="`states`: open, ignored for events that no handler took, or unknown for those that none knew",
    )
    items: list[ItemAsked] = Field(
        [],
        max_length=ITEMS_MAX,
        description="only these, as you saw them; one that has changed since is refused later",
    )
    note: str = Field("", max_length=500, description="shown in the list of selections")

    @model_validator(mode="after")
    def _as_seen(self) -> Self:
        if self.filter.items:
            raise ValueError("name single items in `items`, each with its row that you saw")
        if len({item.item_seq for item in self.items}) != len(self.items):
            raise ValueError("an item is named twice")
        return self

    def to_filter(self) -> Filter:
        return replace(self.filter.filter(), items=tuple(item.item_seq for item in self.items))

    def list_targets(self) -> list[ItemTarget]:
        return [item.target for item in self.items]


class ReplayAsked(BaseModel):
    """Says how a selection is replayed."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"example": {"reason": "account acct_1 was opened", "per_s": 200}}
    )

    reason: Text = Field(description="kept with every decision")
    mode: ReplayMode = Field(
        ReplayMode.ALONE,
        description="alone; with_followers: of each entity all that is dead from its first item on, in order",
    )
    per_s: Annotated[float, Field(ge=PER_S_MIN, le=PER_S_MAX)] | None = Field(
        None, description="items a second; null: as fast as live traffic allows"
    )
    force: bool = Field(False, description="replay items even after `dlq.replays_max` failed replays")
    propose: bool = Field(False, description="ask for another admin's approval, even below the limits")

    def run(self) -> RunRequest:
        return RunRequest("replay", self.reason, self.mode, self.per_s, self.force, self.propose)


class ReasonAsked(BaseModel):
    """Why. ``propose``: ask for another admin's approval, even below the limits."""

    model_config = ConfigDict(
        strict=True, extra="forbid", json_schema_extra={"example": {"reason": "test payments of our own"}}
    )

    reason: Text = Field(description="kept with every decision")
    propose: bool = Field(False, description="ask for another admin's approval, even below the limits")

    def run(self, action: str) -> RunRequest:
        return RunRequest(action, self.reason, propose=self.propose)


class ApprovalAsked(BaseModel):
    """Repeats what was looked at."""

    model_config = ConfigDict(
        strict=True, extra="forbid", json_schema_extra={"example": {"reason": "compared with the provider's report"}}
    )

    reason: Text = Field(description="kept with every decision")


class NothingAsked(BaseModel):
    """An empty object: the path says it all."""

    model_config = ConfigDict(strict=True, extra="forbid")


def _field_at(*path: str) -> Any:
    return Field(validation_alias=AliasPath(*path))


class ApprovalView(View):
    """The second person's word."""

    actor: str
    reason: str
    at: datetime


class RunView(View):
    """A selection's run. ``problem``: why it doesn't continue just now."""

    selection: int = Field(validation_alias="number")
    action: str = _field_at("run", "action")
    mode: ReplayMode = _field_at("run", "mode")
    per_s: float | None = _field_at("run", "per_s")
    force: bool = _field_at("run", "force")
    reason: str = _field_at("run", "reason")
    actor: str
    started_at: datetime
    state: RunState = Field(description="proposed: waits for approval; sent: every item was sent")
    approval: ApprovalView | None
    problem: str | None
    finished_at: datetime | None


class RunStarted(RunView):
    """``again``: this very run was begun before; nothing was added to it."""

    again: bool

    @classmethod
    def from_run(cls, kept: RunKept, *, again: bool) -> Self:
        return cls(**RunView.from_object(kept).model_dump(), again=again)


class SelectionView(View):
    """A frozen set. ``amounts``: minor units by currency; ``unknown_amounts``: items whose money isn't known."""

    number: int = _field_at("selection", "number")
    count: int = _field_at("selection", "count")
    amounts: dict[str, int] = _field_at("selection", "amounts")
    unknown_amounts: int = _field_at("selection", "unknown_amounts")
    digest: str = Field(
        validation_alias=AliasPath("selection", "digest"), description="SHA-256 of its file in the lake"
    )
    frozen_at: datetime = _field_at("selection", "frozen_at")
    actor: str = _field_at("selection", "actor")
    note: str = _field_at("selection", "note")
    filter: str = _field_at("selection", "filter")
    journal_seq: int = _field_at("selection", "journal_seq")
    run: RunView | None


class ProgressView(SelectionView):
    """``states``: items by what became of them. ``eta_s``: seconds until its end, where that is known."""

    states: dict[RunItemState, int] = Field(validation_alias="counts")
    ended: int
    share: Annotated[float, AfterValidator(partial(round, ndigits=6))]
    finished: bool
    seen_per_s: float | None = Field(validation_alias="per_s")
    eta_s: float | None


class SelectionsView(BaseModel):
    """The newest first; ``next``: ``before`` of the next page."""

    selections: list[SelectionView]
    next: int | None


class SelectedItem(View):
    """Shows one item of a selection and what became of it; ``row_seq``: the journal's row that says so."""

    place: int
    item_seq: int = _field_at("target", "item_seq")
    seen_seq: int = _field_at("target", "seen_seq")
    seen_hash: str = _field_at("target", "seen_hash")
    state: RunItemState
    row_seq: int | None
    reason: str | None


class SelectedItems(BaseModel):
    """``next``: ``after`` of the next page."""

    items: list[SelectedItem]
    next: int | None


class ForecastView(View):
    """Forecasts what a replay would do with one item. ``followers`` run after it by themselves."""

    item_seq: int = _field_at("target", "item_seq")
    seen_seq: int = _field_at("target", "seen_seq")
    seen_hash: str = _field_at("target", "seen_hash")
    verdict: Verdict
    why: str
    followers: int


class DryRunView(BaseModel):
    """Forecasts what a replay would do, as of the journal's row ``journal_seq``; nothing was sent. The processor stays
    the judge. ``next``: ``after`` of the next page.
    """

    selection: int
    made_at: datetime
    journal_seq: int
    verdicts: dict[Verdict, int]
    runs: int = Field(description="items that would run, and don't die as far as the adapter and the handler say")
    applied: int = Field(description="items of which the handler says that they would be applied")
    limits: str = Field(description="who wasn't asked, and why; empty: everybody was")
    followers: int
    items: list[ForecastView]
    next: int | None

    @classmethod
    def from_dry_run(cls, made: DryRun, page: list[ItemForecast], following: int | None) -> Self:
        return cls(
            selection=made.number,
            made_at=made.made_at,
            journal_seq=made.journal_seq,
            verdicts=dict(made.counts),
            runs=made.runnable_count,
            applied=made.applied,
            limits=made.limits,
            followers=made.followers,
            items=list(map(ForecastView.from_object, page)),
            next=following,
        )
