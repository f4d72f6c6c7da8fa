"""One work stream's dead letters, put together: its board, its selections and whoever runs them."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from console.access.users import Users, hands_of
from core.clock import Clock
from core.routing import base_of, mode_of, stream_of, topics_of
from dlq.acts import Acts
from dlq.board import Board, ItemStory
from dlq.commands import Producer
from dlq.selection import (
    Asked,
    DryRuns,
    FactFinder,
    Outcomes,
    Run,
    Runner,
    SelectionFile,
    Selections,
    StatusLoad,
)
from dlq.witness import READ_PAYLOAD, Reading
from stack.boards import open_board
from stack.settings import Settings, streams_of

RUNNER_STOP_S_MAX = 5.0


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """What may be asked and done about one stream's dead events. ``stream``: ``ledger``, or ``ledger-test``."""

    stream: str
    board: Board
    selections: Selections
    dry_runs: DryRuns
    dead_head: str
    reading: Reading
    replays_max: int = 5

    def item(self, item_seq: int, actor: str) -> ItemStory:
        """Everything that is known of one item. That its bytes were read is on record before they are handed out.

        :raises ActsUnwritable: it can't be put on record
        """
        story = self.board.item(item_seq)
        if story.payload.raw is not None:
            self.reading.record(actor, READ_PAYLOAD, f"{self.stream} item {item_seq}")
        return story

    def asked(self, run: Run) -> Asked:
        """How a dry run of this run is meant."""
        return Asked(run.mode, self.dead_head, run.in_place, run.force, self.replays_max)


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

    selections = Selections(stream, file, board, outcomes, limits, alone, clock, Acts(layout.acts), channel, hands)
    finder = FactFinder(places.board, places.journal, places.bodies)
    return DeadLetters(
        stream,
        board,
        selections,
        DryRuns(file, board, finder, clock),
        config.dead_head.value,
        Reading(Acts(layout.acts), clock, channel),
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


@contextmanager
def running(runners: Mapping[str, Runner]) -> Iterator[None]:
    """A thread each, until this is left; then their runs may go on elsewhere at once."""
    stop = threading.Event()
    threads = [
        threading.Thread(target=runner.run, args=(stop,), name=f"runs-{stream}", daemon=True)
        for stream, runner in runners.items()
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(RUNNER_STOP_S_MAX)
