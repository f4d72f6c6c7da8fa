"""The notify stream's handler: one event is one signed request to one subscriber, unless that one is disabled."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from core.clock import Clock, SystemClock, to_rfc3339
from core.errors import SettingError
from core.files import problem_of, sync_folder, write_whole
from core.work import Applied, Handler, Ignored, Outcome, Receivers, WorkItem, calling
from notify.addresses import Resolver
from notify.errors import GONE, NotDisabled, SubscriberGone
from notify.facts import ENVELOPE_VERSION, Notice, read_notice, subscriber_of
from notify.sender import Sender, downstream_of
from notify.settings import NotifySettings
from notify.subscribers import Subscriber, SubscribersFile


@dataclass(frozen=True, slots=True)
class Disabled:
    """Since when (RFC 3339, UTC), and why."""

    at: str
    reason: str


class DisabledSubscribers:
    """A folder of ``NAME.json``. Every executor looks there before each request, so all of them stop at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, name: str) -> Disabled | None:
        """None while the subscriber isn't disabled. A file that can't be read disables."""
        path = self._path(name)
        try:
            document = json.loads(path.read_text("utf-8"))
            return Disabled(str(document["at"]), str(document["reason"]))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError):
            return Disabled("", f"{path} is there but can't be read")

    def disable(self, name: str, at: str, reason: str) -> Disabled:
        """Writes it down, unless it is written already.

        :raises NotDisabled: it can't be written
        """
        known = self.find(name)
        if known is not None:
            return known
        path = self._path(name)
        try:
            write_whole(path, json.dumps({"subscriber": name, "at": at, "reason": reason}) + "\n", mode=0o644)
        except OSError as unwritable:
            raise NotDisabled(name, path, problem_of(unwritable)) from unwritable
        return Disabled(at, reason)

    def enable(self, name: str) -> bool:
        """Forgets it; False when the subscriber wasn't disabled."""
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            return False
        sync_folder(self._folder)
        return True

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"


class NotifyHandler:
    """At least once, under an id that never changes: handlers run before the commit. Any thread may call it."""

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

    def __call__(self, item: WorkItem) -> Outcome:
        """
        :raises SubscribersUnreadable: the whole stream waits
        :raises NoticeUnreadable: this event can't be sent
        :raises DownstreamHeld: the subscriber isn't to be called now
        :raises SubscriberGone: the subscriber's events wait
        :raises FileUnusable, AddressRefused, Unreachable, NotTaken, NotDisabled: another try may do
        """
        name = subscriber_of(item.event_key)
        subscriber = self._subscribers.find(name)
        if subscriber is None:
            return self._without(name)
        notice = read_notice(item.event_key, item.body)
        reason = self._why_not(subscriber, item.event_type, notice)
        if reason is not None:
            return Ignored(reason)
        answer = self._sender.send(subscriber, notice.id, item.body, item.traceparent)
        if answer.status == GONE:
            return Ignored(_disabled_since(name, self._disable(name, notice)))
        if not 200 <= answer.status <= 299:
            raise self._sender.not_taken(name, answer)
        return Applied()

    def close(self) -> None:
        """Ends its connections; only tests and commands need to."""
        self._sender.close()

    def _without(self, name: str) -> Outcome:
        """A section that vanished while the stream runs may be a slip, and what is ignored is ignored for good."""
        if name not in self._receivers.names:
            return Ignored(f"there is no subscriber {name} any more")
        with calling(downstream_of(name)):
            raise SubscriberGone(name, self._subscribers.path)

    def _why_not(self, subscriber: Subscriber, event_type: str, notice: Notice) -> str | None:
        name = subscriber.name
        if not subscriber.enabled:
            return f"subscriber {name} isn't enabled"
        if notice.mode != subscriber.mode:
            return f"subscriber {name} takes {subscriber.mode} facts, this is a {notice.mode} one"
        if not subscriber.may_see(notice.tenant):
            return f"subscriber {name} isn't this tenant's"
        if not subscriber.wants(event_type) and not (notice.reverses is not None and subscriber.wants(notice.reverses)):
            return f"subscriber {name} doesn't want {notice.reverses or event_type}"
        disabled = self._disabled.find(name)
        return None if disabled is None else _disabled_since(name, disabled)

    def _disable(self, name: str, notice: Notice) -> Disabled:
        return self._disabled.disable(name, to_rfc3339(self._clock.now()), f"it answered {GONE} to {notice.id}")


def build(
    settings: NotifySettings, receivers: Receivers, *, clock: Clock | None = None, resolver: Resolver | None = None
) -> Handler:
    """The handler, once per Python worker; picklable by reference. Connects nowhere before the first event.

    :param receivers: those that the stream was started with
    :raises SettingError: the subscribers file isn't named, or the CA file can't be used
    """
    if not settings.subscribers_file:
        raise SettingError("notify.subscribers_file", "the path of the subscribers file is wanted")
    clock = clock or SystemClock()
    return NotifyHandler(
        SubscribersFile(Path(settings.subscribers_file)),
        DisabledSubscribers(disabled_folder(settings)),
        Sender(settings, clock, resolver),
        clock,
        receivers,
    )


def disabled_folder(settings: NotifySettings) -> Path:
    """The folder of the disabled subscribers' files."""
    return (
        Path(settings.disabled_dir)
        if settings.disabled_dir
        else Path(settings.subscribers_file).with_suffix(".disabled")
    )


def _disabled_since(name: str, disabled: Disabled) -> str:
    since = f" since {disabled.at}" if disabled.at else ""
    return f"subscriber {name} is disabled{since}: {disabled.reason}; `payhook notify enable {name}` enables it"
