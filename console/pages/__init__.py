"""The pages of the listener: finance's over the ledger, operators' over what is dead."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, Depends

from console.access.accounts import UserService
from console.access.roles import Role
from console.access.routes import require_role
from console.bookings import BookingService
from console.pages.dlq import add_item, add_list
from console.pages.dlq_selections import add_selections
from console.pages.ledger import add_balances, add_reports, add_search, add_stories, add_unknown
from console.pages.ledger_bookings import booking_routes
from console.pages.ledger_files import add_export, add_uploads
from console.pages.ledger_home import add_home, add_owed, add_postings, add_verification
from console.pages.overview import add_alerts, add_audit, add_overview, catch_up_routes, received_routes
from console.pages.place import DlqPlace, PagePlace, PageStream
from console.pages.search import search_routes
from console.pages.subscribers import add_subscribers
from console.pages.users import user_routes
from console.received import AskReceived, not_read
from core.event import Mode
from operations.audit_log import AuditLog
from operations.recorder import Recorder

__all__ = ["DlqPlace", "PagePlace", "PageStream", "make_routers"]


def make_routers(
    finance: PagePlace,
    dlq: DlqPlace,
    audit_log: AuditLog,
    users: UserService,
    bookings: Mapping[Mode, BookingService],
    received: AskReceived = not_read,
) -> list[APIRouter]:
    stories = APIRouter()
    add_stories(stories, finance)
    return [
        search_routes(finance, dlq),
        stories,
        _make_ledger_router(finance, Recorder(audit_log, finance.clock, "page"), bookings),
        booking_routes(finance, bookings),
        _make_dlq_router(dlq, audit_log),
        received_routes(finance, received),
        catch_up_routes(finance),
        user_routes(users, dlq.asking, dlq.clock),
    ]


def _make_ledger_router(place: PagePlace, reading: Recorder, bookings: Mapping[Mode, BookingService]) -> APIRouter:
    router = APIRouter(dependencies=[Depends(require_role(Role.FINANCE))])
    for add in (add_balances, add_postings, add_owed, add_search, add_unknown, add_reports):
        add(router, place)
    add_home(router, place, bookings)
    add_verification(router, place)
    add_export(router, place, reading)
    add_uploads(router, place, reading)
    return router


def _make_dlq_router(place: DlqPlace, audit_log: AuditLog) -> APIRouter:
    router = APIRouter()
    for add in (add_overview, add_alerts, add_subscribers, add_list, add_item, add_selections):
        add(router, place)
    add_audit(router, place, audit_log)
    return router
