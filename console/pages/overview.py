"""``/``, ``/alerts``, ``/catch-up``, ``/received`` and ``/dlq/audit``: how things stand, and what people did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse
from markupsafe import Markup

from console.access.roles import Role, User
from console.access.routes import require_role
from console.attention import PAGE
from console.catch_ups import read_catch_ups
from console.day import LastDayPlot as DayPlot
from console.day import day_plots
from console.details import Figure, figures_of
from console.formats import format_span
from console.forms import Fields
from console.health import read_streams
from console.pages.place import DlqPlace, PagePlace, PageStream, TooMuchAsked, Viewer
from console.plots import PlotSeries, bars_plot, steps_plot
from console.received import AskReceived
from console.rendering import render_page
from core.status_file import STANDBY, StatusWait, fresh_status, waits_of
from dead_letters.dead_letter_index import DeadLetterIndex
from dead_letters.joined import JoinedIndex
from dead_letters.stats import Count, Group, Stats
from operations.audit_log import AuditLog

BARS_MAX = 8
GROUPS_SHOWN = 5

NAMES = {
    "by_kind": "kind",
    "by_class": "class",
    "by_provider": "provider",
    "by_type": "type",
}


@dataclass(frozen=True, slots=True)
class ReportPlot:
    caption: str
    plot: Markup
    field: str | None = None
    values: Sequence[Count] = ()


@dataclass(frozen=True, slots=True)
class StreamReport:
    """Shows what a stream's processor reports. ``state``: running, blocked, off, failed, down; ``waits``: what its
    events wait for.
    """

    name: str
    state: str
    why: str
    behind: str
    waits: Sequence[StatusWait]


@dataclass(frozen=True, slots=True)
class Overview:
    figures: Sequence[Figure]
    groups: Sequence[Group]
    plots: Sequence[ReportPlot]
    stats: Stats
    shards: Sequence[str]


@dataclass(frozen=True, slots=True)
class LiveFigures:
    figures: Sequence[Figure]
    pictures: Mapping[str, Markup]


async def live_of(place: DlqPlace, stream: PageStream, user: User) -> dict[str, Any]:
    waiting = await place.asking.ask(place.attention.now)
    live = LiveFigures(place.pulse.list_figures(stream.name), place.pulse.draw_pipelines(stream.mode))
    return {"live": live, "waiting": waiting, "approvals": waiting.approvals_for(user)}


def read_overview(indexes: Mapping[str, DeadLetterIndex]) -> Overview:
    for follower in indexes.values():
        follower.follow()
    index = JoinedIndex(indexes)
    stats = index.stats()
    return Overview(figures_of(stats), index.groups(limit=GROUPS_SHOWN), make_plots(stats), stats, list(indexes))


def make_plots(stats: Stats) -> list[ReportPlot]:
    plotted = [ReportPlot("Died and closed, by hour", _plot_hours(stats))]
    for name, field in NAMES.items():
        counts: Sequence[Count] = getattr(stats, name)[:BARS_MAX]
        values = [(count.value or "none", count.items) for count in counts]
        words = ", ".join(f"{value}: {items:,}" for value, items in values) or "no open events"
        plotted.append(
            ReportPlot(f"Open by {field}", bars_plot(f"Open items by {field}", words, values), field, counts)
        )
    return plotted


def _plot_hours(stats: Stats) -> Markup:
    died = PlotSeries("died", [(hour.at, hour.died) for hour in stats.hours])
    closed = PlotSeries("closed", [(hour.at, hour.closed) for hour in stats.hours])
    sums = sum(hour.died for hour in stats.hours), sum(hour.closed for hour in stats.hours)
    words = f"In {len(stats.hours)} hours {sums[0]:,} items died and {sums[1]:,} that had died were closed."
    return steps_plot("Items that died and that were closed, by hour", words, [died, closed], stats.at)


def describe_stream(name: str, status: dict[str, Any], now: datetime) -> StreamReport:
    """
    :param status: as `read_streams` gives it
    """
    if "at" not in status:
        return StreamReport(name, "unknown", "no processor reports its status: see payhook status", "", ())
    behind, waits = _describe_backlog(status), waits_of(status)
    if fresh_status(status, now) is None:
        return StreamReport(name, "down", f"its processor's last status is of {status['at']}", behind, ())
    if status.get("state") in ("refused", STANDBY):
        return StreamReport(name, str(status["state"]), str(status.get("why", "")), behind, ())
    if blocked := status.get("blocked"):
        return StreamReport(name, "blocked", str(blocked), behind, waits)
    if status.get("state") == "off":
        return StreamReport(name, "off", str(status.get("why", "")), behind, waits)
    if not status.get("ready"):
        return StreamReport(name, "failed", str(status.get("last_failure") or "it isn't ready"), behind, waits)
    return StreamReport(name, "running", "", behind, waits)


def _describe_backlog(status: dict[str, Any]) -> str:
    catch_up = _dict_in(status, "catch_up")
    if not catch_up.get("behind"):
        return "no"
    recover_s = catch_up.get("recover_s")
    return f"{catch_up.get('lag')} records" + (
        f", about {format_span(recover_s)}" if isinstance(recover_s, (int, float)) else ""
    )


def _dict_in(status: dict[str, Any], name: str) -> dict[str, Any]:
    value = status.get(name)
    return value if isinstance(value, dict) else {}


FINANCE_HOME = "/ledger/overview"


def add_overview(router: APIRouter, place: DlqPlace) -> None:
    @router.get("/")
    async def home(request: Request, user: Annotated[User, Depends(require_role(None))]) -> Response:
        if not user.may(Role.VIEWER):
            return RedirectResponse(FINANCE_HOME, 303) if user.may(Role.FINANCE) else render_page(request, "home.html")
        stream = place.stream(request)
        indexes = {name: part.index for name, part in place.list_parts(stream).items()}
        shown = await place.asking.ask(read_overview, indexes)
        now = place.clock.now()
        reported = await place.asking.ask(read_streams, place.statuses, now)
        streams = [describe_stream(name, reported[name], now) for name in place.streams]
        live = await live_of(place, stream, user)
        day = await _read_day(place, stream, shown.stats)
        return place.show(request, "dlq/overview.html", shown=shown, reported=streams, day=day, **live)

    @router.get("/live")
    async def live(request: Request, user: Viewer) -> Response:
        """Shows the part of the overview that renews itself."""
        return place.show(request, "dlq/_live.html", **await live_of(place, place.stream(request), user))


async def _read_day(place: DlqPlace, stream: PageStream, stats: Stats) -> list[DayPlot] | None:
    """Reads the day's plots. None: the last day of a long journal takes longer than a page may; it is there later."""
    places = [part.files for part in place.list_parts(stream).values()]
    try:
        return day_plots(await place.asking.ask(place.day.read, stream.name, places, stats.at), stats)
    except TooMuchAsked:
        return None


PER_PAGE = 50
NUMBER_MAX = 2**62


def add_audit(router: APIRouter, place: DlqPlace, audit_log: AuditLog) -> None:
    @router.get("/dlq/audit", dependencies=[Depends(require_role(Role.VIEWER))])
    async def audit(request: Request) -> Response:
        before = Fields(request.query_params).number("before", 1, NUMBER_MAX)
        entries = await place.asking.ask(audit_log.read, PER_PAGE, before)
        older = entries[-1].number if len(entries) == PER_PAGE and entries[-1].number > 1 else None
        return place.show(request, "dlq/audit.html", entries=entries, before=before, older=older)


def add_alerts(router: APIRouter, place: DlqPlace) -> None:
    @router.get(PAGE)
    async def alerts(request: Request, user: Viewer) -> Response:
        waiting = await place.asking.ask(place.attention.now)
        approvals = waiting.approvals_for(user)
        return place.show(request, "alerts.html", alerts=waiting.alerts, approvals=approvals)


def catch_up_routes(place: PagePlace) -> APIRouter:
    router = APIRouter(dependencies=[Depends(require_role(Role.VIEWER))])

    @router.get("/catch-up")
    async def page(request: Request) -> Response:
        report = await place.asking.ask(read_catch_ups, place.layout, place.modes)
        return place.show(request, "catch-up.html", report=report)

    return router


KINDS_SHOWN_MAX, NEWEST_SHOWN_MAX = 100, 20
"""Rows of one page; the API has all."""


def received_routes(place: PagePlace, received: AskReceived) -> APIRouter:
    router = APIRouter(prefix="/received", dependencies=[Depends(require_role(Role.VIEWER))])

    def show(request: Request, template: str) -> Response:
        hour = received(place.mode(request))
        shown = {"arrived": hour.arrived[:KINDS_SHOWN_MAX], "newest": hour.newest[:NEWEST_SHOWN_MAX]}
        return place.show(request, template, hour=hour, **shown)

    @router.get("")
    async def page(request: Request) -> Response:
        return show(request, "received/page.html")

    @router.get("/live")
    async def live(request: Request) -> Response:
        return show(request, "received/_live.html")

    return router
