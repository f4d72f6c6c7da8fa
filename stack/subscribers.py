"""The subscribers that the settings name, as pages show them."""

from __future__ import annotations

from datetime import datetime

from console.subscribers import SubscriberSettings
from core.location import Location
from notify.handler import DisabledSubscribers, disabled_folder
from notify.missed import missed_items
from notify.settings import NotifySettings
from notify.subscribers import Subscriber, shown_fields, subscribers_file


def read_subscribers(settings: NotifySettings) -> list[SubscriberSettings]:
    """Reads them in the file's order; none where there is no file. Secrets aren't read: another service may hold them.

    :raises SubscribersUnreadable: the file is wrong
    """
    file = subscribers_file(settings)
    if not file.path.exists():
        return []
    disabled = DisabledSubscribers(disabled_folder(settings))
    return [_describe_subscriber(subscriber, disabled) for subscriber in file.read_all().values()]


def find_missed(settings: NotifySettings, name: str, journal: Location, since: datetime) -> list[int]:
    """Finds what a subscriber wasn't sent since then, of one journal.

    :raises SubscribersUnreadable, SubscriberUnknown: the file is wrong, or names it no more
    """
    return missed_items(journal, subscribers_file(settings).find_named(name), since)


def _describe_subscriber(subscriber: Subscriber, disabled: DisabledSubscribers) -> SubscriberSettings:
    fields = shown_fields(subscriber)
    if not subscriber.enabled:
        return SubscriberSettings(**fields, state="off", why="enabled = false in the subscribers file")
    disabling = disabled.find(subscriber.name)
    if disabling is not None:
        return SubscriberSettings(**fields, state="disabled", why=disabling.reason, since=disabling.at)
    return SubscriberSettings(**fields, state="active")
