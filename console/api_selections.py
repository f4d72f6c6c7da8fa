"""The API's selections: frozen sets of dead items, dry runs, and runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, Field

from console.access.roles import Role
from console.access.routes import require_role, signed_in
from console.api_routes import StrictRoute, add_acting_route, problem_responses
from console.dead_letters import Streams, StreamWanted
from console.selection_words import (
    ApprovalAsked,
    DryRunView,
    NothingAsked,
    ProgressView,
    ReasonAsked,
    ReplayAsked,
    RunStarted,
    RunView,
    SelectedItem,
    SelectedItems,
    SelectionAsked,
    SelectionsView,
    SelectionView,
)
from operations.command import SEQ_MAX, ReplayMode
from operations.frozen import NEWEST
from operations.selection.dry_run import Verdict
from operations.selection.model import KeptSelection, RunItemState, RunKept, RunRequest
from operations.selection.runs import RunOrders

PAGE_MAX = 1_000
Number = Annotated[int, Path(ge=1, le=SEQ_MAX, description="the selection's number: 3 for s3")]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
After = Annotated[int, Query(ge=-1, le=SEQ_MAX)]
ONE = "/selections/{number}"


class DryRunAsked(BaseModel):
    """The replay that is meant, and which page of what it would do."""

    stream: StreamWanted = "ledger"
    mode: ReplayMode = ReplayMode.ALONE
    force: bool = False
    verdicts: list[Verdict] | None = Field(None, max_length=20)
    after: int = Field(-1, ge=-1, le=SEQ_MAX)
    limit: int = Field(100, ge=1, le=PAGE_MAX)

    def run(self) -> RunRequest:
        return RunRequest("replay", "dry run", self.mode, None, self.force)


def reading_routes(streams: Streams) -> APIRouter:
    router = APIRouter(prefix="/dlq", route_class=StrictRoute, dependencies=[Depends(require_role(Role.VIEWER))])
    refusals = problem_responses(401, 403, 404, 422, 503)

    @router.get("/selections", summary="List selections", responses=refusals)
    async def selections(
        stream: StreamWanted = "ledger", before: Annotated[int, Query(ge=1, le=NEWEST)] = NEWEST, limit: Limit = 100
    ) -> SelectionsView:
        """Selections, the newest first, each with its run."""
        kept = await asyncio.to_thread(streams.find_stream(stream).selections.list_kept, before, limit)
        following = kept[-1].selection.number if len(kept) == limit else None
        return SelectionsView(selections=list(map(SelectionView.from_object, kept)), next=following)

    @router.get("/proposals", summary="List runs that wait for an approval", responses=refusals)
    async def proposals(stream: StreamWanted = "ledger") -> SelectionsView:
        """Lists runs that wait for approval, oldest first."""
        kept = await asyncio.to_thread(streams.find_stream(stream).selections.proposals)
        return SelectionsView(selections=list(map(SelectionView.from_object, kept)), next=None)

    @router.get(ONE, summary="Show a selection", responses=refusals)
    async def selection(number: Number, stream: StreamWanted = "ledger") -> ProgressView | SelectionView:
        """Returns one selection; with its run's progress where one was begun."""
        selections = streams.find_stream(stream).selections

        def read() -> ProgressView | SelectionView:
            kept = selections.get(number)
            return (
                SelectionView.from_object(kept)
                if kept.run is None
                else ProgressView.from_object(selections.progress(number))
            )

        return await asyncio.to_thread(read)

    @router.get(f"{ONE}/items", summary="List a selection's items", responses=refusals)
    async def items(
        number: Number,
        stream: StreamWanted = "ledger",
        states: Annotated[list[RunItemState] | None, Query(max_length=20)] = None,
        after: After = -1,
        limit: Limit = 100,
    ) -> SelectedItems:
        """Its items in their frozen order, and what became of each; ``after``: ``next`` of the page before."""
        listed = await asyncio.to_thread(streams.find_stream(stream).selections.items, number, states, after, limit)
        following = listed[-1].place if len(listed) == limit else None
        return SelectedItems(items=list(map(SelectedItem.from_object, listed)), next=following)

    @router.get(f"{ONE}/dry-run", summary="Show what a replay would do", responses=refusals)
    async def dry_run(
        number: Number,
        asked: Annotated[DryRunAsked, Query()],
    ) -> DryRunView:
        """Forecasts what a replay would do with each item; nothing is sent. Its first page looks again; the others
        don't.
        """
        dead = streams.find_stream(asked.stream)

        def read() -> DryRunView:
            kept = dead.dry_runs.find_latest(number)
            if kept is None or asked.after < 1:
                kept = dead.dry_runs.make(number, dead.describe_dry_run(asked.run()))
            page = dead.dry_runs.page(number, asked.verdicts, max(0, asked.after), asked.limit)
            following = page[-1].target.item_seq if len(page) == asked.limit else None
            return DryRunView.from_dry_run(kept, page, following)

        return await asyncio.to_thread(read)

    return router


def running_routes(streams: Streams) -> APIRouter:
    router = APIRouter(prefix="/dlq", route_class=StrictRoute)

    async def begin(request: Request, stream: str, number: int, run: RunRequest) -> RunStarted:
        runs, actor = streams.find_stream(stream).runs, signed_in(request).name
        started = await asyncio.to_thread(runs.start, number, run, actor)
        return RunStarted.from_run(started.run, again=started.again)

    @add_acting_route(router, "/selections", Role.REPLAYER, 201, summary="Freeze a selection")
    async def freeze(asked: SelectionAsked, request: Request, stream: StreamWanted = "ledger") -> SelectionView:
        """Freezes what is dead and matches now under a new number. Exactly this is what a run of it acts on."""
        freeze, actor = streams.find_stream(stream).selections.freeze, signed_in(request).name
        frozen = await asyncio.to_thread(freeze, asked.to_filter(), actor, asked.note, asked.list_targets())
        return SelectionView.from_object(KeptSelection(frozen, None))

    @add_acting_route(router, f"{ONE}/replay", Role.REPLAYER, summary="Replay a selection")
    async def replay(
        number: Number, asked: ReplayAsked, request: Request, stream: StreamWanted = "ledger"
    ) -> RunStarted:
        """Begins the selection's one run. The same again changes nothing and says so. Beyond the limits it waits for a
        second person's approval (`state`)."""
        return await begin(request, stream, number, asked.run())

    @add_acting_route(router, f"{ONE}/resolve", Role.REPLAYER, summary="Resolve a selection")
    async def resolve(
        number: Number, asked: ReasonAsked, request: Request, stream: StreamWanted = "ledger"
    ) -> RunStarted:
        """Closes its items, which took effect elsewhere: what comes again is a duplicate. Beyond the limits it waits
        for a second person's approval (`state`)."""
        return await begin(request, stream, number, asked.run("resolve"))

    @add_acting_route(router, f"{ONE}/purge", Role.ADMIN, summary="Purge a selection")
    async def purge(
        number: Number, asked: ReasonAsked, request: Request, stream: StreamWanted = "ledger"
    ) -> RunStarted:
        """Discards its items: none takes effect, their keys stay held, and what comes again is a duplicate. Beyond the
        limits it waits for a second person's approval (`state`)."""
        return await begin(request, stream, number, asked.run("purge"))

    @add_acting_route(router, f"{ONE}/release", Role.REPLAYER, summary="Propose to release a selection")
    async def release(
        number: Number, asked: ReasonAsked, request: Request, stream: StreamWanted = "ledger"
    ) -> RunStarted:
        """Proposes to discard its items and to free their keys: what the provider sends again is decided as a new
        event. It always waits for a second person's approval (`state`)."""
        return await begin(request, stream, number, asked.run("release"))

    @add_acting_route(router, f"{ONE}/approve", Role.ADMIN, 200, summary="Approve a selection's run")
    async def approve(
        number: Number, asked: ApprovalAsked, request: Request, stream: StreamWanted = "ledger"
    ) -> RunView:
        """Approves a run that somebody else proposed, and starts it."""
        runs, actor = streams.find_stream(stream).runs, signed_in(request).name
        return RunView.from_object(await asyncio.to_thread(runs.approve, number, actor, asked.reason))

    def simple(verb: str, change: Callable[[RunOrders, int, str, str], RunKept], why: str) -> None:
        @add_acting_route(router, f"{ONE}/{verb}", Role.REPLAYER, 200, summary=f"{verb.capitalize()} a selection's run")
        async def changed(
            number: Number, _asked: NothingAsked, request: Request, stream: StreamWanted = "ledger"
        ) -> RunView:
            runs, actor = streams.find_stream(stream).runs, signed_in(request).name
            request_id = request.state.idempotency.request_id
            return RunView.from_object(await asyncio.to_thread(change, runs, number, actor, request_id))

        changed.__doc__ = why
        router.routes[-1].description = why  # type: ignore[attr-defined]

    simple("pause", RunOrders.pause, "Sends no more items of the run; items already sent still finish")
    simple("resume", RunOrders.resume, "Continues a paused run")
    simple(
        "cancel",
        lambda runs, number, actor, _request_id: runs.cancel(number, actor),
        "Sends no more items, for good; the rest stays dead",
    )
    return router
