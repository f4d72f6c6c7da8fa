"""``/subscribers``: who gets what was booked, whether they accept it, and what waits for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import QueryParams

from console.forms import Fields, FormFields
from console.pages.dlq_selections import reason_of
from console.pages.place import STREAM, DlqPlace, PageStream, Replayer, Viewer
from console.pulse import NOTIFY
from console.rendering import make_address
from console.subscribers import SubscriberReport, SubscriberSettings, first_moment, report_subscribers
from core import moments
from core.clock import to_rfc3339
from core.errors import PayhookError
from core.event import Mode
from core.routing import of_stream, stream_of
from core.status_file import StatusWait, StreamStatuses, fresh_status, waits_of
from journal.journals import own_rows_after
from ledger.queries.answers import SubscriberAnswers, read_subscriber_answers
from ledger.queries.lake import TableRows
from operations.command import REPLAY
from operations.selection.model import RunRequest

MODES: Sequence[Mode] = ("live", "test")


class SubscriberPages:
    """Shows subscribers, and the form of a replay; each method but the private ones is a route."""

    def __init__(self, place: DlqPlace) -> None:
        self._place = place
        self._ask = place.asking.ask

    async def listed(self, request: Request, _user: Viewer) -> Response:
        return await self._show(request, Fields(QueryParams()))

    async def send(self, request: Request, user: Replayer, fields: FormFields) -> Response:
        name, since, reason = fields.text("name"), fields.read("since", moments.parse_since), reason_of(fields)
        if since is None and "since" not in fields.problems:
            fields.add_problem("since", "Enter a time: 2026-01-31 or 2026-01-31T12:00:00Z")
        try:
            settings = {subscriber.name: subscriber for subscriber in await self._ask(self._place.subscribers)}
        except PayhookError:
            return await self._show(request, fields, 422)
        subscriber = settings.get(name or "")
        if subscriber is None:
            fields.add_problem("name", "Choose a subscriber")
        elif subscriber.state != "active":
            fields.add_problem("name", f"{subscriber.name} isn't active: enable it first")
        if subscriber is None or since is None or reason is None or fields.problems:
            return await self._show(request, fields, 422)
        runs = await self._ask(self._begin, subscriber, since, reason, user.name)
        if not runs:
            missed = f"{subscriber.name} missed nothing since {to_rfc3339(since)} that isn't already being sent"
            return await self._show(request, fields, notice=missed)
        stream, number = runs[0]
        path = f"/dlq/selections/{number}" if len(runs) == 1 else "/dlq/selections"
        return RedirectResponse(make_address(path, {STREAM: stream}), 303)

    def _begin(self, subscriber: SubscriberSettings, since: datetime, reason: str, actor: str) -> list[tuple[str, int]]:
        parts = of_stream(self._place.streams, stream_of(NOTIFY, subscriber.mode)).values()
        missed = [(part, self._place.missed(subscriber.name, part.files.journal, since)) for part in parts]
        begun = []
        for part, items in missed:
            for selection in part.selections.freeze_ignored(items, actor, reason):
                part.dead.runs.start(selection.number, RunRequest(REPLAY, reason), actor)
                begun.append((part.name, selection.number))
        return begun

    async def _show(self, request: Request, fields: Fields, status: int = 200, notice: str = "") -> Response:
        shown = {"fields": fields, "notice": notice, "reports": [], "waits": [], "problem": ""}
        try:
            settings = await self._ask(self._place.subscribers)
        except PayhookError as unreadable:
            return self._place.show(request, "subscribers.html", status, **{**shown, "problem": str(unreadable)})
        reports, waits = await self._ask(
            _read_reports, self._place.streams, self._place.statuses, settings, self._place.clock.now()
        )
        return self._place.show(request, "subscribers.html", status, **{**shown, "reports": reports, "waits": waits})


def add_subscribers(router: APIRouter, place: DlqPlace) -> None:
    pages = SubscriberPages(place)
    router.add_api_route("/subscribers", pages.listed, methods=["GET"])
    router.add_api_route("/subscribers/send", pages.send, methods=["POST"])


def _read_reports(
    streams: Mapping[str, PageStream],
    stream_statuses: StreamStatuses,
    settings: Sequence[SubscriberSettings],
    now: datetime,
) -> tuple[list[SubscriberReport], list[tuple[str, StatusWait]]]:
    said = stream_statuses.read_all(now)
    answers: dict[Mode, Mapping[str, SubscriberAnswers]] = {}
    statuses: dict[Mode, Iterable[Mapping[str, Any]]] = {}
    waits: list[tuple[str, StatusWait]] = []
    for mode in MODES:
        files = [stream.files for stream in of_stream(streams, stream_of(NOTIFY, mode)).values()]
        journals = [
            TableRows(str(of_it.journal), of_it.stream, own_rows_after(of_it.journal) if number else 0)
            for number, of_it in enumerate(files)
        ]
        answers[mode] = read_subscriber_answers(journals, first_moment(now)) if journals else {}
        fresh_statuses = {
            of_it.stream: status for of_it in files if (status := fresh_status(said[of_it.stream], now)) is not None
        }
        statuses[mode] = fresh_statuses.values()
        waits += [
            (stream, wait)
            for stream, status in fresh_statuses.items()
            for wait in waits_of(status)
            if not wait.downstream
        ]
    return report_subscribers(settings, answers, statuses), waits
