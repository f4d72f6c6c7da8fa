"""``/ledger/verification``: what each invariant says, whether it held when it was last looked at, and its query."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request, Response

from console.pages.place import PagePlace
from core.event import Mode
from core.layout import LEDGER, Layout
from core.routing import base_of, mode_of, stream_of
from core.status_file import moment_of, read_said
from ledger.verify.job import OF_DEEP_ALONE, OF_THE_LEDGER, explain, list_invariant_types
from ledger.verify.report import UNKNOWN, WRONG, InvariantState, read_known_invariants

DEEP = frozenset(invariant.name for invariant in OF_DEEP_ALONE)
NOT_YET = "it wasn't looked at yet"
LOOKED_AT_BY_DEEP = "only `payhook verify --deep` looks at it"


@dataclass(frozen=True, slots=True)
class InvariantResult:
    """``state``: holds, wrong or unknown. ``offenders``: some of what the last look found, a JSON text each.

    ``at``: None where it was never looked at. ``note``: what else there is to know of that look; empty: nothing.
    """

    name: str
    sentence: str
    query: str
    state: str
    at: datetime | None
    note: str
    offenders: Sequence[str]


@dataclass(frozen=True, slots=True)
class StreamResult:
    """``at``: when it was last verified; None: never. ``seq``: the last row then; None: an earlier version didn't say.
    ``problem``: why the last round by schedule couldn't verify it.
    """

    stream: str
    at: datetime | None
    seq: int | None
    wrong: int
    problem: str | None
    invariants: Sequence[InvariantResult]


def read_results(layout: Layout, mode: Mode) -> list[StreamResult]:
    """Reads the results of each stream of a mode that was verified, the ledger's first and in any case."""
    verified, by_schedule = read_said(layout.verified_file) or {}, read_said(layout.verification_file) or {}
    problems: Mapping[str, str] = by_schedule.get("problems") or {}
    streams = {stream_of(LEDGER, mode), *(stream for stream in (*verified, *problems) if mode_of(stream) == mode)}
    ordered = sorted(streams, key=lambda stream: (base_of(stream) != LEDGER, stream))
    return [_of_stream(stream, verified.get(stream) or {}, problems.get(stream)) for stream in ordered]


def _of_stream(stream: str, known: Mapping[str, Any], problem: str | None) -> StreamResult:
    results, said_all = read_known_invariants(known), bool(known.get("invariants"))
    # What a verification left out isn't asked of this stream, but for what only a deep one looks at.
    others = frozenset[str]() if base_of(stream) == LEDGER else OF_THE_LEDGER
    invariant_names = [
        name
        for name in list_invariant_types()
        if name in results or (name not in others and (not said_all or name in DEEP))
    ]
    invariants = [_result_of(name, results.get(name), was_verified=said_all) for name in invariant_names]
    invariants.sort(key=lambda invariant: invariant.state != WRONG)
    return StreamResult(
        stream, moment_of(known, "at"), known.get("seq"), len(known.get("wrong") or []), problem, invariants
    )


def _result_of(name: str, known: InvariantState | None, *, was_verified: bool) -> InvariantResult:
    query, sentence = explain(name), list_invariant_types()[name].sentence
    if known is None:
        note = LOOKED_AT_BY_DEEP if name in DEEP and was_verified else NOT_YET
        return InvariantResult(name, sentence, query, UNKNOWN, None, note, ())
    notes = [
        *([f"not checked: {known['not_checked']}"] if known["not_checked"] else []),
        *([f"of the rows from {known['since']:,} on"] if known["since"] > 1 else []),
    ]
    offenders = [json.dumps(offender, ensure_ascii=False) for offender in known["offenders"]]
    return InvariantResult(name, sentence, query, known["state"], moment_of(known, "at"), "; ".join(notes), offenders)


def add_verification(router: APIRouter, place: PagePlace) -> None:
    @router.get("/ledger/verification")
    async def verification(request: Request) -> Response:
        results = await place.asking.ask(read_results, place.layout, place.mode(request))
        return place.show(request, "ledger/verification.html", results=results)
