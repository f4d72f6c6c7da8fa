"""What the handler makes of a subscriber's answer."""

from __future__ import annotations

import pytest

from core.decision import ErrorKind
from core.work import Applied, Ignored, limited_by
from notify.errors import NotTaken
from notify.facts import message_id
from notify.handler import GONE_S, DisabledSubscribers, on_driver
from tests.unit.notify.calls import SubscriberCalls
from tests.unit.notify.place import SubscribersFolder, item, row
from tests.unit.notify.receiver import OK, SubscriberServer, status

AT = "2026-01-31T12:00:00.000000Z"
EVENT_ID = message_id("live", "stripe:evt_1:charge.captured")


@pytest.mark.parametrize("code", [200, 201, 202, 204, 299])
def test_any_2xx_is_a_delivery(place: SubscribersFolder, receiver: SubscriberServer, code: int) -> None:
    place.add("shop", receiver.port)
    receiver.replies(status(code))
    calls = SubscriberCalls()
    with limited_by(calls):
        assert place.handler()(item("shop")) == Applied()
    assert (calls.called, calls.failures) == (["subscriber:shop"], [])


@pytest.mark.parametrize("code", [500, 502, 503, 504, 599, 429, 408])
def test_an_answer_that_says_it_cant_now_is_its_downstreams_failure(
    place: SubscribersFolder, receiver: SubscriberServer, code: int
) -> None:
    place.add("shop", receiver.port)
    receiver.replies(status(code))
    calls = SubscriberCalls()
    with limited_by(calls), pytest.raises(NotTaken) as failed:
        place.handler()(item("shop"))
    assert calls.failures == [failed.value]
    assert (failed.value.kind, failed.value.code) == (ErrorKind.SNBE, f"http_{code}")
    assert failed.value.retry_after_s is None


@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 413, 422, 301, 302, 307, 308, 304])
def test_a_refusal_in_good_health_is_tried_again_but_no_failure_of_the_downstream(
    place: SubscribersFolder, receiver: SubscriberServer, code: int
) -> None:
    place.add("shop", receiver.port)
    receiver.replies(status(code, body=b"no such hook"))
    calls = SubscriberCalls()
    with limited_by(calls), pytest.raises(NotTaken, match=str(code)) as failed:
        place.handler()(item("shop"))
    assert (calls.called, calls.failures) == (["subscriber:shop"], [])
    assert failed.value.kind is ErrorKind.SNBE
    assert "no such hook" in str(failed.value) or code == 304


def test_what_a_refusal_says_is_cut_and_holds_no_card_number(
    place: SubscribersFolder, receiver: SubscriberServer
) -> None:
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
    place: SubscribersFolder,
    receiver: SubscriberServer,
    code: int,
    header: str,
    seconds: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("notify.sender.RETRY_AFTER_S_MAX", 600.0)
    place.add("shop", receiver.port)
    receiver.replies(status(code, f"retry-after: {header}"))
    with pytest.raises(NotTaken) as failed:
        place.handler()(item("shop"))
    assert failed.value.retry_after_s == seconds


def test_410_disables_until_a_person_enables_again(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    """The event is passed over with the reason, later ones too: in every worker once the driver has kept it."""
    place.add("shop", receiver.port)
    place.add("bank", receiver.port)
    receiver.replies(status(410), OK)
    calls = SubscriberCalls()
    with limited_by(calls):
        first = place.handler()(item("shop"))
    assert calls.failures == []
    assert isinstance(first, Ignored)
    on_driver(place.notify_settings()).keep(first.note)
    later = place.handler()(item("shop", row("evt_2")))
    for outcome in (first, later):
        assert isinstance(outcome, Ignored)
        assert f"disabled since 2026-01-31T12:00:00.000000Z: it answered 410 to {EVENT_ID}" in outcome.reason
    assert len(receiver.requests) == 1
    assert place.handler()(item("bank")) == Applied()
    DisabledSubscribers(place.folder / "subscribers.disabled").enable_subscriber("shop", AT)
    assert place.handler()(item("shop", row("evt_3"))) == Applied()


def test_who_is_enabled_at_once_is_asked_at_once(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    """By the worker to which it answered 410, too."""
    place.add("shop", receiver.port)
    receiver.replies(status(410), OK)
    handler = place.handler()
    gone = handler(item("shop"))
    assert isinstance(gone, Ignored)
    on_driver(place.notify_settings()).keep(gone.note)
    DisabledSubscribers(place.folder / "subscribers.disabled").enable_subscriber("shop", AT)
    assert handler(item("shop", row("evt_2"))) == Applied()


def test_a_worker_asks_nothing_more_before_the_driver_has_kept_it(
    place: SubscribersFolder, receiver: SubscriberServer
) -> None:
    place.add("shop", receiver.port)
    receiver.replies(status(410), OK)
    handler = place.handler()
    assert isinstance(handler(item("shop")), Ignored)
    later = handler(item("shop", row("evt_2")))
    assert isinstance(later, Ignored)
    assert (later.note, len(receiver.requests)) == ((), 1)
    place.clock.advance(GONE_S)
    assert handler(item("shop", row("evt_3"))) == Applied()
