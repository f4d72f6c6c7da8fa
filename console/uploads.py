"""Settlement reports that finance uploads: each is compared with the ledger, one after the other."""

from __future__ import annotations

import logging
import secrets
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date, datetime
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from core.clock import Clock
from core.errors import PayhookError
from core.event import Mode

log = logging.getLogger(__name__)

OPEN_MAX = 5
"""Reports that wait or are compared; each is on the disk meanwhile."""
KEPT_MAX = 100
"""Uploads whose outcome is known; the runs themselves are kept for ever."""
NAME_CHARS_MAX = 100


class UploadsFull(PayhookError):
    def __init__(self) -> None:
        super().__init__(f"{OPEN_MAX} reports wait to be compared: try again when one of them is done")


class ReconcileFailed(PayhookError):
    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class ReportAsked:
    """Says what to compare, as the options of `payhook ledger reconcile`. ``since`` counts, ``until`` doesn't."""

    mode: Mode
    provider: str
    account: str = ""
    tenant: str | None = None
    since: date | None = None
    until: date | None = None


class UploadState(StrEnum):
    WAITS = "waits"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Upload:
    """Follows one report. ``run_id``: of the reconciliation, once it is done; ``problem``: why there is none."""

    upload_id: str
    name: str
    asked: ReportAsked
    actor: str
    at: datetime
    state: UploadState = UploadState.WAITS
    run_id: str | None = None
    problem: str = ""

    @property
    def is_open(self) -> bool:
        return self.state in (UploadState.WAITS, UploadState.RUNNING)


Compare = Callable[[ReportAsked, Path], str]
"""Compares a report's file with the ledger and returns the run's id; raises `ReconcileFailed` where it can't."""


class ReportUploads:
    """Takes reports and has them compared in a thread. Threads may share it."""

    def __init__(self, providers: Sequence[str], compare: Compare, clock: Clock) -> None:
        self.providers = tuple(providers)
        self._compare = compare
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="payhook-report")
        self._uploads: OrderedDict[str, Upload] = OrderedDict()
        self._lock = threading.Lock()

    def accept_report(self, asked: ReportAsked, name: str, file: BinaryIO, actor: str) -> Upload:
        """Keeps the file until it is compared.

        :raises UploadsFull: as many wait as are taken
        """
        upload = Upload(secrets.token_hex(16), _file_name(name), asked, actor, self._clock.now())
        with self._lock:
            if sum(kept.is_open for kept in self._uploads.values()) >= OPEN_MAX:
                raise UploadsFull
            self._uploads[upload.upload_id] = upload
            while len(self._uploads) > KEPT_MAX:
                self._uploads.popitem(last=False)
        try:
            folder = Path(tempfile.mkdtemp(prefix="payhook-report-"))
            with (folder / upload.name).open("xb") as copy:
                shutil.copyfileobj(file, copy)
        except OSError as full:
            self._set(replace(upload, state=UploadState.FAILED, problem=f"the report can't be kept: {full}"))
            return self._uploads[upload.upload_id]
        self._thread.submit(self._run, upload, folder)
        return upload

    def find(self, upload_id: str) -> Upload | None:
        return self._uploads.get(upload_id)

    def open(self) -> list[Upload]:
        with self._lock:
            return [upload for upload in self._uploads.values() if upload.is_open]

    def _run(self, upload: Upload, folder: Path) -> None:
        self._set(replace(upload, state=UploadState.RUNNING))
        try:
            run_id = self._compare(upload.asked, folder / upload.name)
            self._set(replace(upload, state=UploadState.DONE, run_id=run_id))
        except ReconcileFailed as failed:
            self._set(replace(upload, state=UploadState.FAILED, problem=failed.problem))
        except Exception:
            log.exception("the report %s can't be compared", upload.name)
            self._set(replace(upload, state=UploadState.FAILED, problem="the listener's log says why"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _set(self, upload: Upload) -> None:
        with self._lock:
            self._uploads[upload.upload_id] = upload


def _file_name(given: str) -> str:
    """Cleans the name that a browser gave: no folder, nothing that can't be seen, no option."""
    name = given.replace("\\", "/").rpartition("/")[2]
    kept = "".join(char for char in name if char.isprintable())[-NAME_CHARS_MAX:].lstrip("-. ")
    return kept if kept.encode("utf-8", "replace").isascii() and kept else "report.csv"
