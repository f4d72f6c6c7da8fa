"""``/dlq/selections``: freeze what is seen, say what a replay would do, order what is to be done, and watch it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import QueryParams

from console.access.roles import User
from console.forms import Fields, FormFields
from console.pages.dlq import marked_items, read_filter
from console.pages.place import Admin, DlqPlace, PageStream, Replayer, Viewer
from core.errors import PayhookError
from core.visible import KEPT_CHARS_MAX, is_kept_text
from dead_letters.item import Item, ItemState
from dead_letters.listing import Filter
from operations.command import PER_S_MAX, PER_S_MIN, PURGE, RELEASE, REPLAY, RESOLVE, ReplayMode
from operations.frozen import NEWEST
from operations.selection.dry_run import Verdict
from operations.selection.model import KeptSelection, ProgressReport, RunRefused, RunRequest
from operations.selection.runs import RunOrders

KEPT_PER_PAGE = 50
ITEMS_PER_PAGE = 100
NUMBER_MAX = NEWEST

MODE_WORDS = {
    ReplayMode.ALONE.value: "each alone",
    ReplayMode.WITH_FOLLOWERS.value: "with its followers, in order",
}

ACT_WORDS = {REPLAY: "Replay", RESOLVE: "Resolve", PURGE: "Discard", RELEASE: "Discard and let come again"}

VERDICTS = tuple(verdict.value for verdict in Verdict)
RUN_WORDS = {
    "in_place": "runs before every later event of its entity",
    "behind": "runs after what was applied since",
    "poison": "its bytes are parsed again",
    "held": "waits behind another dead event",
    "moved": "refused: it moved on since",
    "done": "ended since: nothing to do",
    "conflict": "refused, or dies again: another event has its key or its fact",
    "no_body": "can't run: its bytes aren't kept",
    "loop": "refused: replayed too often, and died each time",
    "refused": "refused: it can't run in this mode",
    "dies": "would die again: fix the cause first",
    "ignored": "the handler ignores it",
    "unknown": "the handler doesn't know it",
}


class SelectionPages:
    """Shows selections; each method but the private ones is a route."""

    def __init__(self, place: DlqPlace) -> None:
        self._place = place
        self._ask = place.asking.ask

    async def listed(self, request: Request, _user: Viewer) -> Response:
        stream, fields = self._place.stream(request), Fields(request.query_params)
        before = fields.number("before", 1, NUMBER_MAX) or NUMBER_MAX
        kept, waiting = await self._ask(_read_list, stream, before)
        older = kept[-1].selection.number if len(kept) == KEPT_PER_PAGE else None
        return self._place.show(request, "dlq/selections.html", kept=kept, waiting=waiting, older=older)

    async def freeze(self, request: Request, user: Replayer, fields: FormFields) -> Response:
        marked = fields.read_choice("what", ("marked", "all")) != "all"
        seen = marked_items(fields) if marked else []
        wanted = Filter(items=tuple(target.item_seq for target in seen)) if marked else read_filter(fields).wanted
        note = read_printable(fields, "note") or ""
        if fields.problems or (marked and not seen):
            reported = next(iter(fields.problems.values()), "mark items first; nothing was selected")
            return self._place.show(request, "dlq/refused.html", 422, problem=reported)
        frozen = await self._ask(self._place.stream(request).selections.freeze, wanted, user.name, note, seen)
        return RedirectResponse(self._link_to(request, frozen.number), 303)

    async def one(self, request: Request, number: int, _user: Viewer) -> Response:
        after = Fields(request.query_params).number("after", 0, NUMBER_MAX)
        return await self._show(request, number, Fields(QueryParams()), -1 if after is None else after)

    async def progress(self, request: Request, number: int, _user: Viewer) -> Response:
        progress = await self._ask(self._place.stream(request).selections.progress, number)
        return self._place.show(request, "dlq/_progress.html", progress=progress)

    async def dry_run(self, request: Request, number: int, _user: Viewer) -> Response:
        """Makes the dry run for the first page; later pages and single verdicts show the same one."""
        fields, stream = Fields(request.query_params), self._place.stream(request)
        mode = fields.read_choice("run_mode", tuple(MODE_WORDS)) or ReplayMode.ALONE.value
        force = fields.text("force") is not None
        only, after = fields.read_choice("verdict", VERDICTS), fields.number("after", 0, NUMBER_MAX)
        run = RunRequest(REPLAY, "dry run", ReplayMode(mode), None, force)
        dry_run = await self._ask(stream.dead.dry_runs.find_latest, number)
        if dry_run is None or (only is None and after is None):
            dry_run = await self._ask(stream.dead.dry_runs.make, number, stream.dead.describe_dry_run(run))
        verdicts = None if only is None else [Verdict(only)]
        forecasts = await self._ask(stream.dead.dry_runs.page, number, verdicts, after or 0, ITEMS_PER_PAGE + 1)
        kept = await self._ask(stream.selections.get, number)
        context = {
            "made": dry_run,
            "shown": forecasts[:ITEMS_PER_PAGE],
            "more": len(forecasts) > ITEMS_PER_PAGE,
            "only": only,
        }
        context |= {"fields": fields, "mode_words": MODE_WORDS, "run_words": RUN_WORDS}
        return self._place.show(request, "dlq/dry_run.html", kept=kept, **context)

    async def replay(self, request: Request, number: int, user: Replayer, fields: FormFields) -> Response:
        return await self._start(request, number, user, fields, REPLAY)

    async def resolve(self, request: Request, number: int, user: Replayer, fields: FormFields) -> Response:
        return await self._start(request, number, user, fields, RESOLVE)

    async def purge(self, request: Request, number: int, user: Admin, fields: FormFields) -> Response:
        return await self._start(request, number, user, fields, PURGE)

    async def release(self, request: Request, number: int, user: Replayer, fields: FormFields) -> Response:
        return await self._start(request, number, user, fields, RELEASE)

    async def approve(self, request: Request, number: int, user: Admin, fields: FormFields) -> Response:
        reason = reason_of(fields)
        if reason is None:
            return await self._show(request, number, fields, status=422)
        return await self._send_order(request, number, lambda runs: runs.approve(number, user.name, reason))

    async def pause(self, request: Request, number: int, user: Replayer) -> Response:
        return await self._send_order(request, number, lambda runs: runs.pause(number, user.name))

    async def resume(self, request: Request, number: int, user: Replayer) -> Response:
        return await self._send_order(request, number, lambda runs: runs.resume(number, user.name))

    async def cancel(self, request: Request, number: int, user: Replayer) -> Response:
        return await self._send_order(request, number, lambda runs: runs.cancel(number, user.name))

    async def _start(self, request: Request, number: int, user: User, fields: Fields, action: str) -> Response:
        run = run_of(fields, action)
        if run is None:
            return await self._show(request, number, fields, status=422)
        return await self._send_order(request, number, lambda runs: runs.start(number, run, user.name))

    async def _send_order(self, request: Request, number: int, order: Callable[[RunOrders], object]) -> Response:
        try:
            await self._ask(order, self._place.stream(request).dead.runs)
        except RunRefused as refused:
            return await self._show(request, number, Fields(QueryParams()), problem=str(refused), status=409)
        return RedirectResponse(self._link_to(request, number), 303)

    async def _show(
        self, request: Request, number: int, fields: Fields, after: int = -1, problem: str = "", status: int = 200
    ) -> Response:
        shown = await self._ask(_read_selection, self._place.stream(request), number, after)
        context = {**shown, "fields": fields, "after": after, "problem": problem, "mode_words": MODE_WORDS}
        context["act_words"] = ACT_WORDS
        return self._place.show(request, "dlq/selection.html", status, **context)

    def _link_to(self, request: Request, number: int) -> str:
        return self._place.link(request, f"/dlq/selections/{number}")


def add_selections(router: APIRouter, place: DlqPlace) -> None:
    pages, path = SelectionPages(place), "/dlq/selections/{number}"
    router.add_api_route("/dlq/selections", pages.listed, methods=["GET"])
    router.add_api_route("/dlq/selections", pages.freeze, methods=["POST"])
    router.add_api_route(path, pages.one, methods=["GET"])
    router.add_api_route(f"{path}/progress", pages.progress, methods=["GET"])
    router.add_api_route(f"{path}/dry-run", pages.dry_run, methods=["GET"])
    acts = (pages.replay, pages.resolve, pages.purge, pages.release)
    for order in (*acts, pages.approve, pages.pause, pages.resume, pages.cancel):
        router.add_api_route(f"{path}/{order.__name__}", order, methods=["POST"])


def run_of(fields: Fields, action: str) -> RunRequest | None:
    reason = reason_of(fields)
    if action != REPLAY:
        return None if reason is None else RunRequest(action, reason)
    mode = fields.read_choice("run_mode", tuple(MODE_WORDS)) or ReplayMode.ALONE.value
    per_s = fields.read("per_s", _read_rate)
    if reason is None or fields.problems:
        return None
    return RunRequest(action, reason, ReplayMode(mode), per_s, fields.text("force") is not None)


def reason_of(fields: Fields) -> str | None:
    reason = read_printable(fields, "reason")
    if reason is None:
        fields.add_problem("reason", "Enter a reason")
    return reason


def read_printable(fields: Fields, name: str) -> str | None:
    text = fields.text(name, KEPT_CHARS_MAX)
    if text is not None and not is_kept_text(text):
        fields.add_problem(name, "Enter one line of printable characters")
        return None
    return text


class RateInvalid(PayhookError):
    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"Enter a number from {PER_S_MIN:g} to {PER_S_MAX:,.0f}, or leave it empty")


def _read_rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        raise RateInvalid(text) from None
    if not PER_S_MIN <= rate <= PER_S_MAX:
        raise RateInvalid(text)
    return rate


def _read_list(stream: PageStream, before: int) -> tuple[Sequence[KeptSelection], Sequence[KeptSelection]]:
    return stream.selections.list_kept(before, KEPT_PER_PAGE), stream.selections.proposals()


def _read_items(stream: PageStream, numbers: tuple[int, ...]) -> dict[int, Item]:
    stream.index.follow()
    page = stream.index.page(Filter(items=numbers, states=tuple(ItemState)), limit=ITEMS_PER_PAGE + 1)
    return {item.item_seq: item for item in page.items}


def _read_selection(stream: PageStream, number: int, after: int) -> dict[str, Any]:
    kept = stream.selections.get(number)
    progress: ProgressReport | None = stream.selections.progress(number) if kept.run is not None else None
    items = stream.selections.items(number, after_place=after, limit=ITEMS_PER_PAGE + 1)
    now_listed = _read_items(stream, tuple(item.target.item_seq for item in items))
    run = progress.run if progress is not None else None
    why = stream.dead.runs.why_two_people(number, run.run, run.actor) if run is not None else None
    return {
        "selection": kept.selection,
        "run": run,
        "progress": progress,
        "why_two": why,
        "items": items[:ITEMS_PER_PAGE],
        "known": now_listed,
        "more": len(items) > ITEMS_PER_PAGE,
    }
