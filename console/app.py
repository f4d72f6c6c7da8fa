"""The listener's four pages. It holds no state: each request asks the processes and their files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
from fastapi import Depends, FastAPI, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from console.access import Everybody
from console.exposition import CONTENT_TYPE, Scrape, merge
from console.lag import Marks
from core.clock import Clock, from_rfc3339

ASK_TIMEOUT_S = 2.0
STATUS_AGE_MAX = timedelta(seconds=30)
"""The processor writes its status about once a second; a batch may take longer."""


_probed = Depends(Everybody("probes, Prometheus and `payhook status` don't sign in; it is figures and states"))


@dataclass(frozen=True, slots=True)
class Watched:
    """What the listener asks. ``metrics`` maps a process's name to the URL of its metrics, ``lag`` marks to counts.

    ``test_processor_status`` is None where no test traffic is taken. ``streams``: every work stream's status file.
    """

    ingest_ready_url: str
    processor_status: Path
    metrics: Mapping[str, str]
    lag: Callable[[Marks], dict[str, int] | None]
    test_processor_status: Path | None = None
    streams: Mapping[str, Path] = field(default_factory=dict)


def create_app(watched: Watched, client: httpx2.AsyncClient, clock: Clock) -> FastAPI:
    """The management listener.

    ``/healthz`` answers while it lives, ``/readyz`` 200 or 503, ``/status`` JSON, ``/metrics`` what
    Prometheus scrapes of all processes.
    """
    app = FastAPI(title="payhook management", docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/healthz", dependencies=[_probed])
    async def healthz() -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    @app.get("/readyz", dependencies=[_probed])
    async def readyz() -> JSONResponse:
        status = await read_status(watched, client, clock.now())
        return JSONResponse({"ready": status["ready"]}, status_code=200 if status["ready"] else 503)

    @app.get("/status", dependencies=[_probed])
    async def status() -> JSONResponse:
        read = await read_status(watched, client, clock.now())
        for side in (read, read["test"]) if "test" in read else (read,):
            side["lag"] = await asyncio.to_thread(watched.lag, side["processor"].get("marks", {}))
        return JSONResponse(read)

    @app.get("/metrics", dependencies=[_probed])
    async def metrics() -> Response:
        scrapes = [await _scrape(name, url, client) for name, url in watched.metrics.items()]
        return Response(merge(scrapes), media_type=CONTENT_TYPE)

    return app


async def read_status(watched: Watched, client: httpx2.AsyncClient, now: datetime) -> dict[str, Any]:
    """``{"ready": …, "ingest": {"ready": …}, "processor": {…}}``; the processor's own words, with their age.

    Where test traffic is taken, ``"test": {"ready": …, "processor": {…}}`` too; ``ready`` is of live traffic alone.
    ``"streams"`` has the words of every work stream; the ledger's alone decide about ``ready``.
    """
    ingest_ready = await _is_ok(watched.ingest_ready_url, client)
    said = {**_side(ingest_ready, watched.processor_status, now), "ingest": {"ready": ingest_ready}}
    if watched.test_processor_status is not None:
        said["test"] = _side(ingest_ready, watched.test_processor_status, now)
    if watched.streams:
        said["streams"] = {name: _processor(path, now) for name, path in watched.streams.items()}
    return said


def _side(ingest_ready: bool, processor_status: Path, now: datetime) -> dict[str, Any]:
    processor = _processor(processor_status, now)
    return {"ready": ingest_ready and bool(processor["ready"]), "processor": processor}


def _processor(path: Path, now: datetime) -> dict[str, Any]:
    try:
        said: dict[str, Any] = json.loads(path.read_text("utf-8"))
        age = now - from_rfc3339(said["at"])
    except (OSError, ValueError, KeyError):
        return {"ready": False}
    fresh = age <= STATUS_AGE_MAX
    return {**said, "ready": bool(said.get("ready")) and fresh, "age_s": round(age.total_seconds(), 3)}


async def _is_ok(url: str, client: httpx2.AsyncClient) -> bool:
    try:
        return (await client.get(url, timeout=ASK_TIMEOUT_S)).status_code == 200
    except httpx2.HTTPError:
        return False


async def _scrape(name: str, url: str, client: httpx2.AsyncClient) -> Scrape:
    try:
        answer = await client.get(url, timeout=ASK_TIMEOUT_S)
        answer.raise_for_status()
    except httpx2.HTTPError:
        return Scrape(name, None)
    return Scrape(name, answer.text)
