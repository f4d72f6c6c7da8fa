"""Gives every command its settings, its data folder and the stack's addresses; reads times and reasons as typed."""

from __future__ import annotations

import errno
import functools
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from core import moments
from core.errors import PayhookError
from core.event import Mode
from core.layout import LEDGER, Layout, StreamLayout
from core.moments import MomentInvalid
from core.record_keys import RecordKeys
from core.routing import SHARD_MARK, base_of, mode_of, shard_of, stream_of
from core.settings import KafkaSettings
from core.visible import kept_text
from processor.streams import StreamConfig
from stack.data_folder import limit_rights
from stack.endpoints import Endpoints, read_endpoints
from stack.errors import NotUp
from stack.servers.kafka_users import security_of
from stack.settings import Settings, load_settings, streams_of

if TYPE_CHECKING:
    from ledger.queries.journals import LedgerJournals

STREAM_NAME = re.compile(r"[a-z][a-z0-9-]*(\.\d{1,3})?")
"""A stream's name, with its journal's number or without."""

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Place:
    """Holds one data folder with its settings; ``config`` is the settings file that was named, if one was.

    ``mode``: whose ledger is looked at. ``stream``: the work stream that is, where a command may look at any: all of
    its journals, or ``ledger.1``, or ``ledger.0`` for the first one alone.
    """

    settings: Settings
    config: Path | None
    mode: Mode = "live"
    stream: str = LEDGER

    @property
    def layout(self) -> Layout:
        return self.settings.layout

    @property
    def ledger(self) -> LedgerJournals:
        # What reads tables takes half a second to load; few commands need it.
        from ledger.queries.journals import LedgerJournals

        return LedgerJournals.open(self.layout.all_ledgers(self.mode))

    @property
    def looked_at(self) -> StreamLayout:
        return self.layout.stream(stream_of(base_of(self.stream), self.mode, shard_of(self.stream)))

    @property
    def options_again(self) -> str:
        stream = "" if self.stream == LEDGER else f" --stream {self.stream}"
        return stream + (" --test" if self.mode == "test" else "")

    @property
    def stream_parts(self) -> dict[str, Place]:
        if SHARD_MARK in self.stream:
            return {self.looked_at.stream: self}
        config = streams_of(self.settings)[base_of(self.stream)]
        names = config.names(self.mode)
        if len(names) == 1:
            return {names[0]: self}
        return {name: replace(self, stream=part) for name, part in zip(names, _part_names(config), strict=True)}

    @property
    def has_several(self) -> bool:
        return len(self.stream_parts) > 1

    def find_part(self, name: str) -> Place:
        """Finds the part of a stream's name: ``ledger.1``, with ``--test`` also ``ledger-test.1``.

        :raises click.UsageError: it isn't looked at
        """
        stream = stream_of(base_of(name), self.mode, shard_of(name)) if STREAM_NAME.fullmatch(name) else name
        part = self.stream_parts.get(stream)
        if part is None or mode_of(name) not in ("live", self.mode):
            raise click.UsageError(f"there is no stream {name!r} here: choose one of {', '.join(self.stream_parts)}")
        return part

    def part_of_entity(self, entity_key: str) -> Place:
        from journal.journals import Journals

        journals = Journals([part.looked_at for part in self.stream_parts.values()])
        return self.stream_parts[journals.of_entity(entity_key).stream]

    def endpoints(self) -> Endpoints:
        endpoints = read_endpoints(self.settings.data_dir)
        if endpoints is None:
            raise NotUp(self.settings.data_dir)
        return endpoints

    def record_keys(self) -> RecordKeys:
        return RecordKeys(Path(self.settings.kafka.record_keys_file))

    def kafka(self) -> KafkaSettings:
        """Returns the Kafka that is set, else the running stack's, as its operator.

        :raises NotUp: neither is there
        """
        if self.settings.kafka.is_outside:
            return self.settings.kafka
        own_broker = {
            "bootstrap_servers": self.endpoints().kafka,
            "security": security_of(self.layout.kafka, "operator"),
        }
        return self.settings.kafka.model_copy(update=own_broker)


NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def with_place(command: Command) -> Command:
    """Gives a command ``--data`` and ``--config``, and turns errors into one sentence and exit 1.

    Those are payhook's own errors, a file that the system refuses, and words that aren't UTF-8.
    """

    @click.option(
        "--data", type=click.Path(path_type=Path, file_okay=False), help="Data folder (default: .payhook/data)."
    )
    @click.option(
        "--config", type=click.Path(path_type=Path, dir_okay=False), help="Settings file (default: payhook.toml)."
    )
    @functools.wraps(command)
    def wrapped(data: Path | None, config: Path | None, **given: Any) -> Any:
        try:
            return command(_open_place(data, config), **given)
        except PayhookError as problem:
            _end(str(problem))
        except UnicodeError as problem:
            _end(f"the input isn't UTF-8: {problem}")
        except OSError as problem:
            if problem.filename is None and problem.errno not in NO_ROOM:
                raise
            where = "" if problem.filename is None else f"{problem.filename}: "
            advice = ". Make room, then run the command again" if problem.errno in NO_ROOM else ""
            _end(f"{where}{problem.strerror}{advice}")

    return wrapped  # type: ignore[return-value]


def _end(sentence: str) -> NoReturn:
    click.echo(f"payhook: {sentence}", err=True)
    sys.exit(1)


def with_place_of_mode(command: Command) -> Command:
    """Gives a command the options of `with_place`, and ``--test`` for the test side of the data folder."""

    @click.option("--test", "is_test", is_flag=True, help="Use test traffic, which has its own ledger.")
    @functools.wraps(command)
    def chosen(place: Place, is_test: bool, **given: Any) -> Any:
        return command(replace(place, mode="test" if is_test else "live"), **given)

    return with_place(chosen)  # type: ignore[return-value]


STREAM_HELP = "The work stream: all its shards, or one (ledger.1)."


def with_place_of_stream(command: Command) -> Command:
    """Gives a command the options of `with_place_of_mode`, and ``--stream`` for any work stream."""

    @click.option("--stream", default=LEDGER, show_default=True, metavar="NAME", help=STREAM_HELP)
    @functools.wraps(command)
    def chosen(place: Place, stream: str, **given: Any) -> Any:
        check_stream(place.settings, stream)
        return command(replace(place, stream=stream), **given)

    return with_place_of_mode(chosen)  # type: ignore[return-value]


def check_stream(settings: Settings, stream: str) -> None:
    configured = streams_of(settings)
    parts = {name: _part_names(config) for name, config in configured.items()}
    if stream not in configured and stream not in parts.get(base_of(stream), []):
        options = [option for name in configured for option in (name, *(parts[name] if len(parts[name]) > 1 else []))]
        raise click.BadParameter(
            f"there is no stream {stream}: choose one of {', '.join(options)}", param_hint="--stream"
        )


def _part_names(config: StreamConfig) -> list[str]:
    return [f"{config.name}{SHARD_MARK}{number}" for number in range(len(config.names("live")))]


def _open_place(data: Path | None, config: Path | None) -> Place:
    if data is not None:
        os.environ["PAYHOOK_DATA_DIR"] = str(data.absolute())
    config = config.absolute() if config is not None else None
    settings = load_settings(config)
    limit_rights(settings)
    return Place(settings, config)


def _read(
    read: Callable[[str], datetime], ctx: click.Context | None, param: click.Parameter | None, text: str | None
) -> datetime | None:
    if text is None:
        return None
    try:
        return read(text)
    except MomentInvalid as wrong:
        raise click.BadParameter(str(wrong), ctx, param) from wrong


read_since = functools.partial(_read, moments.parse_since)
"""The first moment that counts; a day begins with its first."""
read_until = functools.partial(_read, moments.parse_until)
"""The first moment that doesn't count any more; a day counts as a whole."""
read_as_of = functools.partial(_read, moments.as_of)
"""The first moment after the one that is named; a day counts as a whole."""


class KeptText(click.ParamType[str]):
    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return kept_text(str(value))
        except ValueError as wrong:
            self.fail(str(wrong), param, ctx)


KEPT_TEXT = KeptText()
