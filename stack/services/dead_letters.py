"""One work stream's dead letters from the settings: its board, its selections and what runs them."""

from __future__ import annotations

import os
import socket
from functools import partial

from console.access.users import Users, hands_of
from console.dead_letters import DeadLetters
from core.clock import Clock
from core.layout import StreamLayout
from core.routing import base_of, mode_of, stream_of, topics_of
from dlq.audit_log import AuditLog
from dlq.commands import Producer
from dlq.index import DeadLetterIndex, kafka_origin
from dlq.recorder import Recorder
from dlq.selection import DryRuns, FactFinder, Outcomes, Runner, SelectionFile, Selections, StatusLoad
from ledger.body_amounts import BodyAmounts
from ledger.redactions import body_statuses
from stack.settings import Settings, streams_of


def open_board(layout: StreamLayout, settings: Settings, clock: Clock, bootstrap: str | None = None) -> DeadLetterIndex:
    """The board of one stream. ``bootstrap``: Kafka's servers, to ask for bodies that aren't kept; None: not to ask."""
    known = partial(body_statuses, layout.bodies, layout.derived("redactions"))
    return DeadLetterIndex(
        layout.board,
        layout.journal,
        layout.bodies,
        clock,
        fates=known,
        origin=None if bootstrap is None else kafka_origin(bootstrap),
        amounts=BodyAmounts(settings.providers),
    )


def stream_names(settings: Settings) -> list[str]:
    """Every work stream of every mode whose traffic is taken."""
    return [
        stream_of(name, mode)
        for mode in settings.ingest.modes
        for name, config in streams_of(settings).items()
        if config.enabled and mode in config.modes
    ]


def open_dead_letters(settings: Settings, stream: str, clock: Clock, channel: str) -> DeadLetters:
    """``channel``: through which acts come: ``page``, ``api`` or ``cli``."""
    layout = settings.layout
    places, limits = layout.stream(stream), settings.selections
    config = streams_of(settings)[base_of(stream)]
    board = open_board(places, settings, clock, settings.kafka.bootstrap_servers)
    file = SelectionFile(places.selections)
    outcomes = Outcomes(file, places.journal, topics_of(mode_of(stream)).control)
    users, alone = Users(layout.users), config.dlq.alone

    def hands(name: str) -> frozenset[str]:
        return hands_of(users.all(), name)

    selections = Selections(stream, file, board, outcomes, limits, alone, clock, AuditLog(layout.acts), channel, hands)
    finder = FactFinder(places.board, places.journal, places.bodies)
    return DeadLetters(
        stream,
        board,
        selections,
        DryRuns(file, board, finder, clock),
        config.dead_head.value,
        Recorder(AuditLog(layout.acts), clock, channel),
        config.dlq.replays_max,
    )


def open_runner(settings: Settings, stream: str, producer: Producer, clock: Clock) -> Runner:
    """Runs the stream's selections in this process."""
    places, control = settings.layout.stream(stream), topics_of(mode_of(stream)).control
    file = SelectionFile(places.selections)
    return Runner(
        stream,
        file,
        Outcomes(file, places.journal, control),
        producer,
        control,
        StatusLoad(places.status),
        settings.selections,
        clock,
        f"{socket.gethostname()}:{os.getpid()}",
    )
