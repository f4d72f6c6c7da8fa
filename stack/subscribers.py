"""The subscribers that the settings name, as pages show them."""

from __future__ import annotations

from console.subscribers import SubscriberSettings
from notify.handler import DisabledSubscribers, disabled_folder
from notify.settings import NotifySettings
from notify.subscribers import Subscriber, shown_fields, subscribers_file


def read_subscribers(settings: NotifySettings) -> list[SubscriberSettings]:
    """In the file's order; none where there is no file. Secrets aren't looked at: another service may hold them.

    :raises SubscribersUnreadable: the file is wrong
    """
    file = subscribers_file(settings)
    if not file.path.exists():
        return []
    disabled = DisabledSubscribers(disabled_folder(settings))
    return [_shown(one, disabled) for one in file.all().values()]


def _shown(subscriber: Subscriber, disabled: DisabledSubscribers) -> SubscriberSettings:
    fields = shown_fields(subscriber)
    if not subscriber.enabled:
        return SubscriberSettings(**fields, state="off", why="enabled = false in the subscribers file")
    found = disabled.find(subscriber.name)
    if found is not None:
        return SubscriberSettings(**fields, state="disabled", why=found.reason, since=found.at)
    return SubscriberSettings(**fields, state="active")
