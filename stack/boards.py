"""A work stream's list of dead items, from the settings."""

from __future__ import annotations

from functools import partial

from core.clock import Clock
from dlq.board import Board, kafka_origin
from ledger.body_amounts import BodyAmounts
from ledger.body_fates import fates
from stack.layout import StreamLayout
from stack.settings import Settings


def open_board(layout: StreamLayout, settings: Settings, clock: Clock, bootstrap: str | None = None) -> Board:
    """The board of one stream. ``bootstrap``: Kafka's servers, asked for bodies that aren't kept; None: nobody is."""
    known = partial(fates, layout.bodies, layout.derived("redactions"))
    return Board(
        layout.board,
        layout.journal,
        layout.bodies,
        clock,
        settings.board,
        fates=known,
        origin=None if bootstrap is None else kafka_origin(bootstrap),
        amounts=BodyAmounts(settings.providers),
    )
