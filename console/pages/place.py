"""Gives pages their data folder, the traffic and stream that are looked at, and who answers questions."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Annotated, Any, ParamSpec, TypeAlias, TypeVar

from fastapi import Depends, Request, Response

from console.access.roles import Role, User
from console.access.routes import require_role
from console.attention import Attention
from console.day import DayReader
from console.dead_letters import StreamDeadLetters
from console.details import Detail
from console.pulse import Pulse
from console.rendering import make_address, quote_segment, render_page
from console.subscribers import FindMissed, SubscriberSettings
from console.uploads import ReportUploads
from core.clock import Clock
from core.errors import PayhookError
from core.event import Mode
from core.layout import Layout, StreamLayout
from core.routing import mode_of, of_stream
from core.status_file import StreamStatuses
from dead_letters.dead_letter_index import DeadLetterIndex
from ledger.queries.journals import LedgerJournals
from operations.selection.selections import Selections

Viewer = Annotated[User, Depends(require_role(Role.VIEWER))]
Replayer = Annotated[User, Depends(require_role(Role.REPLAYER))]
Admin = Annotated[User, Depends(require_role(Role.ADMIN))]
Finance = Annotated[User, Depends(require_role(Role.FINANCE))]
"""The user that a route gets, and the role that it demands by that."""

AT_ONCE_MAX = 2
"""A question uses all cores already."""

WAITING_MAX = 8
ANSWER_S_MAX = 20.0

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")


class TooMuchAsked(PayhookError):
    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"{problem}; ask for less (a shorter time, one merchant), or try again in a moment")


class QuestionRunner:
    """Runs what blocks in threads of its own. A question whose asker has left still ends in its thread."""

    def __init__(
        self, *, at_once: int = AT_ONCE_MAX, waiting: int = WAITING_MAX, seconds: float = ANSWER_S_MAX
    ) -> None:
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="payhook-page")
        self._open = 0
        self._counting = threading.Lock()
        self._open_max = at_once + waiting
        self._seconds = seconds

    async def ask(self, question: Callable[Asked, Answer], *args: Asked.args, **kwargs: Asked.kwargs) -> Answer:
        self._begin()
        running = self._threads.submit(question, *args, **kwargs)
        running.add_done_callback(self._end)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(running), self._seconds)
        except TimeoutError:
            raise TooMuchAsked(f"there is no answer after {self._seconds:g} s") from None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _begin(self) -> None:
        with self._counting:
            if self._open >= self._open_max:
                raise TooMuchAsked(f"{self._open} questions are waiting for their answers")
            self._open += 1

    def _end(self, _: Future[Any]) -> None:
        with self._counting:
            self._open -= 1


MODE = "mode"

TraceAddress: TypeAlias = Callable[[str], str | None]
"""The address of an id's trace; None where no trace system is named."""


def no_traces(_trace_id: str) -> None:
    """Returns no address: the `TraceAddress` where no trace system is named."""


@dataclass(frozen=True, slots=True)
class PagePlace:
    """``modes``: those whose traffic is taken here, live first. ``asking`` is finance's: its questions are long.
    ``order_field``: of bodies, that holds order ids; empty: none. ``uploads``: compares reports that are uploaded;
    None: they aren't taken here. ``traces``: where the trace of an id is looked at.
    """

    layout: Layout
    modes: Sequence[Mode]
    asking: QuestionRunner
    clock: Clock
    order_field: str = ""
    uploads: ReportUploads | None = None
    traces: TraceAddress = no_traces

    def mode(self, request: Request) -> Mode:
        mode_name = request.query_params.get(MODE)
        return next((mode for mode in self.modes if mode == mode_name), self.modes[0])

    def ledger(self, request: Request) -> LedgerJournals:
        return LedgerJournals.open(self.layout.all_ledgers(self.mode(request)))

    def link(self, request: Request, path: str, **query: object) -> str:
        mode = self.mode(request)
        return make_address(path, {**query, MODE: mode if mode != self.modes[0] else None})

    def page_of(self, request: Request, detail: Detail) -> str | None:
        if detail.about is None:
            return None
        kind, key = detail.about
        if kind == "trace":
            return self.traces(key)
        return self.link(request, f"/ledger/{'events' if kind == 'event' else 'entities'}/{quote_segment(key)}")

    def link_here(self, request: Request, **changes: object) -> str:
        fields = {name: request.query_params.getlist(name) for name in request.query_params}
        return make_address(request.url.path, {**fields, **changes})

    def show(self, request: Request, template: str, status: int = 200, /, **context: Any) -> Response:
        """Renders a page. Beside what every template has: ``mode``, ``modes``, ``now``, and ``link(path, **query)``."""
        shown = {
            "mode": self.mode(request),
            "modes": self.modes,
            "now": self.clock.now(),
            "link": functools.partial(self.link, request),
            "here": functools.partial(self.link_here, request),
            "page_of": functools.partial(self.page_of, request),
        }
        return render_page(request, template, status, **shown, **context)


STREAM = "stream"


@dataclass(frozen=True, slots=True)
class PageStream:
    dead: StreamDeadLetters
    files: StreamLayout

    @property
    def name(self) -> str:
        return self.dead.stream

    @property
    def mode(self) -> Mode:
        return mode_of(self.name)

    @property
    def index(self) -> DeadLetterIndex:
        return self.dead.index

    @property
    def selections(self) -> Selections:
        return self.dead.selections


@dataclass(frozen=True, slots=True)
class DlqPlace:
    """``streams``: by name, the live ledger's first. ``statuses``: what their processors say.
    ``pulse``: the live figures. ``attention``: what waits for people. ``day``: what streams did in the last one.
    ``subscribers``: those that the settings name; ``missed``: what one of them missed. Both block. ``traces``: where
    the trace of an id is looked at.
    """

    streams: Mapping[str, PageStream]
    statuses: StreamStatuses
    asking: QuestionRunner
    clock: Clock
    pulse: Pulse
    attention: Attention
    day: DayReader = field(default_factory=DayReader)
    subscribers: Callable[[], Sequence[SubscriberSettings]] = tuple
    missed: FindMissed = lambda *_: ()
    traces: TraceAddress = no_traces

    def stream(self, request: Request) -> PageStream:
        stream_name = request.query_params.get(STREAM)
        return self.streams.get(stream_name or "", self._first_stream)

    def list_parts(self, stream: PageStream) -> Mapping[str, PageStream]:
        return of_stream(self.streams, stream.name)

    def link(self, request: Request, path: str, **query: object) -> str:
        name = self.stream(request).name
        return make_address(path, {**query, STREAM: name if name != self._first_stream.name else None})

    def ledger_link(self, request: Request, path: str, **query: object) -> str:
        mode = self.stream(request).mode
        return make_address(path, {**query, MODE: mode if mode != self._first_stream.mode else None})

    def page_of(self, request: Request, detail: Detail) -> str | None:
        if detail.about is None:
            return None
        kind, key = detail.about
        if kind == "trace":
            return self.traces(key)
        if kind == "event":
            return self.ledger_link(request, f"/ledger/events/{quote_segment(key)}")
        return self.link(request, "/dlq", view="items", entity=key)

    async def ask(
        self, stream: PageStream, question: Callable[Asked, Answer], *args: Asked.args, **kwargs: Asked.kwargs
    ) -> Answer:
        def followed() -> Answer:
            stream.index.follow()
            return question(*args, **kwargs)

        return await self.asking.ask(followed)

    def show(self, request: Request, template: str, status: int = 200, /, **context: Any) -> Response:
        """Renders a page. Beside what every template has: ``stream``, ``streams`` (their names), ``now``, `link`."""
        shown = {
            "stream": self.stream(request),
            "streams": list(self.streams),
            "now": self.clock.now(),
            "link": functools.partial(self.link, request),
            "ledger_link": functools.partial(self.ledger_link, request),
            "page_of": functools.partial(self.page_of, request),
        }
        return render_page(request, template, status, **shown, **context)

    @property
    def _first_stream(self) -> PageStream:
        return next(iter(self.streams.values()))
