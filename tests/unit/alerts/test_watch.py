"""The whole loop against a real receiver, real files and a real program; only the clock is the test's."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import wait
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client import Gauge, generate_latest

from alerts.engine import AlertNotice, NoticeKind
from alerts.looking import RoundReport, StackObserver, WatchedPlaces
from alerts.observation import DeadSummary, Observation, Replicas
from alerts.receivers import make_receivers
from alerts.rules import Severity
from alerts.settings import AlertsSettings, ReceiverSettings
from alerts.watch import QUEUE_MAX, RETRY_S_MAX, AlertMetrics, AlertWatch, Queue
from core.clock import ManualClock, to_rfc3339
from dead_letters.rates import WINDOWS, Rate
from tests.unit.notify.receiver import SubscriberServer, status

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
FIRST = AlertNotice("a", 1, NoticeKind.FIRING, "dlq_depth", "ledger", Severity.WARNING, "t", 101.0, 100.0, AT, AT, "r")


class WatchedStack:
    """What a test says of the stack, and a watch over it that may be restarted."""

    def __init__(self, folder: Path, port: int) -> None:
        self.clock = ManualClock(AT)
        self.file = folder / "run" / "alerts.json"
        self.dead: DeadSummary | None = DeadSummary(0, None)
        self.replicas: Replicas | None = None
        self.got = folder / "got"
        program = folder / "tell.sh"
        program.write_text(f"#!/bin/sh\ncat >> {self.got}; echo >> {self.got}\n")
        program.chmod(0o700)
        hook = ReceiverSettings(url=f"http://127.0.0.1:{port}/", networks=("127.0.0.1/32",), ports=(port,), http=True)
        boss = ReceiverSettings(command=(str(program),), only_critical=True)
        self.settings = AlertsSettings(receivers={"hook": hook, "boss": boss})
        self.restart()

    def restart(self) -> None:
        self.watch = AlertWatch(
            self.settings,
            lambda: Observation(dead={"ledger": self.dead}, replicas=self.replicas),
            make_receivers(self.settings),
            self.file,
            self.clock,
        )

    def step(self, after_s: float = 15.0) -> None:
        """One look, and all that was to be delivered then."""
        self.clock.advance(after_s)
        self.watch.run_once()
        wait(self.watch.under_way.values())

    def boss_reported(self) -> list[Mapping[str, Any]]:
        return [json.loads(line) for line in self.got.read_text().splitlines()] if self.got.exists() else []


@pytest.fixture
def stack(tmp_path: Path, server: SubscriberServer) -> Iterator[WatchedStack]:
    made = WatchedStack(tmp_path, server.port)
    yield made
    made.watch.close()


def kinds(server: SubscriberServer) -> list[tuple[str, str]]:
    reported = [json.loads(request.body) for request in server.requests]
    return [(one["rule"], one["kind"]) for one in reported]


@pytest.mark.row("A12")
def test_an_event_that_nobody_closes_is_reported_after_a_day_and_escalates_after_two(
    stack: WatchedStack, server: SubscriberServer
) -> None:
    stack.dead = DeadSummary(1, AT)
    stack.step(24 * 3_600 - 1)
    assert kinds(server) == []
    stack.step(2)
    assert kinds(server) == [("dlq_age", "firing")]
    stack.step(24 * 3_600)
    assert kinds(server)[1:] == [("dlq_age", "repeat"), ("dlq_escalation", "firing")]
    (reported,) = stack.boss_reported()
    assert (reported["rule"], reported["severity"]) == ("dlq_escalation", "critical")
    assert reported["text"] == "a dead event of ledger has not been closed for 48.0 h"


def test_unknown_events_are_reported_once_however_often_the_watch_restarts_and_reads_its_journal_again(
    stack: WatchedStack, server: SubscriberServer
) -> None:
    counted = stack.dead = DeadSummary(0, None, unknown={"stripe: made_up.funds_moved": 1})
    stack.step()
    stack.step(400)
    assert kinds(server) == [("unknown", "firing")]
    for _ in range(2):
        stack.watch.close()
        stack.restart()
        stack.dead = None
        stack.step()
        stack.step(400)
        stack.dead = counted
        stack.step()
        stack.step(400)
    assert kinds(server) == [("unknown", "firing")]
    stack.dead = DeadSummary(0, None)
    stack.step()
    stack.step(130)
    assert kinds(server)[1:] == [("unknown", "recovered")]


def test_what_a_receiver_does_not_take_waits_for_it_over_a_restart_and_holds_nobody_else(
    stack: WatchedStack, server: SubscriberServer
) -> None:
    server.replies(status(503))
    stack.dead = DeadSummary(101, AT - timedelta(hours=50))
    stack.step()
    assert [reported["rule"] for reported in stack.boss_reported()] == ["dlq_escalation"]
    tries = len(server.requests)
    assert tries == 1, "the first refusal is the last one of this look"
    stack.step(1)
    assert len(server.requests) == tries, "it is left alone for a while"
    kept = json.loads(stack.file.read_text())
    assert len(kept["waiting"]["hook"]) == 3 and kept["waiting"]["boss"] == []
    assert kept["problems"] == {"hook": "it answered 503"}
    stack.restart()
    server.replies(status(204))
    stack.step()
    assert sorted(kinds(server)[tries:]) == [
        ("dlq_age", "firing"),
        ("dlq_depth", "firing"),
        ("dlq_escalation", "firing"),
    ]
    assert len(stack.boss_reported()) == 1
    assert json.loads(stack.file.read_text())["waiting"] == {"hook": [], "boss": []}


def test_what_waits_for_a_receiver_that_is_not_there_any_more_is_dropped(
    stack: WatchedStack, server: SubscriberServer
) -> None:
    server.replies(status(503))
    stack.dead = DeadSummary(101, AT)
    stack.step()
    receivers_left = {"boss": stack.settings.receivers["boss"]}
    stack.settings = stack.settings.model_copy(update={"receivers": receivers_left})
    stack.restart()
    stack.step()
    assert json.loads(stack.file.read_text())["waiting"] == {"boss": []}


class HeldReceiver:
    """Takes a notice once it is let go, and at the latest after ten seconds."""

    shown = "held"

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.got: list[str] = []

    def deliver(self, notice: AlertNotice) -> None:
        self.let_go.wait(10)
        self.got.append(notice.subject)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[AlertWatch, HeldReceiver, HeldReceiver, dict[str, DeadSummary]]]:
    """A watch with a receiver that holds what it gets, one that doesn't, and what there is to see."""
    slow, pager, dead = HeldReceiver(), HeldReceiver(), {"a": DeadSummary(500, None), "b": DeadSummary(500, None)}
    pager.let_go.set()
    settings = AlertsSettings(receivers={name: ReceiverSettings(command=("/bin/true",)) for name in ("slow", "pager")})

    def look() -> Observation:
        return Observation(dead=dict(dead))

    watch = AlertWatch(settings, look, {"slow": slow, "pager": pager}, tmp_path / "alerts.json", ManualClock(AT))
    yield watch, slow, pager, dead
    slow.let_go.set()
    watch.close()


def delivered(watch: AlertWatch, name: str) -> None:
    """Waits until a receiver has got what there was for it."""
    watch.under_way[name].result(10)


def test_no_look_and_no_other_receiver_waits_for_a_slow_one(
    held: tuple[AlertWatch, HeldReceiver, HeldReceiver, dict[str, DeadSummary]],
) -> None:
    watch, slow, pager, dead = held
    watch.run_once()
    dead["c"] = DeadSummary(500, None)
    delivered(watch, "pager")
    watch.run_once()
    delivered(watch, "pager")
    assert (pager.got, slow.got) == (["a", "b", "c"], [])
    slow.let_go.set()
    delivered(watch, "slow")
    assert slow.got == ["a", "b", "c"], "each once, though a look came in between"


def test_at_the_end_only_what_is_under_way_is_waited_for_and_the_rest_is_kept(
    held: tuple[AlertWatch, HeldReceiver, HeldReceiver, dict[str, DeadSummary]], tmp_path: Path
) -> None:
    watch, slow, _, _ = held
    watch.run_once()
    delivered(watch, "pager")

    def let_go_once_it_ends() -> None:
        watch._closing.wait(10)
        slow.let_go.set()

    ends = threading.Thread(target=let_go_once_it_ends)
    ends.start()
    watch.close()
    ends.join()
    waiting = json.loads((tmp_path / "alerts.json").read_text())["waiting"]
    assert slow.got == ["a"] and [one["subject"] for one in waiting["slow"]] == ["b"] and waiting["pager"] == []


def test_a_receivers_bug_ends_the_next_look(
    held: tuple[AlertWatch, HeldReceiver, HeldReceiver, dict[str, DeadSummary]], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, _, pager, _ = held
    monkeypatch.setattr(pager, "got", None)
    watch.run_once()
    wait([watch.under_way["pager"]])
    with pytest.raises(AttributeError):
        watch.run_once()


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("{", "{torn"),
        (f'"since": "{to_rfc3339(AT + timedelta(seconds=15))}"', '"since": null'),
        ('"number": 1', '"number": "one"'),
        ('"subject": "ledger"', '"subject": ["ledger"]'),
    ],
)
def test_a_file_that_cannot_be_read_costs_a_repetition_and_no_more(
    stack: WatchedStack, server: SubscriberServer, said: str, instead: str
) -> None:
    stack.dead = DeadSummary(101, AT)
    stack.step()
    known = stack.file.read_text()
    stack.file.write_text(known.replace(said, instead, 1))
    assert stack.file.read_text() != known
    stack.restart()
    stack.step()
    assert kinds(server) == [("dlq_depth", "firing")] * 2


def test_people_are_reported_also_where_nothing_can_be_remembered(
    stack: WatchedStack, server: SubscriberServer
) -> None:
    stack.file.parent.mkdir()
    stack.file.mkdir()
    stack.dead = DeadSummary(101, AT)
    stack.step()
    assert kinds(server) == [("dlq_depth", "firing")]


def test_the_file_is_its_owners_alone(stack: WatchedStack) -> None:
    stack.step()
    assert stat.S_IMODE(stack.file.stat().st_mode) == 0o600


def test_the_metrics_say_what_is_open_what_fires_and_who_waits(stack: WatchedStack, server: SubscriberServer) -> None:
    server.replies(status(500))
    metrics = AlertMetrics(stack.clock)
    stack.dead = DeadSummary(101, AT)
    stack.step()
    metrics.update(stack.watch)
    page = generate_latest(metrics.registry).decode()
    assert 'payhook_dlq_open{stream="ledger"} 101.0' in page
    assert 'payhook_dlq_oldest_seconds{stream="ledger"} 15.0' in page
    assert 'payhook_alert_firing{rule="dlq_depth",subject="ledger"} 1.0' in page
    assert 'payhook_alert_notices_unsent{receiver="hook"} 1.0' in page
    assert 'payhook_alert_notices_unsent{receiver="boss"} 0.0' in page
    stack.dead = DeadSummary(0, None)
    stack.step()
    stack.step(120)
    metrics.update(stack.watch)
    assert "payhook_alert_firing{" not in generate_latest(metrics.registry).decode()


def test_what_goes_on_firing_is_on_the_page_at_any_moment(stack: WatchedStack, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics, pages, put = AlertMetrics(stack.clock), list[str](), Gauge.set
    stack.dead = DeadSummary(101, AT)
    stack.step()
    metrics.update(stack.watch)

    def put_and_look(gauge: Gauge, value: float) -> None:
        pages.append(generate_latest(metrics.registry).decode())
        put(gauge, value)

    monkeypatch.setattr(Gauge, "set", put_and_look)
    stack.step()
    metrics.update(stack.watch)
    firing = 'payhook_alert_firing{rule="dlq_depth",subject="ledger"} 1.0'
    assert pages and all(firing in page for page in pages)


def page_after_a_look(stack: WatchedStack, metrics: AlertMetrics) -> list[str]:
    stack.step()
    metrics.update(stack.watch)
    return generate_latest(metrics.registry).decode().splitlines()


def test_what_cannot_be_seen_stays_on_the_page_as_it_was_seen_last(stack: WatchedStack) -> None:
    """A Prometheus alert ends where its value is gone, isn't a number, or is 0; a new process knows what fires."""
    metrics = AlertMetrics(stack.clock)
    stack.dead, stack.replicas = DeadSummary(1, AT - timedelta(hours=50)), Replicas(out_of_sync=6, under_min=6)
    page_after_a_look(stack, metrics)
    stack.dead = stack.replicas = None
    known = {
        "payhook_kafka_partitions_under_min_isr 6.0",
        "payhook_kafka_partitions_out_of_sync 6.0",
        'payhook_dlq_oldest_seconds{stream="ledger"} 180015.0',
    }
    page = page_after_a_look(stack, metrics)
    assert known - set(page) == set()
    assert not any(line.startswith("payhook_dlq_open{") for line in page), "PayhookDlqDepthUnknown asks for this"
    stack.restart()
    assert known - set(page_after_a_look(stack, AlertMetrics(stack.clock))) == set()
    stack.replicas = Replicas(0, 0)
    assert "payhook_kafka_partitions_under_min_isr 0.0" in page_after_a_look(stack, metrics)


def test_what_was_never_seen_is_no_number_on_the_page(stack: WatchedStack) -> None:
    page = page_after_a_look(stack, AlertMetrics(stack.clock))
    assert "payhook_kafka_partitions_under_min_isr NaN" in page and "payhook_backup_age_ratio NaN" in page


def test_it_looks_whatever_is_down(tmp_path: Path, server: SubscriberServer) -> None:
    """A receiver that is away, a page that isn't one, a status of yesterday: each is seen as what it is."""
    clock = ManualClock(AT)
    fresh, old = tmp_path / "fresh.json", tmp_path / "old.json"
    fresh.write_text(json.dumps({"at": to_rfc3339(AT - timedelta(seconds=29)), "ready": True}))
    old.write_text(json.dumps({"at": to_rfc3339(AT - timedelta(seconds=31)), "ready": True}))
    backed_up = tmp_path / "backed-up.json"
    backed_up.write_text(json.dumps({"ok": False, "since": to_rfc3339(AT - timedelta(hours=3))}))
    page = b'# TYPE payhook_decisions_total counter\npayhook_decisions_total{decision="retry",stream="a"} 7\nother 1\n'
    server.replies(status(200, body=page))
    places = WatchedPlaces(
        ready_url="http://127.0.0.1:1/readyz",
        statuses={"a": fresh, "b": old, "c": tmp_path / "none"},
        journals={"a": tmp_path / "journal"},
        metrics={"processor": f"http://127.0.0.1:{server.port}/metrics", "ingest": "http://127.0.0.1:1/metrics"},
        rounds={"backup": RoundReport(backed_up, 3_600)},
    )
    with httpx2.Client(trust_env=False) as client:
        seen = StackObserver(places, client, clock).observe_stack()
    assert seen.receiver_ready is False
    assert seen.statuses["a"] is not None and seen.statuses["b"] is None and seen.statuses["c"] is None
    assert seen.dead == {
        "a": DeadSummary(0, None, tuple(Rate(window_s, 0, 0, 0.0) for window_s in WINDOWS))
    } and seen.rounds == {"backup": 3.0}
    labels = (("decision", "retry"), ("process", "processor"), ("stream", "a"))
    assert seen.samples == {("payhook_decisions_total", labels): 7.0}


def test_what_a_round_left_is_unknown_where_it_cannot_be_read_and_not_looked_at_where_none_is_made(
    tmp_path: Path,
) -> None:
    rules = ("backup", "verification", "maintenance")
    none_made, every = (
        WatchedPlaces("", {}, {}, {}, rounds=dict.fromkeys(rules, RoundReport(tmp_path / "none", every_s)))
        for every_s in (0.0, 3_600.0)
    )
    with httpx2.Client(trust_env=False) as client:
        assert StackObserver(none_made, client, ManualClock(AT)).observe_stack().rounds == {}
        seen = StackObserver(every, client, ManualClock(AT)).observe_stack().rounds
    assert seen == dict.fromkeys(rules, 0.0), "an age counts from the first look"


def test_a_processor_on_another_host_is_asked_for_the_status_of_its_streams(
    tmp_path: Path, server: SubscriberServer
) -> None:
    now, old = to_rfc3339(AT), to_rfc3339(AT - timedelta(seconds=31))
    well, stale = {"at": now, "ready": True}, {"at": old, "ready": True}
    server.replies(status(200, body=json.dumps({"streams": {"a": well, "b": stale, "x": well}}).encode()))
    places = WatchedPlaces(
        ready_url="",
        statuses={"a": tmp_path / "none", "b": tmp_path / "none", "c": tmp_path / "none"},
        journals={},
        metrics={},
        status_urls=["http://127.0.0.1:1/status", f"http://127.0.0.1:{server.port}/status"],
    )
    with httpx2.Client(trust_env=False) as client:
        seen = StackObserver(places, client, ManualClock(AT)).observe_stack()
    assert seen.statuses == {"a": well, "b": None, "c": None}


def test_of_two_processors_with_a_stream_the_one_that_decides_it_is_looked_at(
    tmp_path: Path, server: SubscriberServer
) -> None:
    """Its file says that it stands by; where the other one doesn't answer, that is all there is to know."""
    now = to_rfc3339(AT)
    standby = {"at": now, "ready": True, "state": "standby"}
    running = {"at": now, "ready": False, "state": "running", "blocked": "Refused"}
    server.replies(status(200, body=json.dumps({"streams": {"a": running}}).encode()))
    for name in "ab":
        (tmp_path / name).write_text(json.dumps(standby))
    places = WatchedPlaces(
        ready_url="",
        statuses={name: tmp_path / name for name in "ab"},
        journals={},
        metrics={},
        status_urls=["http://127.0.0.1:1/status", f"http://127.0.0.1:{server.port}/status"],
    )
    with httpx2.Client(trust_env=False) as client:
        seen = StackObserver(places, client, ManualClock(AT)).observe_stack()
    assert seen.statuses == {"a": running, "b": standby}


def test_a_newer_word_replaces_the_older_one_and_goes_behind_what_was_said_meanwhile() -> None:
    queue = Queue()
    other = replace(FIRST, subject="notify")
    over = replace(FIRST, number=2, kind=NoticeKind.RECOVERED)
    queue.add([FIRST, other, over])
    assert queue.find_due(0.0) == [other, over]


def test_whoever_wants_critical_ones_only_gets_no_others() -> None:
    boss = Queue(only_critical=True)
    escalation = replace(FIRST, rule="dlq_escalation", severity=Severity.CRITICAL)
    boss.add([FIRST, escalation])
    assert boss.find_due(0.0) == [escalation]


def test_after_a_refusal_the_receiver_is_left_alone_for_longer_each_time_up_to_a_bound() -> None:
    queue = Queue()
    queue.add([FIRST])
    now, waits = 1_000.0, []
    for _ in range(12):
        queue.on_refused("down", now)
        waits.append(queue.next_at - now)
        assert queue.find_due(queue.next_at - 0.1) == []
        now = queue.next_at
        assert queue.find_due(now) == [FIRST]
    assert waits[:4] == [5, 10, 20, 40] and waits[-1] == RETRY_S_MAX
    queue.on_taken(FIRST)
    assert (queue.find_due(now), queue.failures, queue.problem) == ([], 0, None)


def test_a_word_that_came_while_an_older_one_was_reported_stays() -> None:
    queue = Queue()
    queue.add([FIRST])
    (telling,) = queue.find_due(0.0)
    over = replace(FIRST, number=2, kind=NoticeKind.RECOVERED)
    queue.add([over])
    queue.on_taken(telling)
    assert queue.find_due(0.0) == [over]


def test_a_queue_is_bounded() -> None:
    queue = Queue()
    for number in range(QUEUE_MAX + 50):
        queue.add([replace(FIRST, subject=f"stream-{number}")])
    assert len(queue.waiting) == QUEUE_MAX
    assert queue.find_due(0.0)[-1].subject == f"stream-{QUEUE_MAX + 49}"
