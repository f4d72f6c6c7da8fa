"""One event to one subscriber: what each answer means, and who is passed over."""

from __future__ import annotations

import copy
import os
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from core.decision import ErrorKind
from core.downstream import limited_by
from core.errors import SettingError
from core.work import Applied, DownstreamHeld, Ignored, Receivers
from notify import errors
from notify.errors import FileUnusable, NoticeUnreadable, NotTaken, SubscriberGone, SubscribersUnreadable, Unreachable
from notify.facts import fact_json, message_id
from notify.handler import build
from notify.settings import NotifySettings
from notify.signature import new_secret
from tests.unit.notify.place import HOST, Place, item, row
from tests.unit.notify.receiver import OK, Receiver, status

EVENT_ID = message_id("live", "stripe:evt_1:charge.captured")


class Calls:
    """Who was called, and with which failures."""

    def __init__(self, *, open_: bool = False) -> None:
        self.called: list[str] = []
        self.failures: list[BaseException] = []
        self.open = open_

    @contextmanager
    def calling(self, downstream: str) -> Iterator[None]:
        if self.open:
            raise DownstreamHeld(downstream, 5.0)
        self.called.append(downstream)
        try:
            yield
        except BaseException as failure:
            self.failures.append(failure)
            raise


def test_a_fact_is_posted_signed_to_the_subscribers_url(place: Place, receiver: Receiver) -> None:
    secret = place.add("shop", receiver.port, 'headers = {X-Team = "payments"}')
    assert place.handler()(item("shop")) == Applied()
    (request,) = receiver.requests
    assert request.line == "POST /hook?x=1 HTTP/1.1"
    assert request.body == fact_json(row())
    wanted = {
        "host": f"{HOST}:{receiver.port}",
        "content-type": "application/json",
        "user-agent": "payhook",
        "x-team": "payments",
        "webhook-id": EVENT_ID,
        "webhook-timestamp": str(int(place.clock.now().timestamp())),
    }
    assert wanted.items() <= request.headers.items()
    signed_at = datetime.fromtimestamp(int(request.headers["webhook-timestamp"]), UTC)
    assert request.headers["webhook-signature"] == Webhook(secret).sign(EVENT_ID, signed_at, request.body.decode())


def test_the_id_is_the_same_on_a_retry_from_another_worker_later(place: Place, receiver: Receiver) -> None:
    place.add("shop", receiver.port)
    receiver.replies(status(500), OK)
    with pytest.raises(NotTaken):
        place.handler()(item("shop"))
    place.clock.advance(3_600)
    assert place.handler()(replace(item("shop"), attempt=1)) == Applied()
    first, second = receiver.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"] == EVENT_ID
    assert first.body == second.body
    assert int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) == 3_600


def test_a_rotated_secret_is_taken_up_and_the_older_one_signs_too(place: Place, receiver: Receiver) -> None:
    older, newer = place.add("shop", receiver.port), new_secret()
    handler = place.handler()
    handler(item("shop"))
    path = place.folder / "secrets" / "notify.shop"
    path.write_text(f"{newer}\n{older}\n")
    handler(item("shop"))
    before, after = (request.headers["webhook-signature"].split(" ") for request in receiver.requests)
    assert len(before) == 1
    assert after[1] == before[0]
    assert after[0] != before[0]


@pytest.mark.parametrize("code", [200, 201, 202, 204, 299])
def test_any_2xx_is_a_delivery(place: Place, receiver: Receiver, code: int) -> None:
    place.add("shop", receiver.port)
    receiver.replies(status(code))
    calls = Calls()
    with limited_by(calls):
        assert place.handler()(item("shop")) == Applied()
    assert (calls.called, calls.failures) == (["subscriber:shop"], [])


@pytest.mark.parametrize("code", [500, 502, 503, 504, 599, 429, 408])
def test_an_answer_that_says_it_cant_now_is_its_downstreams_failure(
    place: Place, receiver: Receiver, code: int
) -> None:
    place.add("shop", receiver.port)
    receiver.replies(status(code))
    calls = Calls()
    with limited_by(calls), pytest.raises(NotTaken) as failed:
        place.handler()(item("shop"))
    assert calls.failures == [failed.value]
    assert (failed.value.kind, failed.value.code) == (ErrorKind.SNBE, f"http_{code}")
    assert failed.value.retry_after_s is None


@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 413, 422, 301, 302, 307, 308, 304])
def test_a_refusal_in_good_health_is_tried_again_but_no_failure_of_the_downstream(
    place: Place, receiver: Receiver, code: int
) -> None:
    place.add("shop", receiver.port)
    receiver.replies(status(code, body=b"no such hook"))
    calls = Calls()
    with limited_by(calls), pytest.raises(NotTaken, match=str(code)) as failed:
        place.handler()(item("shop"))
    assert (calls.called, calls.failures) == (["subscriber:shop"], [])
    assert failed.value.kind is ErrorKind.SNBE
    assert "no such hook" in str(failed.value) or code == 304


def test_what_a_refusal_says_is_cut_and_holds_no_card_number(place: Place, receiver: Receiver) -> None:
    place.add("shop", receiver.port)
    receiver.replies(status(422, body=b"card 4111111111111111 " + b"x" * 3_000))
    with pytest.raises(NotTaken) as failed:
        place.handler()(item("shop"))
    assert "4111111111111111" not in str(failed.value)
    assert len(str(failed.value)) < 400


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("30", 30.0),
        ("Sat, 31 Jan 2026 12:01:30 GMT", 90.0),
        ("86400", 600.0),
        ("Fri, 01 Jan 2027 00:00:00 GMT", 600.0),
        ("Sat, 31 Jan 2026 11:00:00 GMT", None),
        ("soon", None),
    ],
)
@pytest.mark.parametrize("code", [429, 503, 404])
def test_retry_after_is_honoured_within_its_cap(
    place: Place, receiver: Receiver, code: int, header: str, seconds: float | None
) -> None:
    place.settings["retry_after_s_max"] = 600.0
    place.add("shop", receiver.port)
    receiver.replies(status(code, f"retry-after: {header}"))
    with pytest.raises(NotTaken) as failed:
        place.handler()(item("shop"))
    assert failed.value.retry_after_s == seconds


def test_410_disables_until_a_person_enables_again(place: Place, receiver: Receiver) -> None:
    """The event is passed over with the reason, later ones too, in every worker and after a restart."""
    place.add("shop", receiver.port)
    place.add("bank", receiver.port)
    receiver.replies(status(410), OK)
    calls = Calls()
    with limited_by(calls):
        first = place.handler()(item("shop"))
    assert calls.failures == []
    later = place.handler()(item("shop", row("evt_2")))
    for outcome in (first, later):
        assert isinstance(outcome, Ignored)
        assert f"disabled since 2026-01-31T12:00:00.000000Z: it answered 410 to {EVENT_ID}" in outcome.reason
    assert len(receiver.requests) == 1
    assert place.handler()(item("bank")) == Applied()
    (place.folder / "subscribers.disabled" / "shop.json").unlink()
    assert place.handler()(item("shop", row("evt_3"))) == Applied()


def test_disabled_subscribers_can_be_remembered_elsewhere(place: Place, receiver: Receiver) -> None:
    place.settings["disabled_dir"] = str(place.folder / "shared")
    place.add("shop", receiver.port)
    receiver.replies(status(410))
    place.handler()(item("shop"))
    assert (place.folder / "shared" / "shop.json").is_file()


@pytest.mark.parametrize(
    ("lines", "fields", "reason"),
    [
        ("enabled = false", {}, "isn't enabled"),
        ('types = ["refund.*"]', {}, "doesn't want charge.captured"),
        ("", {"mode": "test"}, "takes live facts, this is a test one"),
        ('mode = "test"', {}, "takes test facts, this is a live one"),
        ("", {"tenant": "shop-a"}, "isn't this tenant's"),
        ('tenant = "shop-b"', {"tenant": "shop-a"}, "isn't this tenant's"),
    ],
)
def test_what_isnt_for_a_subscriber_is_ignored_with_the_reason(
    place: Place, receiver: Receiver, lines: str, fields: dict[str, str], reason: str
) -> None:
    place.add("shop", receiver.port, lines)
    outcome = place.handler()(item("shop", row(**fields)))
    assert isinstance(outcome, Ignored)
    assert reason in outcome.reason
    assert receiver.connections == 0


def test_a_tenants_event_key_still_finds_its_subscriber(place: Place, receiver: Receiver) -> None:
    place.add("shop", receiver.port, 'tenant = "shop-a"')
    event = item("shop", row(tenant="shop-a"))
    assert place.handler()(replace(event, event_key=f"shop-a~{event.event_key}")) == Applied()


def test_a_subscriber_that_was_taken_out_is_passed_over(place: Place, receiver: Receiver) -> None:
    place.add("shop", receiver.port)
    assert place.handler()(item("bank")) == Ignored("there is no subscriber bank any more")


def test_a_subscriber_that_vanishes_from_the_file_waits_in_every_worker(place: Place, receiver: Receiver) -> None:
    """Also in a worker that was started later and never saw it."""
    place.add("shop", receiver.port)
    place.add("bank", receiver.port)
    place.receivers.add(["shop", "bank"])
    older, whole = place.handler(), place.file.read_text()
    assert older(item("shop")) == Applied()
    place.file.write_text(whole[whole.index("[bank]") :])
    for handler in (older, place.handler()):
        calls = Calls()
        with limited_by(calls), pytest.raises(SubscriberGone, match="enabled = false.*or restart") as failed:
            handler(item("shop", row("evt_2")))
        assert failed.value.kind is ErrorKind.SNBE
        assert (calls.called, calls.failures) == (["subscriber:shop"], [failed.value])
        assert handler(item("bank")) == Applied()
    place.file.write_text(whole)
    os.utime(place.file, ns=(1, 1))
    assert older(item("shop", row("evt_2"))) == Applied()


@pytest.mark.parametrize("text", ["", "\n", "# nobody\n"])
def test_a_file_that_was_emptied_stops_the_stream(place: Place, receiver: Receiver, text: str) -> None:
    place.add("shop", receiver.port)
    handler = place.handler()
    assert handler(item("shop")) == Applied()
    place.file.write_text(text)
    for _ in range(2):
        with pytest.raises(SubscribersUnreadable, match="names nobody any more"):
            handler(item("shop", row("evt_2")))


def test_a_subscriber_that_is_switched_off_is_passed_over_whoever_the_stream_began_with(
    place: Place, receiver: Receiver
) -> None:
    place.add("shop", receiver.port, "enabled = false")
    place.receivers.add(["shop"])
    assert place.handler()(item("shop")) == Ignored("subscriber shop isn't enabled")


def test_a_file_that_cant_be_used_stops_the_stream(place: Place, receiver: Receiver) -> None:
    place.add("shop", receiver.port)
    handler = place.handler()
    place.file.write_text("[shop")
    os.utime(place.file, ns=(1, 1))
    with pytest.raises(SubscribersUnreadable) as failed:
        handler(item("shop"))
    assert failed.value.kind is ErrorKind.SBE


def test_a_held_subscriber_isnt_called(place: Place, receiver: Receiver) -> None:
    place.add("shop", receiver.port)
    with limited_by(Calls(open_=True)), pytest.raises(DownstreamHeld):
        place.handler()(item("shop"))
    assert receiver.connections == 0


@pytest.mark.parametrize(
    ("secrets", "problem"),
    [
        (None, "No such file"),
        ("", "0 secrets"),
        ("hunter2\n", "begins with whsec_"),
        ("\n".join(new_secret() for _ in range(5)), "5 secrets"),
    ],
)
def test_a_subscriber_without_usable_secrets_waits_behind_its_breaker(
    place: Place, receiver: Receiver, secrets: str | None, problem: str
) -> None:
    """Its events aren't sent unsigned, nor do they die one by one before somebody mends the file."""
    place.add("shop", receiver.port)
    path = place.folder / "secrets" / "notify.shop"
    path.unlink() if secrets is None else path.write_text(secrets)
    calls = Calls()
    with limited_by(calls), pytest.raises(FileUnusable, match=problem) as failed:
        place.handler()(item("shop"))
    assert calls.failures == [failed.value]
    assert failed.value.kind is ErrorKind.SNBE
    assert "hunter2" not in str(failed.value)
    assert receiver.connections == 0


def test_a_secret_header_comes_from_its_file(place: Place, receiver: Receiver) -> None:
    place.add("shop", receiver.port, 'headers = {authorization = {file = "secrets/notify.token"}}')
    handler = place.handler()
    with pytest.raises(FileUnusable, match="secrets/notify.token"):
        handler(item("shop"))
    (place.folder / "secrets" / "notify.token").write_text("Bearer abc\n")
    assert handler(item("shop")) == Applied()
    assert receiver.requests[0].headers["authorization"] == "Bearer abc"
    (place.folder / "secrets" / "notify.token").write_text("Bearer abc\nx: y\n")
    with pytest.raises(FileUnusable, match="printable ASCII"):
        handler(item("shop"))


def test_a_body_that_is_no_envelope_dies_unsent(place: Place, receiver: Receiver) -> None:
    place.add("shop", receiver.port)
    with pytest.raises(NoticeUnreadable) as failed:
        place.handler()(replace(item("shop"), body=b'{"card":"4111111111111111"}'))
    assert failed.value.kind is ErrorKind.NRE
    assert receiver.connections == 0


def test_many_threads_share_one_handler(place: Place, receiver: Receiver) -> None:
    place.add("shop", receiver.port)
    place.add("bank", receiver.port)
    handler, outcomes = place.handler(), []

    def work(subscriber: str, number: int) -> None:
        outcomes.append(handler(item(subscriber, row(f"evt_{number}"))))

    threads = [threading.Thread(target=work, args=(name, number)) for number in range(20) for name in ("shop", "bank")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [Applied()] * 40
    ids = [request.headers["webhook-id"] for request in receiver.requests]
    assert len(ids) == 40
    assert len(set(ids)) == 20
    assert place.resolver.asked == 2


def test_a_handler_goes_on_after_its_subscriber_moved(place: Place, receiver: Receiver) -> None:
    place.add("shop", receiver.port)
    handler = place.handler()
    handler(item("shop"))
    place.file.write_text(place.file.read_text().replace("/hook?x=1", "/elsewhere"))
    handler(item("shop", row("evt_2")))
    assert [request.line.split()[1] for request in receiver.requests] == ["/hook?x=1", "/elsewhere"]


def test_building_connects_to_nobody_and_names_what_is_missing(place: Place, receiver: Receiver) -> None:
    place.add("shop", receiver.port)
    handler = build(place.notify_settings(), Receivers())
    assert handler.version == "notify-1"
    assert receiver.connections == 0
    with pytest.raises(SettingError, match="notify.subscribers_file"):
        build(NotifySettings(), Receivers())
    with pytest.raises(SettingError, match="notify.ca_file"):
        build(NotifySettings(subscribers_file=str(place.file), ca_file=str(place.file)), Receivers())
    assert pickle.loads(pickle.dumps(build)) is build


def test_errors_travel_between_processes_whole() -> None:
    made = [
        errors.SubscribersUnreadable(Path("s.toml"), "why"),
        errors.SubscriberUnknown("shp", ("shop",)),
        errors.SubscriberGone("shop", Path("s.toml")),
        errors.FileUnusable("shop", Path("f"), "why"),
        errors.NoticeUnreadable("k", "why"),
        errors.AddressRefused("shop", "h", "why"),
        Unreachable("shop", "why"),
        NotTaken("shop", 503, "'said'", 5.0),
        errors.NotDisabled("shop", Path("f"), "why"),
    ]
    for error in made:
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
