"""The page of subscribers: whether each takes what it is sent, and what a stranger's server said."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx2

from console.health import WatchedServices, create_app
from console.pages import PageStream
from console.pages.subscribers import _read_reports
from console.subscribers import SubscriberSettings
from core.clock import to_rfc3339
from core.layout import Layout
from core.location import Location
from core.status_file import StreamStatuses
from core.work import Ignored
from notify.errors import SubscribersUnreadable
from operations.audit_log import AuditLog
from operations.limits import AloneLimits
from tests.dead_letters import HOSTILE, DeadLetters, Rejected, ToTheEngine, UnknownMerchant
from tests.live_processes import processor_elsewhere
from tests.unit.console.listening import Browser, Listener, csrf_of
from tests.unit.console.pages.test_operators import text
from tests.unit.console.places import dead_letters

SHOP = SubscriberSettings("acct_1", "https://hooks.example", "live", None, ("*",), "active")
GONE = replace(SHOP, name="gone", state="disabled", why=f"it answered 410 {HOSTILE[0]}", since="2026-01-31T12:00:00Z")


def page(data: Path, subscribers: Callable[[], Sequence[SubscriberSettings]], name: str = "eve") -> httpx2.Response:
    letters = DeadLetters(data)
    app = create_app(
        WatchedServices("http://127.0.0.1:9/", StreamStatuses({}), {}, lambda _: None),
        httpx2.AsyncClient(),
        letters.clock,
    )
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
    streams = {"notify": PageStream(dead, Layout(data).stream("notify"))}
    statuses = StreamStatuses({"notify": letters.layout.status})
    [found], waits = _read_reports(streams, statuses, [SHOP], letters.clock.now())
    assert [(stream, wait.why, wait.downstream) for stream, wait in waits] == [("notify", "Down: no disk", None)]
    assert (found.state, found.breaker, found.answers.waiting) == ("failing", "open", 1)
    assert found.answers.failing_since == letters.clock.now()
    assert found.answers.last_answer == "Rejected: it answered 404"
    assert found.answers.next_try is not None and found.answers.next_try > letters.clock.now()


def test_what_the_processor_on_another_machine_says_is_shown(tmp_path: Path) -> None:
    data = tmp_path / "data"
    letters = DeadLetters(data, "notify")
    said = {"at": to_rfc3339(letters.clock.now()), "ready": True, "blocked": "Down: no disk"}
    app = create_app(
        WatchedServices("http://127.0.0.1:9/", StreamStatuses({}), {}, lambda _: None),
        httpx2.AsyncClient(),
        letters.clock,
    )
    with processor_elsewhere({"notify": said}) as url:
        listener = Listener(app, data, letters.clock, subscribers=lambda: [SHOP], stream="notify", status_urls=[url])
        browser = Browser(listener)
        browser.sign_in("eve")
        assert "Down: no disk" in text(browser.get("/subscribers").text)


class Missed:
    """A notify stream that ignored three events, as of a subscriber that was disabled, and the page of subscribers."""

    def __init__(
        self, data: Path, subscribers: Sequence[SubscriberSettings] = (SHOP,), alone: AloneLimits | None = None
    ) -> None:
        self.letters = letters = DeadLetters(data, "notify")
        for number in range(3):
            key = letters.receive("acct_1", event_type=f"type{number}", payment=f"pi_{number}")
            letters.handler.script[key] = lambda _: Ignored("acct_1 is disabled")
        letters.batch()
        for number in range(3):
            letters.books(f"stripe:acct_1:type{number}", 100, "EUR")
        self.asked: list[datetime] = []
        app = create_app(
            WatchedServices("http://127.0.0.1:9/", StreamStatuses({}), {}, lambda _: None),
            httpx2.AsyncClient(),
            letters.clock,
        )
        self.listener = Listener(
            app,
            data,
            letters.clock,
            producer=ToTheEngine(letters),
            sleep=lambda _: letters.batch(),
            subscribers=lambda: subscribers,
            missed=self.missed,
            stream="notify",
            alone=alone,
        )

    def missed(self, name: str, journal: Location, since: datetime) -> Sequence[int]:
        assert (name, str(journal)) == ("acct_1", str(self.letters.layout.journal))
        self.asked.append(since)
        return [1, 2]

    def send(self, user: str, **fields: str) -> httpx2.Response:
        browser = Browser(self.listener)
        assert browser.sign_in(user).status_code == 303
        token = csrf_of(browser.get("/subscribers"))
        given = {"name": "acct_1", "since": "2026-01-31", "reason": "it was down", **fields}
        return browser.post("/subscribers/send", given, token)

    @property
    def decisions(self) -> list[str]:
        return [self.letters.decisions(f"stripe:acct_1:type{number}")[-1] for number in range(3)]


def test_a_replayer_sends_a_subscriber_what_it_missed_since_a_time(tmp_path: Path) -> None:
    site = Missed(tmp_path / "data")
    sent = site.send("bob")
    assert (sent.status_code, sent.headers.get("location")) == (303, "/dlq/selections/1?stream=notify"), text(sent.text)
    assert site.asked == [datetime(2026, 1, 31, tzinfo=UTC)]
    for _ in range(3):
        site.letters.batch()
    assert site.decisions == ["applied", "applied", "ignored"], "what isn't named stays as it is"
    again = site.send("bob")
    assert again.status_code == 200 and "missed nothing since 2026-01-31" in again.text
    acts = [(one.action, one.actor, one.reason) for one in site.listener.audit_log.read(20)]
    assert ("replay", "bob", "it was down") in acts


def test_beyond_the_limits_of_a_day_another_person_lets_it_be_sent(tmp_path: Path) -> None:
    site = Missed(tmp_path / "data", alone=AloneLimits(replay_items_max=1))
    sent = site.send("bob")
    assert sent.status_code == 303, text(sent.text)
    site.letters.batch()
    assert site.decisions == ["ignored"] * 3
    kept = site.listener.dead[0].selections.proposals()
    assert [(one.selection.count, one.run.actor if one.run else "") for one in kept] == [(2, "bob")]


def test_nothing_is_sent_to_one_that_is_disabled_or_by_who_may_not_replay_or_without_a_reason(tmp_path: Path) -> None:
    site = Missed(tmp_path / "data", [SHOP, GONE])
    assert site.send("eve").status_code == 403
    for wrong, problem in (
        ({"name": "gone"}, "gone isn't active: enable it first"),
        ({"name": "nobody"}, "Choose a subscriber"),
        ({"since": "yesterday"}, "is no time"),
        ({"since": ""}, "Enter a time"),
        ({"reason": ""}, "Enter a reason"),
    ):
        sent = site.send("bob", **wrong)
        assert sent.status_code == 422 and problem in text(sent.text), (wrong, text(sent.text))
    assert site.asked == [] and site.decisions == ["ignored"] * 3
    site.letters.clock.advance(1)
    assert "Send what one missed" not in Browser(site.listener).get("/subscribers").text
