"""Whom the notify stream feeds, and with what."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from core.errors import SettingError
from notify.errors import SubscribersUnreadable
from notify.facts import build, notice_json
from notify.settings import NotifySettings
from processor.source.feed import Feed
from tests.unit.notify.place import row

SUBSCRIBERS = """
[shop]
url = "https://hooks.example.com/in"
enabled = false

[bank]
url = "https://bank.example.com/in"
mode = "test"
"""


def fed(path: Path) -> Feed:
    return build(NotifySettings(subscribers_file=str(path)))


def test_the_subscribers_of_a_mode_are_fed_disabled_ones_too(tmp_path: Path) -> None:
    path = tmp_path / "subscribers.toml"
    path.write_text(SUBSCRIBERS)
    assert (fed(path).receivers("live"), fed(path).receivers("test")) == (("shop",), ("bank",))


def test_nobody_is_fed_before_there_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "subscribers.toml"
    feed = fed(path)
    assert feed.receivers("live") == ()
    path.write_text(SUBSCRIBERS)
    assert feed.receivers("live") == ("shop",)


def test_a_wrong_file_is_said_rather_than_to_feed_nobody(tmp_path: Path) -> None:
    path = tmp_path / "subscribers.toml"
    path.write_text("[shop]")
    with pytest.raises(SubscribersUnreadable):
        fed(path).receivers("live")
    with pytest.raises(SettingError, match="notify.subscribers_file"):
        build(NotifySettings())


def test_an_envelope_needs_no_other_columns_than_are_named(tmp_path: Path) -> None:
    feed, whole = fed(tmp_path / "subscribers.toml"), row(tenant="shop-a")
    others = {one.name: None for one in fields(whole)} | {"decision": whole.decision}
    for name in feed.columns:
        del others[name]
    assert feed.body(replace(whole, **others)) == notice_json(whole)  # type: ignore[arg-type]
