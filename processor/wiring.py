"""Finds what a work stream's configuration names and holds it together. Opens nothing; knows no stream by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel

from core.event import Mode
from core.place import Place
from core.routing import journal_topic, stream_of, topics_of
from core.work import Handler, Receivers
from processor.decide.head_of_line import HeadLimits
from processor.decide.hooks import RecoveryHooks
from processor.factories import bound, named
from processor.judge.classify import Classifier
from processor.judge.retry import parse_policy
from processor.rules import StreamRules
from processor.run.payload import decoder_of, decoding
from processor.run.worker import Task
from processor.settings import DeadHead
from processor.source.feed import Feed, OwnFeed
from processor.source.journal_source import FirstNamed, has_journal
from processor.streams import StreamConfig


class Places(Protocol):
    """Where one stream keeps what it writes (`core.layout.StreamLayout`). ``trying`` is disposable."""

    @property
    def stream(self) -> str: ...
    @property
    def journal(self) -> Place: ...
    @property
    def bodies(self) -> Place: ...
    @property
    def index(self) -> Path: ...
    @property
    def checkpoint(self) -> Path: ...
    @property
    def status(self) -> Path: ...
    @property
    def trying(self) -> Path: ...
    @property
    def selections(self) -> Place: ...
    def derived(self, table: str) -> Place: ...


@dataclass(frozen=True, slots=True)
class Reads:
    """The journal that a stream reads: whose it is, where it is, and who gets what of it."""

    stream: str
    journal: Place
    feed: Feed
    receivers: Receivers
    since: FirstNamed = field(default_factory=FirstNamed)

    def idle_because(self, mode: Mode) -> str | None:
        """Why there is nothing to read; None where there is. Whoever is named by now gets what comes from now on,
        however long the stream takes to begin.
        """
        receivers = self.feed.receivers(mode)
        self.since.named([journal_topic(self.stream, name) for name in receivers], self.journal)
        if not has_journal(self.journal):
            return f"the journal of {self.stream} hasn't begun"
        return None if receivers else "nobody is configured to receive anything"


@dataclass(frozen=True, slots=True)
class Wired:
    """A stream whose configuration has been found good: what it names is there. Nothing of it is open yet."""

    config: StreamConfig
    mode: Mode
    places: Places
    build_handler: Callable[[], Handler]
    derived: Mapping[str, Any]
    task: Task
    rules: StreamRules
    build_hooks: Callable[[], RecoveryHooks] | None = None
    reads: Reads | None = None

    @property
    def name(self) -> str:
        """The stream's name in its mode."""
        return self.places.stream


def wire(
    config: StreamConfig, mode: Mode, places_of: Callable[[str], Places], sections: Mapping[type, BaseModel]
) -> Wired:
    """Finds what the configuration names, before Spark is started.

    :param places_of: places by a stream's name in its mode
    :raises SettingError: a handler or a table's class isn't there, or a rule can't be read; names stream and key
    """
    decoder = decoder_of(config.payload, bytes_max=config.payload_bytes_max, setting=f"[{config.name}] payload")
    receivers = Receivers()
    given = {**sections, Receivers: receivers}
    build_handler = decoding(bound(f"[{config.name}] handler", config.handler, given, config.settings), decoder)
    derived = {table: named(f"[{config.name}] derived.{table}", kept) for table, kept in config.derived.items()}
    hooks = bound(f"[{config.name}] hooks", config.hooks, sections, {}) if config.hooks else None
    return Wired(
        config,
        mode,
        places_of(stream_of(config.name, mode)),
        build_handler,
        derived,
        _task(config, mode, build_handler),
        _rules(config, mode),
        hooks,
        _reads(config, mode, places_of, sections, receivers),
    )


def _reads(
    config: StreamConfig,
    mode: Mode,
    places_of: Callable[[str], Places],
    sections: Mapping[type, BaseModel],
    receivers: Receivers,
) -> Reads | None:
    if config.source_stream is None:
        return None
    source = stream_of(config.source_stream, mode)
    feed: Feed = OwnFeed(config.name)
    if config.feed:
        feed = bound(f"[{config.name}] feed", config.feed, sections, {})()
    return Reads(source, places_of(source).journal, feed, receivers)


def _rules(config: StreamConfig, mode: Mode) -> StreamRules:
    return StreamRules(
        name=stream_of(config.name, mode),
        events_topic=config.events_topic(mode),
        control_topic=topics_of(mode).control,
        policy=parse_policy(config.retry),
        dead_head=config.dead_head,
        due_per_batch_max=config.due_per_batch_max,
        due_bytes_max=config.bytes_per_batch_max,
        drain_per_entity_max=config.drain_per_entity_max,
        probe_s_max=config.probe_s_max,
        mode=mode,
        heads=HeadLimits(config.head_age_max_s, config.stuck_share_max),
        replays_max=config.dlq.replays_max,
        alone=config.dlq.alone,
    )


def _task(config: StreamConfig, mode: Mode, build_handler: Callable[[], Handler]) -> Task:
    return Task(
        stream=stream_of(config.name, mode),
        build_handler=build_handler,
        classifier=Classifier(config.errors, setting=f"[{config.name}] errors"),
        deadline_s=config.handler_deadline_s,
        concurrency=config.concurrency,
        in_place_tries=config.in_place_tries,
        stop_on_dead=config.dead_head is not DeadHead.CONTINUE,
        batch_deadline_s=config.batch_deadline_s,
        hung_max=config.hung_calls_max,
    )
