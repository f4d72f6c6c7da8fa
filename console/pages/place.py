"""What every page rests on: whose data folder, which traffic, who answers questions, what makes HTML of the answer."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response

from console.links import address
from console.pages.asking import Asking
from console.web import render
from core.clock import Clock
from core.event import Mode
from core.layout import Layout, StreamLayout

MODE = "mode"


@dataclass(frozen=True, slots=True)
class Place:
    """``modes``: those whose traffic is taken here, live first. ``asking`` is finance's: its questions are long."""

    layout: Layout
    modes: Sequence[Mode]
    asking: Asking
    clock: Clock

    def mode(self, request: Request) -> Mode:
        """Whose traffic a request looks at: ``?mode=test``, else live."""
        wanted = request.query_params.get(MODE)
        return next((mode for mode in self.modes if mode == wanted), self.modes[0])

    def ledger(self, request: Request) -> StreamLayout:
        return self.layout.ledger(self.mode(request))

    def link(self, request: Request, path: str, **query: object) -> str:
        """An address that goes on looking at the same traffic."""
        mode = self.mode(request)
        return address(path, {**query, MODE: mode if mode != self.modes[0] else None})

    def here(self, request: Request, **changes: object) -> str:
        """The address that was asked for, with some of its fields changed."""
        given = {name: request.query_params.getlist(name) for name in request.query_params}
        return address(request.url.path, {**given, **changes})

    def show(self, request: Request, template: str, status: int = 200, /, **context: Any) -> Response:
        """A page. Beside what every template has: ``mode``, ``modes``, ``now``, and ``link(path, **query)``."""
        told = {
            "mode": self.mode(request),
            "modes": self.modes,
            "now": self.clock.now(),
            "link": functools.partial(self.link, request),
            "here": functools.partial(self.here, request),
        }
        return render(request, template, status, **told, **context)
