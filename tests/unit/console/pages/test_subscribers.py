"""The page of subscribers: whether each takes what it is sent, and what a stranger's server said."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import httpx2

from console.health import Watched, create_app
from console.pages import WorkStream
from console.pages.subscribers import _reports
from console.subscribers import SubscriberSettings
from core.clock import to_rfc3339
from core.layout import Layout
from dlq.audit_log import AuditLog
from notify.errors import SubscribersUnreadable
from tests.dead_letters import HOSTILE, DeadLetters, Rejected, UnknownMerchant
from tests.unit.console.listening import Browser, Listener
from tests.unit.console.places import dead_letters

SHOP = SubscriberSettings("acct_1", "https://hooks.example", "live", None, ("*",), "active")
GONE = replace(SHOP, name="gone", state="disabled", why=f"it answered 410 {HOSTILE[0]}", since="2026-01-31T12:00:00Z")


def page(data: Path, subscribers: Callable[[], Sequence[SubscriberSettings]], name: str = "eve") -> httpx2.Response:
    letters = DeadLetters(data)
    app = create_app(Watched("http://127.0.0.1:9/", {}, {}, lambda _: None), httpx2.AsyncClient(), letters.clock)
    browser = Browser(Listener(app, data, letters.clock, subscribers=subscribers))
    assert browser.sign_in(name).status_code == 303
    return browser.get("/subscribers")


def test_each_subscriber_is_listed_and_a_strangers_words_are_escaped(tmp_path: Path) -> None:
    text = page(tmp_path / "data", lambda: [SHOP, GONE]).text
    assert text.index("gone") < text.index("acct_1")
    assert "it answered 410 &lt;script&gt;" in text and HOSTILE[0] not in text
    assert "payhook notify enable NAME" in text


def test_without_subscribers_the_page_says_so_and_a_wrong_file_is_named(tmp_path: Path) -> None:
    assert "There are no subscribers" in page(tmp_path / "none", list).text

    def unreadable() -> Sequence[SubscriberSettings]:
        raise SubscribersUnreadable(Path("subscribers.toml"), "[shop] url: no such field")

    assert "[shop] url: no such field" in page(tmp_path / "wrong", unreadable).text


def test_finance_has_no_page_of_subscribers(tmp_path: Path) -> None:
    assert page(tmp_path / "data", list, "fay").status_code == 403


def test_what_its_journal_and_its_processor_say_is_told(tmp_path: Path) -> None:
    """Of the engine's own rows: the second part of a key names whom an event is for."""
    data = tmp_path / "data"
    letters = DeadLetters(data, "notify")
    for number, error in enumerate((UnknownMerchant("it answered 500"), Rejected("it answered 404"))):
        letters.dies(letters.receive("acct_1", event_type=f"type{number}", payment=f"pi_{number}"), error, 99)
    letters.batch()
    status = {
        "at": to_rfc3339(letters.clock.now()),
        "downstreams": {"subscriber:acct_1": {"state": "open", "text": "5"}},
        "blocked": "Down: no disk",
        "blocked_since": "2026-01-31T11:00:00Z",
    }
    letters.layout.status.parent.mkdir(parents=True, exist_ok=True)
    letters.layout.status.write_text(json.dumps(status))
    dead = replace(dead_letters(data, letters.clock, AuditLog(data / "lake" / "acts")), stream="notify")
    streams = {"notify": WorkStream(dead, Layout(data).stream("notify"))}
    [found], waits = _reports(streams, [SHOP], letters.clock.now())
    assert [(stream, wait.why, wait.downstream) for stream, wait in waits] == [("notify", "Down: no disk", None)]
    assert (found.state, found.breaker, found.answers.waiting) == ("failing", "open", 1)
    assert found.answers.failing_since == letters.clock.now()
    assert found.answers.last_answer == "Rejected: it answered 404"
    assert found.answers.next_try is not None and found.answers.next_try > letters.clock.now()
