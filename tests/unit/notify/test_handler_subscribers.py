"""Whom the handler posts to: by the subscribers' file as it is now, and by its secrets."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from core.decision import ErrorKind
from core.work import Applied, DownstreamHeld, Ignored, limited_by
from notify.errors import FileUnusable, SubscriberGone, SubscribersUnreadable
from notify.signature import new_secret
from tests.unit.notify.calls import SubscriberCalls
from tests.unit.notify.place import SubscribersFolder, item, reversal, row
from tests.unit.notify.receiver import SubscriberServer


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
    place: SubscribersFolder, receiver: SubscriberServer, lines: str, fields: dict[str, str], reason: str
) -> None:
    place.add("shop", receiver.port, lines)
    outcome = place.handler()(item("shop", row(**fields)))
    assert isinstance(outcome, Ignored)
    assert reason in outcome.reason
    assert receiver.connections == 0


@pytest.mark.parametrize(
    ("types", "goes_out"),
    [('["charge.*"]', True), ('["payhook.reversed"]', True), ('["*"]', True), ('["refund.*"]', False)],
)
def test_a_reversal_goes_to_who_wants_what_it_takes_back(
    place: SubscribersFolder, receiver: SubscriberServer, types: str, goes_out: bool
) -> None:
    place.add("shop", receiver.port, f"types = {types}")
    outcome = place.handler()(replace(item("shop", reversal(row())), event_type="payhook.reversed"))
    if goes_out:
        assert outcome == Applied()
    else:
        assert outcome == Ignored("subscriber shop doesn't want charge.captured")


def test_a_tenants_event_key_still_finds_its_subscriber(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    place.add("shop", receiver.port, 'tenant = "shop-a"')
    event = item("shop", row(tenant="shop-a"))
    assert place.handler()(replace(event, event_key=f"shop-a~{event.event_key}")) == Applied()


def test_a_subscriber_that_was_taken_out_is_passed_over(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    place.add("shop", receiver.port)
    assert place.handler()(item("bank")) == Ignored("there is no subscriber bank any more")


def test_a_subscriber_that_vanishes_from_the_file_waits_in_every_worker(
    place: SubscribersFolder, receiver: SubscriberServer
) -> None:
    """Also in a worker that was started later and never saw it."""
    place.add("shop", receiver.port)
    place.add("bank", receiver.port)
    place.receivers.add(["shop", "bank"])
    older, whole = place.handler(), place.file.read_text()
    assert older(item("shop")) == Applied()
    place.file.write_text(whole[whole.index("[bank]") :])
    for handler in (older, place.handler()):
        calls = SubscriberCalls()
        with limited_by(calls), pytest.raises(SubscriberGone, match="enabled = false.*or restart") as failed:
            handler(item("shop", row("evt_2")))
        assert failed.value.kind is ErrorKind.SNBE
        assert (calls.called, calls.failures) == (["subscriber:shop"], [failed.value])
        assert handler(item("bank")) == Applied()
    place.file.write_text(whole)
    os.utime(place.file, ns=(1, 1))
    assert older(item("shop", row("evt_2"))) == Applied()


@pytest.mark.parametrize("text", ["", "\n", "# nobody\n"])
def test_a_file_that_was_emptied_stops_the_stream(
    place: SubscribersFolder, receiver: SubscriberServer, text: str
) -> None:
    place.add("shop", receiver.port)
    handler = place.handler()
    assert handler(item("shop")) == Applied()
    place.file.write_text(text)
    for _ in range(2):
        with pytest.raises(SubscribersUnreadable, match="no longer names a subscriber"):
            handler(item("shop", row("evt_2")))


def test_a_subscriber_that_is_switched_off_is_passed_over_whoever_the_stream_began_with(
    place: SubscribersFolder, receiver: SubscriberServer
) -> None:
    place.add("shop", receiver.port, "enabled = false")
    place.receivers.add(["shop"])
    assert place.handler()(item("shop")) == Ignored("subscriber shop isn't enabled")


def test_a_file_that_cant_be_used_stops_the_stream(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    place.add("shop", receiver.port)
    handler = place.handler()
    place.file.write_text("[shop")
    os.utime(place.file, ns=(1, 1))
    with pytest.raises(SubscribersUnreadable) as failed:
        handler(item("shop"))
    assert failed.value.kind is ErrorKind.SBE


def test_a_held_subscriber_isnt_called(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    place.add("shop", receiver.port)
    with limited_by(SubscriberCalls(open_=True)), pytest.raises(DownstreamHeld):
        place.handler()(item("shop"))
    assert receiver.connections == 0


@pytest.mark.parametrize(
    ("secrets", "problem"),
    [
        (None, "No such file"),
        ("", "line 1 is empty"),
        ("hunter2-hunter2-hunter2\n", "begins with whsec_"),
        ("\n".join(new_secret() for _ in range(5)), "5 secrets"),
    ],
)
def test_a_subscriber_without_usable_secrets_waits_behind_its_breaker(
    place: SubscribersFolder, receiver: SubscriberServer, secrets: str | None, problem: str
) -> None:
    """Its events aren't sent unsigned, nor do they die one by one before somebody mends the file."""
    place.add("shop", receiver.port)
    path = place.folder / "secrets" / "notify.shop"
    path.unlink() if secrets is None else path.write_text(secrets)
    calls = SubscriberCalls()
    with limited_by(calls), pytest.raises(FileUnusable, match=problem) as failed:
        place.handler()(item("shop"))
    assert calls.failures == [failed.value]
    assert failed.value.kind is ErrorKind.SNBE
    assert "hunter2" not in str(failed.value)
    assert receiver.connections == 0


def test_a_secret_header_comes_from_its_file(place: SubscribersFolder, receiver: SubscriberServer) -> None:
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
