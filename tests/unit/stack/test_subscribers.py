"""The subscribers that pages show are those of the file, without a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from notify.errors import SubscribersUnreadable, SubscriberUnknown
from notify.handler import DisabledSubscribers, disabled_folder
from notify.settings import NotifySettings
from stack.services.listener import find_missed, read_subscribers
from tests.unit.notify.test_missed import NOW, SUBSCRIBERS, journal

FILE = """
[shop]
url = "https://hooks.example/path?token=secret"
types = ["charge.*"]
[quiet]
url = "https://quiet.example"
enabled = false
[gone]
url = "https://gone.example"
"""


def settings(folder: Path, text: str | None) -> NotifySettings:
    file = folder / "subscribers.toml"
    if text is not None:
        file.write_text(text)
    return NotifySettings(subscribers_file=str(file))


def test_each_is_told_with_its_state_and_no_query_of_its_address(tmp_path: Path) -> None:
    known = settings(tmp_path, FILE)
    DisabledSubscribers(disabled_folder(known)).disable_subscriber("gone", "2026-01-31T12:00:00Z", "it answered 410")
    shop, quiet, gone = read_subscribers(known)
    assert (shop.state, shop.types, shop.mode) == ("active", ["charge.*"], "live") and "secret" not in shop.url
    assert (quiet.state, quiet.why) == ("off", "enabled = false in the subscribers file")
    assert (gone.state, gone.why, gone.since) == ("disabled", "it answered 410", "2026-01-31T12:00:00Z")


def test_without_a_file_there_are_none_and_a_wrong_file_is_named(tmp_path: Path) -> None:
    assert read_subscribers(settings(tmp_path, None)) == []
    with pytest.raises(SubscribersUnreadable):
        read_subscribers(settings(tmp_path, "[shop]\nurl = 5"))


def test_what_a_subscriber_missed_is_found_as_the_file_has_it_now(tmp_path: Path) -> None:
    path, known = journal(tmp_path / "journal"), settings(tmp_path, SUBSCRIBERS)
    assert find_missed(known, "shop", path, NOW) == [2, 5, 9]
    assert find_missed(known, "bank", path, NOW) == [4]
    with pytest.raises(SubscriberUnknown):
        find_missed(known, "nobody", path, NOW)
