"""``/subscribers``: who is told what was booked, whether they take it, and what waits for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Depends, Request, Response

from console.access.roles import Role
from console.access.routes import require
from console.health import read_status_file
from console.pages.place import DlqPlace, WorkStream
from console.pulse import NOTIFY
from console.subscribers import SubscriberReport, SubscriberSettings, first_moment, report_subscribers
from core.errors import PayhookError
from core.event import Mode
from core.routing import of_stream, stream_of
from core.status_file import Wait, fresh, waits_of
from journal.shards import own_rows_after
from ledger.queries.answers import SubscriberAnswers, subscriber_answers
from ledger.queries.lake import Rows

MODES: Sequence[Mode] = ("live", "test")


def add_subscribers(router: APIRouter, place: DlqPlace) -> None:
    @router.get("/subscribers", dependencies=[Depends(require(Role.VIEWER))])
    async def subscribers(request: Request) -> Response:
        now = place.clock.now()
        try:
            settings = await place.asking.ask(place.subscribers)
        except PayhookError as unreadable:
            return place.show(request, "subscribers.html", reports=[], waits=[], problem=str(unreadable))
        reports, waits = await place.asking.ask(_reports, place.streams, settings, now)
        return place.show(request, "subscribers.html", reports=reports, waits=waits, problem="")


def _reports(
    streams: Mapping[str, WorkStream], settings: Sequence[SubscriberSettings], now: datetime
) -> tuple[list[SubscriberReport], list[tuple[str, Wait]]]:
    """Subscribers, and the streams that tell none of them now, each with what it waits for.

    :raises LedgerUnreadable: a journal is damaged
    """
    answers: dict[Mode, Mapping[str, SubscriberAnswers]] = {}
    statuses: dict[Mode, Iterable[Mapping[str, Any]]] = {}
    waits: list[tuple[str, Wait]] = []
    for mode in MODES:
        places = [one.files for one in of_stream(streams, stream_of(NOTIFY, mode)).values()]
        journals = [
            Rows(str(one.journal), one.stream, own_rows_after(one.journal) if number else 0)
            for number, one in enumerate(places)
        ]
        answers[mode] = subscriber_answers(journals, first_moment(now)) if journals else {}
        said = {one.stream: read_status_file(one.status, now) for one in places}
        known = {stream: status for stream, status in said.items() if fresh(status, now) is not None}
        statuses[mode] = known.values()
        waits += [(stream, one) for stream, status in known.items() for one in waits_of(status) if not one.downstream]
    return report_subscribers(settings, answers, statuses), waits
