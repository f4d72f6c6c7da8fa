"""Finds what a work stream's configuration names and holds it together. Opens nothing; knows no stream by name."""

from __future__ import annotations

import importlib
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pydantic import BaseModel, ValidationError

from core.errors import SettingError
from core.event import Mode
from core.layout import StreamLayout
from core.location import Location
from core.routing import journal_topic, stream_of
from core.work import Handler, Receivers
from journal.lake import has_table
from processor.errors.classify import Classifier
from processor.errors.error_rules import Rules
from processor.reporting.hooks import RecoveryHooks
from processor.rules import StreamRules
from processor.settings import DeadHead
from processor.source.feed import Feed, OwnFeed
from processor.source.foreign import ForeignTopic, identify_cloudevent, unwrap_value
from processor.source.journal_source import FirstNamed
from processor.source.source_settings import CLOUDEVENTS
from processor.streams import StreamConfig
from processor.workers.deadlines import Deadlines
from processor.workers.framing import Unwrap
from processor.workers.payload import Decoder, Decoding, make_decoder
from processor.workers.worker import HandlerFiles, Task

ON_DRIVER = "on_driver"
"""The function beside a handler's ``build`` that makes its `core.work.DriverSide`."""


@dataclass(frozen=True, slots=True)
class Reads:
    journals: Mapping[str, Location]
    feed: Feed
    receivers: Receivers
    since: FirstNamed = field(default_factory=FirstNamed)

    def idle_because(self, mode: Mode) -> str | None:
        """Says why there is nothing to read; None where there is.

        Receivers that are named by now get what comes from now on, however late the stream begins.
        """
        receivers = self.feed.receivers(mode)
        for stream, journal in self.journals.items():
            self.since.note_receivers([journal_topic(stream, name) for name in receivers], journal)
            if not has_table(str(journal)):
                return f"the journal of {stream} hasn't begun"
        return None if receivers else "no receiver is configured"


@dataclass(frozen=True, kw_only=True)
class Wired(StreamRules):
    """A stream whose configuration has been found good: what it names is there. Nothing of it is open yet."""

    places: StreamLayout
    task: Task
    derived: Mapping[str, Any]
    build_hooks: Callable[[], RecoveryHooks] | None = None
    reads: Reads | None = None
    foreign: ForeignTopic | None = None


def wire_stream(
    config: StreamConfig,
    mode: Mode,
    places_of: Callable[[str], StreamLayout],
    sections: Mapping[type, BaseModel],
    number: int = 0,
    sources: Sequence[str] = (),
) -> Wired:
    """Finds what the configuration names, before Spark is started.

    :param places_of: places by a stream's name in its mode
    :param number: which of its shards decides
    :param sources: the streams whose journals it reads, by their names in the mode
    :raises SettingError: a handler or a table's class isn't there, or a rule can't be read; names stream and key
    """
    decoder = make_decoder(
        config.payload,
        bytes_max=config.payload_bytes_max,
        setting=f"[{config.name}] payload",
        schemas=config.payload_schemas,
        unwrap=_make_unwrap(config),
    )
    receivers = Receivers()
    given = {**sections, Receivers: receivers}
    build_handler = partial(
        Decoding, bind_function(f"[{config.name}] handler", config.handler, given, config.settings), decoder
    )
    name = config.names(mode)[number]
    return Wired(
        config=config,
        mode=mode,
        shard_number=number,
        places=places_of(name),
        task=_make_task(config, name, build_handler, _make_handler_files(config, given)),
        derived={table: load_named(f"[{config.name}] derived.{table}", kept) for table, kept in config.derived.items()},
        build_hooks=bind_function(f"[{config.name}] hooks", config.hooks, sections, {}) if config.hooks else None,
        reads=_make_reads(config, mode, places_of, sections, receivers, sources),
        foreign=_make_foreign_topic(config, mode, decoder),
    )


def _make_unwrap(config: StreamConfig) -> Unwrap | None:
    source = config.foreign_source
    if source is None:
        return None
    is_event, is_json = source.identity == CLOUDEVENTS, config.payload == "json"
    return partial(unwrap_value, is_event=is_event, is_json=is_json) if is_event or is_json else None


def _make_foreign_topic(config: StreamConfig, mode: Mode, decoder: Decoder) -> ForeignTopic | None:
    source = config.foreign_source
    if source is None:
        return None
    identity, setting = identify_cloudevent, f"[{config.name}] source.identity"
    if source.identity != CLOUDEVENTS:
        identity = load_named(setting, source.identity)
        if not callable(identity):
            raise SettingError(setting, f"{source.identity} isn't a function")
    return ForeignTopic(config.events_topic(mode), source.identity, identity, decoder, mode)


def _make_reads(
    config: StreamConfig,
    mode: Mode,
    places_of: Callable[[str], StreamLayout],
    sections: Mapping[type, BaseModel],
    receivers: Receivers,
    sources: Sequence[str],
) -> Reads | None:
    if config.source_stream is None:
        return None
    names = sources or [stream_of(config.source_stream, mode)]
    feed: Feed = OwnFeed(config.name)
    if config.feed:
        feed = bind_function(f"[{config.name}] feed", config.feed, sections, {})()
    return Reads({name: places_of(name).journal for name in names}, feed, receivers)


def _make_handler_files(config: StreamConfig, given: Mapping[type, object]) -> HandlerFiles:
    module = config.handler.partition(":")[0]
    if not hasattr(importlib.import_module(module), ON_DRIVER):
        return HandlerFiles()
    return HandlerFiles(bind_function(f"[{config.name}] handler", f"{module}:{ON_DRIVER}", given, config.settings)())


def _make_task(config: StreamConfig, name: str, build_handler: Callable[[], Handler], files: HandlerFiles) -> Task:
    return Task(
        name,
        build_handler,
        make_classifier(config.errors, f"[{config.name}] errors"),
        Deadlines(config.handler_deadline_s, config.batch_deadline_s),
        config.concurrency,
        stop_on_dead=config.dead_head is DeadHead.WAIT,
        files=files,
    )


def make_classifier(rules: Rules, setting: str = "errors") -> Classifier:
    """
    :param setting: how the rules are named in a message
    :raises SettingError: the hook isn't there
    """
    hook = load_named(f"{setting}.hook", rules.hook) if rules.hook else None
    if hook is not None and not callable(hook):
        raise SettingError(f"{setting}.hook", f"{rules.hook} isn't a function")
    return Classifier(rules, hook)


def bind_function(
    setting: str, name: str, sections: Mapping[type, object], own: Mapping[str, Any]
) -> Callable[[], Any]:
    """Binds the arguments of the function ``name`` ("module:function"), so that it is called without any; picklable by
    reference.

    A parameter whose type is one of ``sections`` gets what stands there: a section of the settings, or
    `core.work.Receivers`. Another pydantic model is made from ``own``. A parameter without such a type is an error.

    :param setting: how the function is named in messages, with the file and the key that it comes from
    :raises SettingError: there is no such function, or it asks for what there isn't
    """
    function = load_named(setting, name)
    parameters = _read_parameters(setting, name, function)
    given = {
        parameter: _make_argument(setting, parameter, kind, sections, own) for parameter, kind in parameters.items()
    }
    if own and not any(kind not in sections for kind in parameters.values()):
        raise SettingError(setting, f"{name} takes no settings of its own: leave the table `settings` out")
    return partial(function, **given)


def load_named(setting: str, name: str) -> Any:
    """Imports what ``module:name`` names.

    :raises SettingError: there is no such module, or it has no such name
    """
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as missing:
        problem = f"there is no module {missing.name}: install it, or put its folder on PYTHONPATH"
        raise SettingError(setting, problem) from missing
    except AttributeError as missing:
        raise SettingError(setting, f"the module {module} has no {attribute}") from missing


def _read_parameters(setting: str, name: str, function: Any) -> dict[str, Any]:
    try:
        signature, kinds = inspect.signature(function), typing.get_type_hints(function)
    except (TypeError, NameError) as unreadable:
        raise SettingError(setting, f"the parameters of {name} can't be read: {unreadable}") from unreadable
    needed = [
        parameter.name for parameter in signature.parameters.values() if parameter.default is inspect.Parameter.empty
    ]
    return {parameter: kinds.get(parameter) for parameter in needed}


def _make_argument(
    setting: str, parameter: str, kind: Any, sections: Mapping[type, object], table: Mapping[str, Any]
) -> object:
    if kind in sections:
        return sections[kind]
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        problem = f"its parameter {parameter} has the type {kind}: expected a section of the settings or a model"
        raise SettingError(setting, problem)
    try:
        return kind(**table)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False)[0]
        path = ".".join(["settings", *(str(part) for part in first["loc"])])
        raise SettingError(f"{setting}, {path}", first["msg"]) from None
