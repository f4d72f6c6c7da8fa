"""Work streams as configuration: streams.toml becomes one `StreamConfig` a stream.

A stream is what it reads (``source``), one function that handles an event (``handler``), and how it decides
(`StreamSettings`). The engine knows none by name: adding one is a table in a file and a handler.

A handler is named as ``module:function``. The function is called once per Python worker and returns a
`core.work.Handler`; it must be importable by name there, because workers are sent its name. It says by the types of its
parameters what it wants (`processor.wiring`)::

    def build(settings: LedgerSettings, providers: ProvidersSettings) -> Handler   # sections of the settings
    def build(settings: GreetSettings) -> Handler      # a model of its own, made from the stream's `settings` table
    def build() -> Handler

A feed (``feed``, where the source is a journal) is named in the same way and returns a `processor.source.feed.Feed`.

Files and settings are laid over one another, table by table, the last one wins: the shipped processor/streams.toml, the
file that ``processor.streams_file`` names, ``[streams.NAME]`` of payhook.toml, ``PAYHOOK_STREAMS__NAME__KEY``. A table
``[defaults]`` holds for every stream that says nothing else.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import (
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)

from core.errors import SettingError
from core.event import Mode
from core.layout import BODIES_OF, LAKE_FOLDERS
from core.routing import (
    MODES,
    OWN_TOPICS,
    WHOLE,
    Shard,
    have_a_name_in_common,
    in_mode,
    stream_of,
    topics_of,
)
from core.where import HeaderFilter, Patterns, WhereInvalid
from operations.settings import DlqSettings
from processor.settings import StreamSettings
from processor.source.source_settings import EARLIEST, FUNCTION, TAGS, StreamSource, TopicSource, parse_starting

SHIPPED = Path(__file__).with_name("streams.toml")
DEFAULTS = "defaults"
RETRY = "retry"
SETTINGS_LAYER = "the settings ([streams.…] of payhook.toml, PAYHOOK_STREAMS__…)"
NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_JOURNAL = "journal:"

Table: TypeAlias = Mapping[str, Any]


class StreamInvalid(SettingError):
    def __init__(self, where: str, stream: str, key: str, problem: str) -> None:
        self.where = where
        self.stream = stream
        self.key = key
        super().__init__(f"{where}: [{stream}] {key}".rstrip(), problem)


class StreamConfig(StreamSettings):
    """The whole configuration of one work stream. ``modes``: whose traffic it takes; a stream in a mode is
    `core.routing.stream_of`."""

    name: str = Field("", exclude=True, description="the table's name in streams.toml")
    enabled: bool = Field(True, description="false: the stream isn't started")
    source: StreamSource = Field(
        "kafka",
        description="kafka (payments.events), kafka:TOPIC (with the headers of a receiver), journal:STREAM (what that "
        'stream applied, or reversed), or { topic = "NAME", identity = "module:function" }: a topic that another '
        "program writes; without an identity its records are CloudEvents",
    )
    starting_offsets: str = Field(
        EARLIEST,
        description="where a new stream begins in its topic of Kafka: earliest (with all that Kafka still holds), "
        "latest (with what comes from then on), or a time such as 2026-01-31T12:00:00Z; no first start, no effect",
    )
    where: dict[str, str | tuple[str, ...]] = Field(
        default_factory=dict,
        description="what of its topic is the stream's, by the headers mode, tenant, zone and provider, each with one "
        'pattern or a list: {tenant = "eu-*", zone = ["a", "b"]}; behind ! what isn\'t; empty: all of it',
    )
    handler: str = Field(pattern=FUNCTION, description="module:function that builds the handler")
    feed: str = Field(
        "",
        pattern=f"({FUNCTION}|^$)",
        description="module:function that says who gets what of a journal; empty: the stream itself gets every row",
    )
    hooks: str = Field(
        "",
        pattern=f"({FUNCTION}|^$)",
        description="module:function that builds the hooks before and after a retry is scheduled or an event is "
        "dead-lettered (docs/streams.md); empty: none",
    )
    settings: dict[str, Any] = Field(default_factory=dict, description="what the handler's own settings model takes")
    modes: tuple[Mode, ...] = Field(
        MODES,
        min_length=1,
        description="traffic that it takes: live, test; of another program's topic live alone, unless it says test: "
        "that is the topic of the same name with .test at its end",
    )
    derived: dict[str, str] = Field(
        default_factory=dict,
        description="tables derived from its journal: the name in the lake, and the module:class that keeps it",
    )
    dlq: DlqSettings = Field(default_factory=lambda: DlqSettings(), description="its dead-letter topic")
    _count: int = PrivateAttr(1)

    @field_validator("starting_offsets")
    @classmethod
    def _is_a_start(cls, text: str) -> str:
        return parse_starting(text).text

    @field_validator("where")
    @classmethod
    def _is_a_where(cls, table: dict[str, Patterns]) -> dict[str, Patterns]:
        try:
            HeaderFilter.read(table)
        except WhereInvalid as wrong:
            raise ValueError(str(wrong)) from None
        return table

    @model_validator(mode="before")
    @classmethod
    def _is_live(cls, given: Any) -> Any:
        """Another program has no test traffic of ours, unless the stream says so."""
        is_foreign = isinstance(given, Mapping) and isinstance(given.get("source"), Mapping)
        return {"modes": ("live",), **given} if is_foreign else given

    @property
    def foreign_source(self) -> TopicSource | None:
        return self.source if isinstance(self.source, TopicSource) else None

    @property
    def source_stream(self) -> str | None:
        is_journal = isinstance(self.source, str) and self.source.startswith(_JOURNAL)
        return str(self.source).removeprefix(_JOURNAL) if is_journal else None

    def events_topic(self, mode: Mode) -> str:
        if self.source == "kafka":
            return topics_of(mode).events
        if isinstance(self.source, TopicSource):
            return in_mode(self.source.topic, mode)
        return in_mode(self.source.partition(":")[2], mode) if self.source_stream is None else ""

    @property
    def is_dividable(self) -> bool:
        return self.source == "kafka"

    def set_shards(self, shards: int) -> None:
        self._count = shards

    @property
    def all_shards(self) -> list[Shard]:
        return [Shard(number, self._count) for number in range(self._count)] if self.is_dividable else [WHOLE]

    def names(self, mode: Mode) -> list[str]:
        return [stream_of(self.name, mode, number) for number in range(len(self.all_shards))]

    def dlq_topics(self, mode: Mode) -> list[str]:
        return [self.dlq_topic(mode, number) for number in range(len(self.all_shards))]

    def dlq_topic(self, mode: Mode, number: int = 0) -> str:
        named = self.dlq.topic
        return stream_of(named or self.dlq.prefix + self.name, mode, number)


@dataclass(frozen=True, slots=True)
class Layer:
    where: str
    tables: Table


def load_streams(file: str = "", settings: Table | None = None, shards: int = 1) -> dict[str, StreamConfig]:
    """Reads every stream that is configured, those that aren't enabled too, by name.

    :param file: the file that ``processor.streams_file`` names, or nothing
    :param settings: the section ``streams`` of the settings
    :param shards: ``processor.shards``
    :raises StreamInvalid: names file, stream and key
    """
    layers = [read_layer(SHIPPED), *([read_layer(Path(file))] if file else []), Layer(SETTINGS_LAYER, settings or {})]
    _check_tables(layers)
    names = dict.fromkeys(name for layer in layers for name in layer.tables if name != DEFAULTS)
    streams = {name: _make_config(name, layers, shards) for name in names}
    for check in _CHECKS:
        for stream in streams.values():
            if (wrong := check(stream, streams)) is not None:
                key, problem = wrong
                raise StreamInvalid(_find_layer(layers, stream.name, key.partition(".")[0]), stream.name, key, problem)
    return streams


def list_enabled(streams: Mapping[str, StreamConfig], mode: Mode) -> list[StreamConfig]:
    return [stream for stream in streams.values() if stream.enabled and mode in stream.modes]


def list_foreign_topics(streams: Mapping[str, StreamConfig], modes: Iterable[Mode]) -> list[str]:
    topics = {
        stream.events_topic(mode)
        for mode in modes
        for stream in list_enabled(streams, mode)
        if stream.foreign_source is not None
    }
    return sorted(topics)


def list_names(streams: Mapping[str, StreamConfig], modes: Iterable[Mode]) -> list[str]:
    return [name for mode in modes for stream in list_enabled(streams, mode) for name in stream.names(mode)]


def read_layer(file: Path) -> Layer:
    try:
        return Layer(str(file), tomllib.loads(file.read_text("utf-8")))
    except (OSError, ValueError) as unreadable:
        raise StreamInvalid(str(file), "*", "", f"the file can't be read: {unreadable}") from unreadable


def _check_tables(layers: Sequence[Layer]) -> None:
    for layer in layers:
        for name, table in layer.tables.items():
            if not isinstance(table, Mapping):
                raise StreamInvalid(layer.where, name, "", f"expected a table: write [{name}] on its own line")
            if name != DEFAULTS and (not NAME.fullmatch(name) or name.endswith("-test")):
                problem = "a stream's name is of small letters, digits and '-', 40 at most, and doesn't end in -test"
                raise StreamInvalid(layer.where, name, "", problem)


def _make_config(name: str, layers: Sequence[Layer], shards: int) -> StreamConfig:
    merged: dict[str, Any] = {}
    for table in (DEFAULTS, name):
        for layer in layers:
            merged = _merge_tables(merged, layer.tables.get(table, {}))
    if "name" in merged:
        raise StreamInvalid(
            _find_layer(layers, name, "name"), name, "name", "the table's name is the stream's: leave it out"
        )
    try:
        config = StreamConfig(**merged, name=name)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False)[0]
        path = [str(part) for part in first["loc"] if part not in TAGS]
        problem = _describe_problem(first["type"], path, first["msg"])
        raise StreamInvalid(_find_layer(layers, name, path[0] if path else ""), name, ".".join(path), problem) from None
    config.set_shards(shards)
    return config


def _merge_tables(under: Table, over: Table) -> dict[str, Any]:
    """Lays a table over another one. A policy for all kinds of errors stays where one for a kind is laid over it."""
    if isinstance(under.get(RETRY), str) and isinstance(over.get(RETRY), Mapping):
        under = {**under, RETRY: {"default": under[RETRY]}}
    both = {
        key: _merge_tables(under[key], over[key])
        for key in under.keys() & over.keys()
        if isinstance(under[key], Mapping) and isinstance(over[key], Mapping)
    }
    return {**under, **over, **both}


def _find_layer(layers: Sequence[Layer], name: str, key: str) -> str:
    for table in (name, DEFAULTS):
        for layer in reversed(layers):
            if key in layer.tables.get(table, {}):
                return layer.where
    return next(layer.where for layer in reversed(layers) if name in layer.tables)


def _describe_problem(kind: str, path: Sequence[str], message: str) -> str:
    field = StreamConfig.model_fields.get(path[0] if path else "")
    described = "" if field is None else field.description
    if kind == "missing":
        return f"it is missing: {described}"
    if kind == "extra_forbidden":
        known = sorted(StreamConfig.model_fields.keys() - {"name"}) if len(path) == 1 else []
        close = difflib.get_close_matches(path[-1], known, 1)
        return "no such key" + (
            f"; did you mean {close[0]}?" if close else f"; known are {', '.join(known)}" * bool(known)
        )
    if kind == "string_pattern_mismatch" and described and len(path) == 1:
        return f"{message[:200]}; expected {described}"
    return message


Wrong: TypeAlias = tuple[str, str] | None
"""The key that is wrong in a stream's table, and why."""


def _check_source(stream: StreamConfig, streams: Mapping[str, StreamConfig]) -> Wrong:
    if stream.foreign_source is not None and stream.foreign_source.topic in OWN_TOPICS:
        return "source.topic", f"{stream.foreign_source.topic} is payhook's own: no other program writes it"
    source = stream.source_stream
    if source is None or not stream.enabled:
        return None
    known = streams.get(source)
    if known is None or not known.enabled:
        return "source", f"there is no stream {source}, or it isn't enabled"
    if known.source_stream is not None:
        return "source", f"{source} reads a journal itself: name one that reads kafka"
    if stream.starting_offsets != EARLIEST:
        return (
            "starting_offsets",
            "one that reads a journal begins with what is applied from then on; leave it out",
        )
    lacking = set(stream.modes) - set(known.modes)
    if lacking:
        return "modes", f"{source} takes no {' and '.join(sorted(lacking))} traffic: leave it out here too"
    return None


def _check_where(stream: StreamConfig, _streams: Mapping[str, StreamConfig]) -> Wrong:
    if stream.where and stream.source_stream is not None:
        return "where", f"it is for streams that read a topic of Kafka, this one reads {stream.source}: leave it out"
    return None


def _check_feed(stream: StreamConfig, _streams: Mapping[str, StreamConfig]) -> Wrong:
    if stream.feed and stream.source_stream is None:
        return "feed", "it is for streams that read a journal, this one doesn't: leave it out"
    return None


def _check_derived(stream: StreamConfig, streams: Mapping[str, StreamConfig]) -> Wrong:
    for table, kept_by in stream.derived.items():
        key = f"derived.{table}"
        if not NAME.fullmatch(table):
            return key, "a table's name is of small letters, digits and '-', 40 at most"
        if table.startswith(BODIES_OF) or any(have_a_name_in_common(table, own) for own in LAKE_FOLDERS):
            return key, "a folder of payhook's own in the lake has that name, in some mode or shard: choose another one"
        if not re.match(FUNCTION, kept_by):
            return key, "expected module:class, such as ledger.postings:PostingsWriter"
        for other in streams.values():
            for theirs in other.derived:
                if (other.name, theirs) != (stream.name, table) and have_a_name_in_common(table, theirs):
                    problem = f"{other.name} keeps {theirs}, the same table in some mode or shard: choose another name"
                    return key, problem
    return None


def _check_dlq(stream: StreamConfig, streams: Mapping[str, StreamConfig]) -> Wrong:
    topic = stream.dlq_topic("live")
    read = {other.events_topic(mode): other.name for other in streams.values() for mode in MODES}
    if topic in read or topic in OWN_TOPICS:
        by = f"the stream {read[topic]} reads it" if topic in read else "it is payhook's own"
        return "dlq.topic", f"it is {topic}, and {by}: name another topic for dead letters"
    for other in streams.values():
        theirs = other.dlq_topic("live")
        if other.name != stream.name and have_a_name_in_common(topic, theirs):
            problem = f"it is {topic}, and {other.name} has {theirs}: each stream has its own, in every mode and shard"
            return "dlq.topic", problem
    return None


_CHECKS = (_check_source, _check_where, _check_feed, _check_derived, _check_dlq)
