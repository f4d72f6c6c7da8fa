"""What the operators' pages rest on: the work streams, each with its dead items, and which of them is looked at."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from fastapi import Request, Response

from console.dead_letters import DeadLetters
from console.links import address
from console.pages.asking import Asking
from console.pages.place import MODE
from console.web import render
from core.clock import Clock
from core.event import Mode
from core.layout import StreamLayout
from core.routing import mode_of
from dlq.index import DeadLetterIndex
from dlq.selection import Selections

STREAM = "stream"

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class WorkStream:
    """One work stream, and where it keeps what."""

    dead: DeadLetters
    files: StreamLayout

    @property
    def name(self) -> str:
        return self.dead.stream

    @property
    def mode(self) -> Mode:
        return mode_of(self.name)

    @property
    def board(self) -> DeadLetterIndex:
        return self.dead.board

    @property
    def selections(self) -> Selections:
        return self.dead.selections


@dataclass(frozen=True, slots=True)
class DlqPlace:
    """``streams``: by name, the live ledger's first."""

    streams: Mapping[str, WorkStream]
    asking: Asking
    clock: Clock

    def stream(self, request: Request) -> WorkStream:
        """The stream that a request looks at: ``?stream=notify``, else the first."""
        wanted = request.query_params.get(STREAM)
        return self.streams.get(wanted or "", self._first)

    def link(self, request: Request, path: str, **query: object) -> str:
        """An address that goes on looking at the same stream."""
        name = self.stream(request).name
        return address(path, {**query, STREAM: name if name != self._first.name else None})

    def ledger_link(self, request: Request, path: str, **query: object) -> str:
        """An address of finance's pages about the same traffic."""
        mode = self.stream(request).mode
        return address(path, {**query, MODE: mode if mode != self._first.mode else None})

    async def ask(
        self, stream: WorkStream, question: Callable[Asked, Answer], *args: Asked.args, **kwargs: Asked.kwargs
    ) -> Answer:
        """What the board says, after it has taken in what the journal has gained."""

        def followed() -> Answer:
            stream.board.follow()
            return question(*args, **kwargs)

        return await self.asking.ask(followed)

    def show(self, request: Request, template: str, status: int = 200, /, **context: Any) -> Response:
        """A page. Beside what every template has: ``stream``, ``streams`` (their names), ``now``, `link`."""
        told = {
            "stream": self.stream(request),
            "streams": list(self.streams),
            "now": self.clock.now(),
            "link": functools.partial(self.link, request),
            "ledger_link": functools.partial(self.ledger_link, request),
        }
        return render(request, template, status, **told, **context)

    @property
    def _first(self) -> WorkStream:
        return next(iter(self.streams.values()))
