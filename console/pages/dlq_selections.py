"""``/dlq/selections``: freeze what is seen, say what is to be done with it, and watch it being done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import QueryParams

from console.access import Role, User, require
from console.forms import Fields
from console.pages import dlq_filters
from console.pages.place import DlqPlace, WorkStream
from core.errors import PayhookError
from core.visible import KEPT_CHARS_MAX, is_kept_text
from dlq.command import PER_S_MAX, PER_S_MIN, PURGE, REPLAY, RESOLVE, ReplayMode
from dlq.frozen import NEWEST
from dlq.index import Filter
from dlq.selection import Kept, Progress, Run, RunKept, RunRefused

KEPT_PER_PAGE = 50
ITEMS_PER_PAGE = 100
NUMBER_MAX = NEWEST

MODES_TOLD = {
    ReplayMode.ALONE.value: "each alone",
    ReplayMode.WITH_FOLLOWERS.value: "with its followers, in order",
    ReplayMode.SUPERSEDED.value: "as superseded",
}

Viewer = Annotated[User, Depends(require(Role.VIEWER))]
Replayer = Annotated[User, Depends(require(Role.REPLAYER))]
Admin = Annotated[User, Depends(require(Role.ADMIN))]


class Pages:
    """The pages of selections, for routes to call."""

    def __init__(self, place: DlqPlace) -> None:
        self.place = place

    async def listed(self, request: Request) -> Response:
        stream, fields = self.place.stream(request), Fields(request.query_params)
        before = fields.number("before", 1, NUMBER_MAX) or NUMBER_MAX
        kept, waiting = await self.place.asking.ask(_listed, stream, before)
        older = kept[-1].selection.number if len(kept) == KEPT_PER_PAGE else None
        return self.place.show(request, "dlq/selections.html", kept=kept, waiting=waiting, older=older)

    async def freeze(self, request: Request, user: User) -> Response:
        """From the list's form: the items that are marked, or all that match its filter."""
        stream, fields = self.place.stream(request), Fields(await request.form())
        marked = fields.choice("what", ("marked", "all")) != "all"
        seen = dlq_filters.items(fields) if marked else []
        wanted = Filter(items=tuple(one.item_seq for one in seen)) if marked else dlq_filters.read(fields).wanted
        note = printable(fields, "note") or ""
        if fields.problems or (marked and not seen):
            reported = next(iter(fields.problems.values()), "mark items first; nothing was selected")
            return self.place.show(request, "dlq/refused.html", 422, problem=reported)
        frozen = await self.place.asking.ask(stream.selections.freeze, wanted, user.name, note, seen)
        return RedirectResponse(self._at(request, frozen.number), 303)

    async def one(self, request: Request, number: int) -> Response:
        fields = Fields(request.query_params)
        after = fields.number("after", 0, NUMBER_MAX)
        return await self._show(request, number, Fields(QueryParams()), -1 if after is None else after)

    async def progress(self, request: Request, number: int) -> Response:
        progress = await self.place.asking.ask(self.place.stream(request).selections.progress, number)
        return self.place.show(request, "dlq/_progress.html", progress=progress)

    async def start(self, request: Request, number: int, user: User, action: str) -> Response:
        """Begins the run that a form of the selection's page asks for."""
        fields = Fields(await request.form())
        run = run_of(fields, action)
        if run is None:
            return await self._show(request, number, fields, status=422)
        stream = self.place.stream(request)

        def begin() -> RunKept:
            return stream.selections.start(number, run, user.name).run

        return await self._give(request, number, begin)

    async def approve(self, request: Request, number: int, user: User) -> Response:
        fields = Fields(await request.form())
        reason = reason_of(fields)
        if reason is None:
            return await self._show(request, number, fields, status=422)
        stream = self.place.stream(request)
        return await self._give(request, number, lambda: stream.selections.approve(number, user.name, reason))

    async def change(self, request: Request, number: int, user: User, action: str) -> Response:
        """``action``: pause, resume or cancel."""
        change: Callable[[int, str], RunKept] = getattr(self.place.stream(request).selections, action)
        return await self._give(request, number, lambda: change(number, user.name))

    async def _give(self, request: Request, number: int, order: Callable[[], RunKept]) -> Response:
        """The caller records it, and its refusal."""
        try:
            await self.place.asking.ask(order)
        except RunRefused as refused:
            return await self._show(request, number, Fields(QueryParams()), problem=str(refused), status=409)
        return RedirectResponse(self._at(request, number), 303)

    async def _show(
        self, request: Request, number: int, fields: Fields, after: int = -1, problem: str = "", status: int = 200
    ) -> Response:
        shown = await self.place.asking.ask(_one, self.place.stream(request), number, after)
        context = {**shown, "fields": fields, "after": after, "problem": problem, "modes_told": MODES_TOLD}
        return self.place.show(request, "dlq/selection.html", status, **context)

    def _at(self, request: Request, number: int) -> str:
        return self.place.link(request, f"/dlq/selections/{number}")


def add_selections(router: APIRouter, place: DlqPlace) -> None:
    pages, path = Pages(place), "/dlq/selections/{number}"

    @router.get("/dlq/selections")
    async def listed(request: Request, _user: Viewer) -> Response:
        return await pages.listed(request)

    @router.post("/dlq/selections")
    async def freeze(request: Request, user: Replayer) -> Response:
        return await pages.freeze(request, user)

    @router.get(path)
    async def one(request: Request, number: int, _user: Viewer) -> Response:
        return await pages.one(request, number)

    @router.get(path + "/progress")
    async def progress(request: Request, number: int, _user: Viewer) -> Response:
        return await pages.progress(request, number)

    @router.post(path + "/replay")
    async def replay(request: Request, number: int, user: Replayer) -> Response:
        return await pages.start(request, number, user, REPLAY)

    @router.post(path + "/resolve")
    async def resolve(request: Request, number: int, user: Replayer) -> Response:
        return await pages.start(request, number, user, RESOLVE)

    @router.post(path + "/purge")
    async def purge(request: Request, number: int, user: Admin) -> Response:
        return await pages.start(request, number, user, PURGE)

    @router.post(path + "/approve")
    async def approve(request: Request, number: int, user: Admin) -> Response:
        return await pages.approve(request, number, user)

    @router.post(path + "/pause")
    async def pause(request: Request, number: int, user: Replayer) -> Response:
        return await pages.change(request, number, user, "pause")

    @router.post(path + "/resume")
    async def resume(request: Request, number: int, user: Replayer) -> Response:
        return await pages.change(request, number, user, "resume")

    @router.post(path + "/cancel")
    async def cancel(request: Request, number: int, user: Replayer) -> Response:
        return await pages.change(request, number, user, "cancel")


def run_of(fields: Fields, action: str) -> Run | None:
    """The run that a form asks for; None: its problems are told."""
    reason = reason_of(fields)
    if action != REPLAY:
        return None if reason is None else Run(action, reason)
    mode = fields.choice("run_mode", tuple(MODES_TOLD)) or ReplayMode.ALONE.value
    per_s = fields.read("per_s", _rate)
    flags = {name: fields.text(name) is not None for name in ("in_place", "force")}
    if reason is None or fields.problems:
        return None
    return Run(action, reason, ReplayMode(mode), per_s, flags["in_place"], flags["force"])


def reason_of(fields: Fields) -> str | None:
    """Every order has one."""
    reason = printable(fields, "reason")
    if reason is None:
        fields.wrong("reason", "a reason is wanted: it is kept with every decision")
    return reason


def printable(fields: Fields, name: str) -> str | None:
    """A text as a command can carry it."""
    text = fields.text(name, KEPT_CHARS_MAX)
    if text is not None and not is_kept_text(text):
        fields.wrong(name, "one line of printable characters is wanted")
        return None
    return text


class RateInvalid(PayhookError):
    """A text that is no rate."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"a number from {PER_S_MIN:g} to {PER_S_MAX:,.0f} is wanted, or nothing")


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        raise RateInvalid(text) from None
    if not PER_S_MIN <= rate <= PER_S_MAX:
        raise RateInvalid(text)
    return rate


def _listed(stream: WorkStream, before: int) -> tuple[Sequence[Kept], Sequence[Kept]]:
    return stream.selections.kept(before, KEPT_PER_PAGE), stream.selections.proposals()


def _one(stream: WorkStream, number: int, after: int) -> dict[str, Any]:
    """Everything of a selection's page."""
    kept = stream.selections.get(number)
    progress: Progress | None = stream.selections.progress(number) if kept.run is not None else None
    items = stream.selections.items(number, after_place=after, limit=ITEMS_PER_PAGE + 1)
    run = progress.run if progress is not None else None
    why = stream.selections.why_two_people(number, run.run, run.actor) if run is not None else None
    return {
        "selection": kept.selection,
        "run": run,
        "progress": progress,
        "why_two": why,
        "items": items[:ITEMS_PER_PAGE],
        "more": len(items) > ITEMS_PER_PAGE,
    }
