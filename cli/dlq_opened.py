"""A stream's dead letters as the command line opens them, and how it names selections."""

from __future__ import annotations

import re

import click

from cli.acting import producer
from cli.place import Place
from console.dead_letters import DeadLetters
from core.clock import SystemClock
from core.event import Mode
from core.routing import mode_of
from stack.services.dead_letters import open_dead_letters

_NAME = re.compile(r"[sS]([1-9][0-9]{0,11})")


class SelectionName(click.ParamType[int]):
    """``s3``: with its letter, so that nobody takes it for an item."""

    name = "selection"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = number_of(str(value))
        if number is None:
            self.fail(f"{value!r} is no selection: they are s1, s2, …; `payhook dlq selections` lists them", param, ctx)
        return number


SELECTION = SelectionName()


def number_of(text: str) -> int | None:
    """3 of ``s3``; None: it is no selection's name."""
    found = _NAME.fullmatch(text)
    return int(found[1]) if found else None


def opened(place: Place) -> DeadLetters:
    """Of the stream that is looked at."""
    return open_dead_letters(place.settings, place.looked_at.stream, SystemClock(), "cli", lambda: producer(place))


def options_again(place: Place) -> str:
    """The options that lead to the same stream again, for a command that is told."""
    mode: Mode = mode_of(place.looked_at.stream)
    stream = "" if place.stream == "ledger" else f" --stream {place.stream}"
    return stream + (" --test" if mode == "test" else "")
