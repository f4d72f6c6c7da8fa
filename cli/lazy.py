"""A group whose commands are imported when they are asked for: `payhook down` waits for no module of Arrow's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class Later:
    """Where a command is, as ``module:name``, and its line in the group's help."""

    place: str
    line: str


class LazyGroup(click.Group):
    """``later``: the group's commands by their names."""

    def __init__(self, *args: Any, later: Mapping[str, Later], **more: Any) -> None:
        super().__init__(*args, **more)
        self.later = later

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own signature
        return sorted(self.later)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        there = self.later.get(cmd_name)
        if there is None:
            return None
        module, _, name = there.place.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.later[name].line) for name in self.list_commands(ctx)])
