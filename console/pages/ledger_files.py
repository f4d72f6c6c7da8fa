"""Files of finance: ``/ledger/export``, and the upload of a provider's settlement report until it is compared."""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import cast

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse, RedirectResponse
from starlette.background import BackgroundTask
from starlette.datastructures import FormData, QueryParams, UploadFile

from console.access.routes import signed_in
from console.forms import Fields
from console.pages.ledger import show_runs
from console.pages.place import Finance, PagePlace, QuestionRunner
from console.uploads import ReportAsked, UploadsFull
from core import moments
from core.errors import PayhookError
from ledger.queries.export import Form, Source, export_table
from ledger.queries.journals import LedgerJournals
from operations.recorder import EXPORT, RECONCILE, Recorder

EXPORT_S_MAX = 120.0
EXPORT_ROWS_MAX = 2_000_000
"""About 400 MB of CSV; `payhook ledger export` has no such limit."""

FORMS = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
SOURCES = ("postings", "journal")


class ExportTooLarge(PayhookError):
    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"{problem}. Choose a shorter time, or use `payhook ledger export`, which has no such limit")


def add_export(router: APIRouter, place: PagePlace, reading: Recorder) -> None:
    # One at a time: each writes a file as large as it likes within its limits.
    exporting = QuestionRunner(at_once=1, waiting=2, seconds=EXPORT_S_MAX + 10)

    @router.get("/ledger/export")
    async def form(request: Request) -> Response:
        return place.show(request, "ledger/export.html", fields=Fields(request.query_params))

    @router.get("/ledger/export/file")
    async def file(request: Request) -> Response:
        fields = Fields(request.query_params)
        source = fields.read_choice("table", SOURCES) or "postings"
        form = fields.read_choice("format", tuple(FORMS)) or "csv"
        since, until = fields.read("from", moments.parse_since), fields.read("to", moments.parse_until)
        if fields.problems:
            return place.show(request, "ledger/export.html", 422, fields=fields)
        name = f"payhook-{place.mode(request)}-{source}.{form}"
        what = f"{name} {moments.describe_span(since, until)}".rstrip()
        record = functools.partial(reading.record, signed_in(request).name, EXPORT, what)
        folder = tempfile.TemporaryDirectory(prefix="payhook-export-", ignore_cleanup_errors=True)
        try:
            out = Path(folder.name) / f"{source}.{form}"
            await exporting.ask(
                write, place.ledger(request), cast(Source, source), out, cast(Form, form), since, until, record=record
            )
        except ExportTooLarge as too_large:
            folder.cleanup()
            fields.add_problem("from", str(too_large))
            return place.show(request, "ledger/export.html", 422, fields=fields)
        except BaseException:
            folder.cleanup()
            raise
        return FileResponse(out, media_type=FORMS[form], filename=name, background=BackgroundTask(folder.cleanup))


def write(
    journals: LedgerJournals,
    source: Source,
    out: Path,
    form: Form,
    since: datetime | None,
    until: datetime | None,
    rows_max: int = EXPORT_ROWS_MAX,
    seconds_max: float = EXPORT_S_MAX,
    record: Callable[[], None] = lambda: None,
) -> None:
    """
    :raises ExportTooLarge: more rows, or more time, than a page gives
    :raises NothingBooked: there is no such table yet
    """
    limits = _make_limits_check(rows_max, seconds_max)
    export_table(
        journals.list_tables(source), source, out, form, since=since, until=until, progress=limits, record=record
    )


def _make_limits_check(rows_max: int, seconds_max: float) -> Callable[[int, int], None]:
    end = time.monotonic() + seconds_max

    def check(_done: int, rows: int) -> None:
        if rows > rows_max:
            raise ExportTooLarge(f"these are {rows:,} rows; a page returns {rows_max:,} at most")
        if time.monotonic() > end:
            raise ExportTooLarge(f"it takes more than {seconds_max:g} s")

    return check


class DayInvalid(PayhookError):
    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"{text!r} isn't a day: write it as 2026-01-31")


def add_uploads(router: APIRouter, place: PagePlace, reading: Recorder) -> None:
    uploads = place.uploads
    if uploads is None:
        return

    @router.post("/ledger/reconciliations")
    async def upload(request: Request, user: Finance) -> Response:
        form: FormData | None = request.state.upload
        fields = Fields(form if form is not None else QueryParams())
        report = None if form is None else form.get("report")
        provider = fields.read_choice("provider", uploads.providers)
        if provider is None:
            fields.add_problem("provider", "Choose the report's provider")
        if not isinstance(report, UploadFile) or not report.filename or not report.size:
            fields.add_problem("report", "Choose the report's CSV file")
        since, until = fields.read("from", _read_day), fields.read("to", _read_day)
        if since is not None and until is not None and since >= until:
            fields.add_problem("to", "Enter a day after the first one")
        report_asked = ReportAsked(
            place.mode(request),
            provider or "",
            fields.text("account") or "",
            fields.text("tenant"),
            since,
            until,
        )
        if fields.problems:
            return await show_runs(place, request, fields, 422)
        assert isinstance(report, UploadFile)
        try:
            taken = await place.asking.ask(
                uploads.accept_report, report_asked, report.filename or "", report.file, user.name
            )
        except UploadsFull as full:
            fields.add_problem("report", str(full))
            return await show_runs(place, request, fields, 409)
        finally:
            await form.close() if form is not None else None
        reading.record(user.name, RECONCILE, f"{report_asked.mode} {report_asked.provider} {taken.name}")
        return RedirectResponse(place.link(request, f"/ledger/reports/{taken.upload_id}"), 303)

    @router.get("/ledger/reports/{upload_id}")
    async def progress(request: Request, upload_id: str) -> Response:
        """Leads to the reconciliation once there is one."""
        upload = uploads.find(upload_id)
        if upload is None:
            return place.show(request, "ledger/unknown.html", 404, what="report", key=upload_id)
        if upload.run_id is not None:
            return RedirectResponse(place.link(request, f"/ledger/reconciliations/{upload.run_id}"), 303)
        return place.show(request, "ledger/report.html", upload=upload)


def _read_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise DayInvalid(text) from None
