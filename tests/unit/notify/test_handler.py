"""The handler: one fact to one subscriber, signed, with the same id on every try."""

from __future__ import annotations

import copy
import logging
import pickle
import re
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from core.decision import ErrorKind
from core.errors import SettingError
from core.work import Applied, Receivers
from notify import errors
from notify.errors import NoticeUnreadable, NotTaken, Unreachable
from notify.facts import message_id, notice_json
from notify.handler import build
from notify.settings import NotifySettings
from notify.signature import new_secret
from tests.unit.notify.place import HOST, SubscribersFolder, item, row
from tests.unit.notify.receiver import OK, SubscriberServer, status

EVENT_ID = message_id("live", "stripe:evt_1:charge.captured")


def test_a_fact_is_posted_signed_to_the_subscribers_url(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    secret = place.add("shop", receiver.port, 'headers = {X-Team = "payments"}')
    assert place.handler()(item("shop")) == Applied()
    (request,) = receiver.requests
    assert request.line == "POST /hook?x=1 HTTP/1.1"
    assert request.body == notice_json(row())
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


def test_the_id_is_the_same_on_a_retry_from_another_worker_later(
    place: SubscribersFolder, receiver: SubscriberServer
) -> None:
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


def test_a_rotated_secret_is_taken_up_and_the_older_one_signs_too(
    place: SubscribersFolder, receiver: SubscriberServer
) -> None:
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


def test_a_body_that_is_no_envelope_dies_unsent(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    place.add("shop", receiver.port)
    with pytest.raises(NoticeUnreadable) as failed:
        place.handler()(replace(item("shop"), body=b'{"card":"4111111111111111"}'))
    assert failed.value.kind is ErrorKind.NRE
    assert receiver.connections == 0


def test_many_threads_share_one_handler(place: SubscribersFolder, receiver: SubscriberServer) -> None:
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


def test_a_handler_goes_on_after_its_subscriber_moved(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    place.add("shop", receiver.port)
    handler = place.handler()
    handler(item("shop"))
    place.file.write_text(place.file.read_text().replace("/hook?x=1", "/elsewhere"))
    handler(item("shop", row("evt_2")))
    assert [request.line.split()[1] for request in receiver.requests] == ["/hook?x=1", "/elsewhere"]


def test_building_connects_to_nobody_and_names_what_is_missing(
    place: SubscribersFolder, receiver: SubscriberServer
) -> None:
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
    ]
    for error in made:
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_a_traced_fact_takes_its_trace_to_the_subscriber_and_no_other_does(
    place: SubscribersFolder, receiver: SubscriberServer
) -> None:
    place.add("shop", receiver.port, 'headers = {X-Team = "payments"}')
    sent = f"00-{'4b' * 16}-00f067aa0ba902b7-01"
    place.handler()(replace(item("shop"), traceparent=sent))
    place.handler()(item("shop"))
    traced, plain = receiver.requests
    assert traced.headers["traceparent"] == sent and "traceparent" not in plain.headers


def test_it_logs_whom_it_asks_and_what_the_answer_is(
    place: SubscribersFolder, receiver: SubscriberServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "notify.handler")
    place.add("shop", receiver.port)
    place.handler()(item("shop"))
    sent, answered = caplog.messages
    assert re.fullmatch(rf"sends \S+ to subscriber shop at http://\S+:{receiver.port}/…", sent), sent
    assert answered == "subscriber shop answered 200"
    assert "/hook?" not in sent, "a path may be a secret"
