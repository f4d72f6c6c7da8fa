"""The upload of a provider's settlement report, and the page that waits until it is compared with the ledger."""

from __future__ import annotations

from datetime import date

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from starlette.datastructures import FormData, QueryParams, UploadFile

from console.forms import Fields
from console.pages.ledger import show_runs
from console.pages.place import Finance, PagePlace
from console.uploads import ReportAsked, UploadsFull
from core.errors import PayhookError
from operations.recorder import RECONCILE, Recorder


class DayInvalid(PayhookError):
    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(f"{text!r} is no day: write 2026-01-31")


def add_uploads(router: APIRouter, place: PagePlace, reading: Recorder) -> None:
    """Adds the form and its routes; without `PagePlace.uploads` there is neither."""
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
            fields.add_problem("provider", "say whose report it is")
        if not isinstance(report, UploadFile) or not report.filename or not report.size:
            fields.add_problem("report", "choose the report's CSV file")
        since, until = fields.read("from", _read_day), fields.read("to", _read_day)
        if since is not None and until is not None and since >= until:
            fields.add_problem("to", "it must be after the first day")
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
    """
    :raises DayInvalid: it isn't one
    """
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise DayInvalid(text) from None
