"""Handles the notify stream: sends one signed request to one subscriber for each event, unless that subscriber is
disabled.

It runs on executors. Its files, and who is disabled, are where the stream decides (`NotifyDriverSide`).
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from core.clock import EPOCH, Clock, SystemClock, to_rfc3339
from core.errors import SettingError
from core.files import TextFiles, problem_of, write_whole
from core.status_file import moment_of
from core.work import Applied, Handler, Ignored, Outcome, Receivers, WorkItem, calling
from notify.addresses import Resolver, shown_url
from notify.errors import GONE, FileUnusable, SubscriberGone, SubscribersUnreadable
from notify.facts import ENVELOPE_VERSION, EnvelopeHead, read_notice, subscriber_of
from notify.sender import Sender, downstream_of, secret_file
from notify.settings import NotifySettings
from notify.subscribers import HeaderFile, Subscriber, SubscribersFile, subscribers_file

log = logging.getLogger(__name__)

GONE_S = 5.0
"""Seconds for which a worker sends nothing more to a subscriber that answered 410 to it, unless a person
enables it meanwhile; by then all workers know."""


@dataclass(frozen=True, slots=True)
class Disabled:
    at: str
    reason: str


class DisabledSubscribers:
    """A folder of ``NAME.json``, looked at before each request: since when a subscriber is disabled, or enabled again.
    It is read where the stream decides, and its files are sent to the executors with each job.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = TextFiles()

    def find(self, name: str) -> Disabled | None:
        """Finds out whether a subscriber is disabled: None if it isn't. A file that can't be read disables."""
        path = self.path(name)
        try:
            document = json.loads(self._files.text(path))
            if "enabled_at" in document:
                return None
            return Disabled(str(document["at"]), str(document["reason"]))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError):
            return Disabled("", f"{path} is there but can't be read")

    def disable_subscriber(self, name: str, at: str, reason: str) -> None:
        """Writes it down, unless it is written already.

        :raises OSError: it can't be written
        """
        if self.find(name) is None:
            document = {"subscriber": name, "at": at, "reason": reason}
            write_whole(self.path(name), json.dumps(document) + "\n", mode=0o644)

    def enable_subscriber(self, name: str, at: str) -> None:
        """Writes that over what disables it, so that a worker that has just been answered 410 sees it too.

        :raises OSError: it can't be written
        """
        write_whole(self.path(name), json.dumps({"subscriber": name, "enabled_at": at}) + "\n", mode=0o644)

    def read_text(self, name: str) -> str | None:
        try:
            return self._files.text(self.path(name))
        except (OSError, ValueError):
            return None

    def path(self, name: str) -> Path:
        return self._folder / f"{name}.json"


class NotifyHandler:
    """Sends each event at least once, under an id that never changes: handlers run before the commit. Any thread may
    call it."""

    def __init__(
        self,
        subscribers: SubscribersFile,
        disabled: DisabledSubscribers,
        sender: Sender,
        clock: Clock,
        receivers: Receivers,
    ) -> None:
        self.version = f"notify-{ENVELOPE_VERSION}"
        self._subscribers = subscribers
        self._disabled = disabled
        self._sender = sender
        self._clock = clock
        self._receivers = receivers
        self._gone: dict[str, tuple[float, str | None, Disabled]] = {}

    def __call__(self, item: WorkItem) -> Outcome:
        """
        :raises SubscribersUnreadable: the whole stream waits
        :raises NoticeUnreadable: this event can't be sent
        :raises DownstreamHeld: the subscriber isn't to be called now
        :raises SubscriberGone: the subscriber's events wait
        :raises FileUnusable, AddressRefused, Unreachable, NotTaken: another try may do
        """
        name = subscriber_of(item.event_key)
        subscriber = self._subscribers.find(name)
        if subscriber is None:
            return self._answer_unknown(name)
        notice = read_notice(item.event_key, item.body)
        reason = self._why_not(subscriber, item.event_type, notice)
        if reason is not None:
            log.info("%s isn't sent: %s", notice.id, reason)
            return Ignored(reason)
        log.info("sends %s to subscriber %s at %s", notice.id, name, shown_url(subscriber.url, path_is_secret=True))
        answer = self._sender.send(subscriber, notice.id, item.body, item.traceparent)
        log.info("subscriber %s answered %d", name, answer.status)
        if answer.status == GONE:
            gone = Disabled(to_rfc3339(self._clock.now()), f"it answered {GONE} to {notice.id}")
            self._gone[name] = (self._clock.monotonic_s() + GONE_S, self._disabled.read_text(name), gone)
            return Ignored(_disabled_since(name, gone), note=(name, gone.at, gone.reason))
        if not 200 <= answer.status <= 299:
            raise self._sender.not_taken(name, answer)
        return Applied()

    def close(self) -> None:
        self._sender.close()

    def _answer_unknown(self, name: str) -> Outcome:
        """Answers for a subscriber that isn't in the file. A section that vanished while the stream runs may be a slip,
        and what is ignored is ignored for good."""
        if name not in self._receivers.names:
            return Ignored(f"there is no subscriber {name} any more")
        with calling(downstream_of(name)):
            raise SubscriberGone(name, self._subscribers.path)

    def _why_not(self, subscriber: Subscriber, event_type: str, notice: EnvelopeHead) -> str | None:
        name = subscriber.name
        if not subscriber.enabled:
            return f"subscriber {name} isn't enabled"
        if notice.mode != subscriber.mode:
            return f"subscriber {name} takes {subscriber.mode} facts, this is a {notice.mode} one"
        if not subscriber.may_see(notice.tenant):
            return f"subscriber {name} isn't this tenant's"
        if not subscriber.wants_type(event_type) and not (
            notice.reverses is not None and subscriber.wants_type(notice.reverses)
        ):
            return f"subscriber {name} doesn't want {notice.reverses or event_type}"
        disabled = self._disabled.find(name) or self._just_gone(name)
        return None if disabled is None else _disabled_since(name, disabled)

    def _just_gone(self, name: str) -> Disabled | None:
        until, before, gone = self._gone.get(name, (0.0, None, None))
        return gone if self._clock.monotonic_s() < until and self._disabled.read_text(name) == before else None


def build(
    settings: NotifySettings, receivers: Receivers, *, clock: Clock | None = None, resolver: Resolver | None = None
) -> Handler:
    """Builds the handler, once per Python worker; picklable by reference. Connects nowhere before the first event.

    :param receivers: those that the stream was started with
    :raises SettingError: the subscribers file isn't named, or the CA file can't be used
    """
    clock = clock or SystemClock()
    return NotifyHandler(
        subscribers_file(settings),
        DisabledSubscribers(disabled_folder(settings)),
        Sender(settings, clock, resolver),
        clock,
        receivers,
    )


class NotifyDriverSide:
    def __init__(self, settings: NotifySettings) -> None:
        self._settings = settings
        self._subscribers = subscribers_file(settings)
        self._disabled = DisabledSubscribers(disabled_folder(settings))

    def files(self) -> Mapping[Path, Path]:
        files = {self._subscribers.path: self._subscribers.path}
        if self._settings.ca_file:
            files[Path(self._settings.ca_file)] = Path(self._settings.ca_file)
        try:
            subscribers = self._subscribers.read_all().values()
        except SubscribersUnreadable:
            return files
        for subscriber in subscribers:
            disabled = self._disabled.path(subscriber.name)
            files[disabled] = disabled
            headers = [
                subscriber.folder / value.file for value in subscriber.headers.values() if isinstance(value, HeaderFile)
            ]
            for path in (subscriber.secrets_path, *headers):
                with contextlib.suppress(FileUnusable):
                    files[path] = secret_file(subscriber, path, self._settings)
        return files

    def keep(self, note: tuple[str, ...]) -> None:
        """Writes down that a subscriber answered 410. If that can't be written it is asked once more by the next
        event."""
        name, at, reason = note
        try:
            self._disabled.disable_subscriber(name, at, reason)
        except OSError as unwritable:
            path = self._disabled.path(name)
            log.error("subscriber %s isn't kept as disabled: %s: %s", name, path, problem_of(unwritable))


def on_driver(settings: NotifySettings) -> NotifyDriverSide:
    return NotifyDriverSide(settings)


def disabled_folder(settings: NotifySettings) -> Path:
    file = Path(settings.subscribers_file)
    return Path(settings.data_dir or file.parent) / f"{file.stem}.disabled"


def disabled_since(settings: NotifySettings) -> dict[str, datetime | None] | None:
    """Reads for each subscriber that events are sent to when it answered 410, None if it didn't. None if the file of
    subscribers can't be read."""
    disabled = DisabledSubscribers(disabled_folder(settings))
    try:
        names = [name for name, subscriber in subscribers_file(settings).read_all().items() if subscriber.enabled]
    except (SettingError, SubscribersUnreadable):
        return None if settings.subscribers_file and Path(settings.subscribers_file).exists() else {}
    disabled_of = {name: disabled.find(name) for name in names}
    return {
        name: None if entry is None else moment_of({"at": entry.at}, "at") or EPOCH
        for name, entry in disabled_of.items()
    }


def _disabled_since(name: str, disabled: Disabled) -> str:
    since = f" since {disabled.at}" if disabled.at else ""
    return f"subscriber {name} is disabled{since}: {disabled.reason}; `payhook notify enable {name}` enables it"
