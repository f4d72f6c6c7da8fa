"""Which dead items a command is about: the options of `payhook dlq`, as a filter."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from cli import moments
from core.decision import ErrorKind
from dlq.index import OPEN_STATES, Filter, ItemState, Mark

Command = TypeVar("Command", bound=Callable[..., Any])

_STATES = [state.value for state in ItemState if state is not ItemState.SETTLED]
_KINDS, _MARKS = [kind.value for kind in ErrorKind], [mark.value for mark in Mark]
_OPTIONS = (
    click.option(
        "--state",
        "states",
        multiple=True,
        type=click.Choice([*_STATES, "all"]),
        help="Where it stands [default: open].",
    ),
    click.option("--kind", "kinds", multiple=True, type=click.Choice(_KINDS), help="The error's kind."),
    click.option("--class", "classes", multiple=True, metavar="NAME", help="The error's class."),
    click.option("--provider", "providers", multiple=True, metavar="NAME", help="Who sent the event."),
    click.option("--type", "types", multiple=True, metavar="NAME", help="The event's type."),
    click.option("--account", "accounts", multiple=True, metavar="NAME", help="The provider's account."),
    click.option("--tenant", "tenants", multiple=True, metavar="NAME", help="Whose endpoint it came to."),
    click.option("--mark", "marks", multiple=True, type=click.Choice(_MARKS), help="Poison, or a conflict."),
    click.option("--entity", metavar="KEY", help="The entity (a payment, say): its whole key."),
    click.option("--fingerprint", metavar="HEX", help="The cause, as `payhook dlq groups` names it."),
    click.option("--text", metavar="PART", help="A part of the event's or entity's key, error class or message."),
    click.option("--since", callback=moments.since, metavar="TIME", help="Died then or later (a day or a time, UTC)."),
    click.option("--until", callback=moments.until, metavar="TIME", help="Died before then, a day counts as a whole."),
)


def with_filter(command: Command) -> Command:
    """Gives a command the options of a filter; it gets the filter as ``wanted``. Repeated options widen it."""

    @functools.wraps(command)
    def filtered(*arguments: Any, states: tuple[str, ...], **given: Any) -> Any:
        named = {name: given.pop(name) for name in _NAMES}
        return command(*arguments, wanted=_filter(states, named), **given)

    decorated: Any = filtered
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


_NAMES = (
    *("kinds", "classes", "providers", "types", "accounts", "tenants", "marks"),
    *("entity", "fingerprint", "text", "since", "until"),
)


def _filter(states: tuple[str, ...], named: dict[str, Any]) -> Filter:
    kinds, marks = map(ErrorKind, named.pop("kinds")), map(Mark, named.pop("marks"))
    return Filter(states=_states(states), kinds=tuple(kinds), marks=tuple(marks), **named)


def _states(names: tuple[str, ...]) -> tuple[ItemState, ...]:
    if "all" in names:
        return ()
    return tuple(map(ItemState, names)) or OPEN_STATES[:1]
