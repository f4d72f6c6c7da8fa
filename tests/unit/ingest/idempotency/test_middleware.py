"""A request with a key is carried out once; every answer about a key is true."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest
from starlette.types import Message, Receive, Scope, Send

from ingest.idempotency import middleware
from ingest.idempotency.middleware import ANSWER_BYTES_MAX, REQUEST_BYTES_MAX, IdempotencyKey
from tests.unit.ingest.idempotency.guarded_app import KEPT_S, KEY, AppCall, Guarded, empty_body, slug


async def no_answer(_: Message) -> None:
    raise AssertionError("nothing is to be sent")


def test_the_first_request_runs_and_a_copy_gets_its_answer() -> None:
    guarded = Guarded()
    first, copy = guarded.post(), guarded.post()
    assert (first.status_code, first.text, first.headers["location"]) == (201, "run 1", "/made/1")
    assert (copy.status_code, copy.text, copy.headers["location"]) == (201, "run 1", "/made/1")
    assert copy.headers["content-type"] == first.headers["content-type"]
    assert ("idempotent-replayed" in first.headers, copy.headers["idempotent-replayed"]) == (False, "true")
    assert len(guarded.calls) == 1


def test_quoted_and_bare_are_the_same_key() -> None:
    guarded = Guarded()
    guarded.post()
    assert guarded.post(headers={"idempotency-key": "k-1"}).headers["idempotent-replayed"] == "true"


def test_without_a_key_it_says_what_to_do() -> None:
    guarded = Guarded()
    answer = guarded.post(headers={})
    assert (answer.status_code, slug(answer)) == (400, "key-missing")
    assert "Idempotency-Key" in answer.json()["detail"]
    assert guarded.calls == []


@pytest.mark.parametrize("headers", [{"idempotency-key": '"a'}, [("idempotency-key", "a"), ("idempotency-key", "a")]])
def test_a_malformed_key_or_several_are_refused(headers: httpx2._types.HeaderTypes) -> None:
    guarded = Guarded()
    answer = guarded.post(headers=headers)
    assert (answer.status_code, slug(answer)) == (400, "key-malformed")
    assert guarded.calls == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_pass_untouched(method: str) -> None:
    guarded = Guarded()
    answers = [guarded.request(method) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert len(guarded.calls) == 2
    assert all("idempotency" not in call.scope.get("state", {}) for call in guarded.calls)


@pytest.mark.parametrize("kind", ["websocket", "lifespan"])
def test_websockets_and_lifespan_pass_untouched(kind: str) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert receive is empty_body
        seen.append(scope["type"])

    seen: list[str] = []
    wrapped = IdempotencyKey(app, store=Guarded().store, caller=lambda _: "ann")
    asyncio.run(wrapped({"type": kind}, empty_body, no_answer))
    assert seen == [kind]


@pytest.mark.parametrize(
    "other",
    [
        {"content": b'{"amount": 2}'},
        {"path": "/payouts"},
        {"path": "/refunds?dry=1"},
        {"method": "PATCH"},
        {"path": "/re%66unds"},
        {"headers": {**KEY, "content-type": "text/plain"}},
    ],
)
def test_the_same_key_for_another_request_is_refused(other: dict[str, object]) -> None:
    guarded = Guarded()
    guarded.request(content=b"{}")
    answer = guarded.request(**{"content": b"{}", **other})  # type: ignore[arg-type]
    assert (answer.status_code, slug(answer)) == (422, "key-reused")
    assert len(guarded.calls) == 1


def test_keys_of_other_callers_do_not_collide() -> None:
    guarded = Guarded()
    guarded.post()
    guarded.caller = "bob"
    assert guarded.post(b"[]").text == "run 2"
    ids = {call.run.request_id for call in guarded.calls}
    assert len(ids) == 2


def test_after_its_time_a_key_is_new_again() -> None:
    guarded = Guarded()
    guarded.post()
    guarded.clock.advance(KEPT_S - 1)
    assert guarded.post().text == "run 1"
    guarded.clock.advance(2)
    assert guarded.post(b"another").text == "run 2"
    guarded.clock.advance(KEPT_S + 1)
    assert guarded.post().text == "run 3"
    first, other, again = (call.run.request_id for call in guarded.calls)
    assert first == again != other, "a run is named by its key and its request, for ever"


def test_of_fifty_at_once_one_runs_and_the_others_are_reported_to_come_again() -> None:
    async def act(call: AppCall) -> None:
        await asyncio.sleep(0)
        await gate.wait()
        await call.answer()

    async def storm() -> list[httpx2.Response]:
        async with guarded.client() as client:
            posts = [asyncio.create_task(client.post("/refunds", headers=KEY)) for _ in range(50)]
            for _, refused in zip(range(49), asyncio.as_completed(posts), strict=False):
                await refused
            gate.set()
            return await asyncio.gather(*posts)

    guarded, gate = Guarded(act), asyncio.Event()
    answers = asyncio.run(storm())
    refused = [answer for answer in answers if answer.status_code == 409]
    assert (len(guarded.calls), len(refused)) == (1, 49)
    assert {(slug(answer), answer.headers["retry-after"]) for answer in refused} == {("key-in-use", "1")}
    assert guarded.post(b"").headers["idempotent-replayed"] == "true"


def test_another_request_with_the_key_of_one_in_flight_is_refused_for_good() -> None:
    async def act(call: AppCall) -> None:
        async with guarded.client() as client:
            inner.append(await client.post("/refunds", headers=KEY, content=b"other"))
        await call.answer()

    guarded, inner = Guarded(act), list[httpx2.Response]()
    guarded.post()
    assert inner[0].status_code == 422


@pytest.mark.parametrize("status", [200, 204, 302, 400, 404, 409, 422])
def test_answers_below_500_are_kept_errors_too(status: int) -> None:
    async def act(call: AppCall) -> None:
        await call.answer(status, b"" if status == 204 else b"said")

    guarded = Guarded(act)
    answers = [guarded.post() for _ in range(2)]
    assert [(answer.status_code, answer.content) for answer in answers] == [(status, answers[0].content)] * 2
    assert len(guarded.calls) == 1


@pytest.mark.parametrize("status", [401, 403, 408, 425, 429, 500, 502, 503])
def test_what_may_fare_otherwise_runs_again_and_knows_that_it_does(status: int) -> None:
    async def act(call: AppCall) -> None:
        await call.answer(status if len(guarded.calls) == 1 else 201)

    guarded = Guarded(act)
    assert [guarded.post().status_code for _ in range(3)] == [status, 201, 201]
    assert [call.run.repeated for call in guarded.calls] == [False, True]
    assert guarded.post(b"other").status_code == 422, "the key stands for the request that may have acted"


def test_an_application_that_refuses_before_it_begins_leaves_the_key_free() -> None:
    async def act(call: AppCall) -> None:
        call.run.nothing_began()
        await call.answer(422)

    guarded = Guarded(act)
    guarded.post(b"mistyped")
    guarded.act = None
    answer = guarded.post(b"corrected")
    assert (answer.status_code, guarded.calls[1].run.repeated) == (201, False)


def test_a_refusal_on_a_second_try_does_not_hide_the_first() -> None:
    async def act(call: AppCall) -> None:
        if len(guarded.calls) == 2:
            call.run.nothing_began()
        await call.answer(500)

    guarded = Guarded(act)
    guarded.post()
    guarded.post()
    assert guarded.post(b"other").status_code == 422
    guarded.post()
    assert guarded.calls[2].run.repeated


def test_a_streamed_request_and_a_streamed_answer_come_through_whole() -> None:
    async def act(call: AppCall) -> None:
        await call.send({"type": "http.response.start", "status": 200, "headers": []})
        for part in (b"one ", b"two ", b""):
            await call.send({"type": "http.response.body", "body": part, "more_body": True})
        await call.send({"type": "http.response.body", "body": b"three"})

    async def parts() -> AsyncIterator[bytes]:
        yield b"a" * 10
        yield b"b" * 10

    guarded = Guarded(act)
    assert [guarded.post(parts()).text for _ in range(2)] == ["one two three"] * 2
    assert [call.body for call in guarded.calls] == [b"a" * 10 + b"b" * 10]


def test_an_answer_too_large_to_keep_is_given_once_and_then_reported_of_truly() -> None:
    async def act(call: AppCall) -> None:
        await call.send({"type": "http.response.start", "status": 201, "headers": []})
        for _ in range(4):
            await call.send({"type": "http.response.body", "body": part, "more_body": True})
        await call.send({"type": "http.response.body", "body": part})

    part = b"x" * (ANSWER_BYTES_MAX // 2)
    guarded = Guarded(act)
    first, copy = guarded.post(), guarded.post()
    assert (first.status_code, first.content) == (201, part * 5)
    assert (copy.status_code, slug(copy), copy.json()["original_status"]) == (409, "answer-not-kept", 201)
    assert "retry-after" not in copy.headers
    assert f"{len(part) * 5} bytes" in copy.json()["detail"]
    assert len(guarded.calls) == 1


def test_an_answer_of_exactly_the_limit_is_kept() -> None:
    async def act(call: AppCall) -> None:
        await call.answer(body=b"x" * ANSWER_BYTES_MAX)

    guarded = Guarded(act)
    assert [guarded.post().content for _ in range(2)] == [b"x" * ANSWER_BYTES_MAX] * 2
    assert len(guarded.calls) == 1


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_beyond_the_limit_is_refused_before_anything_is_claimed(declared: bool) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"x" * REQUEST_BYTES_MAX
        yield b"x"

    guarded = Guarded()
    answer = guarded.post(b"x" * (REQUEST_BYTES_MAX + 1) if declared else parts())
    assert (answer.status_code, slug(answer), answer.headers["connection"]) == (413, "body-too-large", "close")
    assert guarded.calls == []
    assert guarded.post(b"x" * REQUEST_BYTES_MAX).status_code == 201


def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def parts() -> AsyncIterator[bytes]:
        await asyncio.sleep(60)
        yield b""

    monkeypatch.setattr(middleware, "REQUEST_S_MAX", 0.01)
    answer = Guarded().post(parts())
    assert (answer.status_code, slug(answer)) == (408, "body-too-slow")


def test_cookies_and_dates_are_not_repeated() -> None:
    async def act(call: AppCall) -> None:
        await call.answer(set_cookie="session=1", date="Sat, 31 Jan 2026 12:00:00 GMT", etag='"v1"', x_trace="7")

    guarded = Guarded(act)
    first, copy = guarded.post(), guarded.post()
    assert first.headers["set-cookie"] == "session=1"
    assert {"etag", "idempotent-replayed", "content-length"} == set(copy.headers)


def test_the_application_is_offered_no_way_to_answer_beside_the_recording() -> None:
    async def offered(scope: Scope, receive: Receive, send: Send) -> None:
        await guarded.app({**scope, "extensions": {"http.response.pathsend": {}, "tls": {}}}, receive, send)

    async def inside() -> None:
        transport = httpx2.ASGITransport(offered)
        async with httpx2.AsyncClient(transport=transport, base_url="http://api") as client:
            await client.post("/refunds", headers=KEY)

    guarded = Guarded()
    asyncio.run(inside())
    assert guarded.calls[0].scope["extensions"] == {"tls": {}}
