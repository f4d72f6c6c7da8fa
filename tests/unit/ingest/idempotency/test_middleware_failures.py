"""Whatever breaks in the middle, nothing is carried out twice unknowingly, and nothing is left unsaid."""

from __future__ import annotations

import asyncio

import httpx2
import pytest
from starlette.types import Message

from ingest.idempotency.middleware import ANSWER_BYTES_MAX
from tests.unit.ingest.idempotency.guarded_app import KEY, LEASE_S, AppCall, Guarded, empty_body, slug


def test_an_application_that_raises_gets_the_request_again() -> None:
    async def act(call: AppCall) -> None:
        if len(guarded.calls) == 1:
            raise RuntimeError("bug")
        await call.answer()

    guarded = Guarded(act)
    assert [guarded.post().status_code for _ in range(2)] == [500, 201]
    assert guarded.calls[1].run.repeated


def test_work_after_the_answer_that_fails_leaves_the_answer_kept() -> None:
    async def act(call: AppCall) -> None:
        await call.answer()
        raise RuntimeError("the mail wasn't sent")

    guarded = Guarded(act)
    assert [guarded.post().status_code for _ in range(2)] == [201, 201]
    assert len(guarded.calls) == 1


def test_an_owner_that_died_leaves_the_key_to_a_copy_after_the_lease() -> None:
    async def act(call: AppCall) -> None:
        reached.set()
        await asyncio.Event().wait()

    async def killed() -> None:
        async with guarded.client() as client:
            post = asyncio.create_task(client.post("/refunds", headers=KEY, content=b"{}"))
            await reached.wait()
            post.cancel()
        # The loop ends here, and with it the run: nothing was confirmed, lapsed or released.

    guarded, reached = Guarded(act), asyncio.Event()
    asyncio.run(killed())
    guarded.act = None
    assert guarded.post().status_code == 409
    guarded.clock.advance(LEASE_S + 1)
    answer = guarded.post()
    assert (answer.status_code, answer.text) == (201, "run 2")
    first, second = (call.run for call in guarded.calls)
    assert (first.repeated, second.repeated) == (False, True)
    assert first.request_id == second.request_id and len(first.request_id) == 32


def test_a_run_that_takes_longer_than_the_lease_keeps_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    really_sleep = asyncio.sleep

    async def sleep(seconds: float) -> None:
        guarded.clock.advance(seconds)
        slept.append(seconds)
        await really_sleep(0)

    async def act(call: AppCall) -> None:
        while sum(slept) < 3 * LEASE_S:
            await really_sleep(0)
        async with guarded.client() as client:
            inner.append(await client.post("/refunds", headers=KEY, content=b"{}"))
        await call.answer()

    guarded, slept, inner = Guarded(act), list[float](), list[httpx2.Response]()
    monkeypatch.setattr("ingest.idempotency.middleware.asyncio.sleep", sleep)
    assert guarded.post().status_code == 201
    assert inner[0].status_code == 409
    assert len(guarded.calls) == 1


def test_a_client_that_leaves_changes_nothing_and_finds_the_answer_when_it_comes_back() -> None:
    async def act(call: AppCall) -> None:
        reached.set()
        await gate.wait()
        await call.answer(body=b"done")
        settled.set()

    async def history() -> httpx2.Response:
        async with guarded.client() as client:
            post = asyncio.create_task(client.post("/refunds", headers=KEY))
            await reached.wait()
            post.cancel()
            await asyncio.gather(post, return_exceptions=True)
            gate.set()
            await settled.wait()
            return await client.post("/refunds", headers=KEY)

    guarded, reached, gate, settled = Guarded(act), asyncio.Event(), asyncio.Event(), asyncio.Event()
    again = asyncio.run(history())
    assert (again.text, again.headers["idempotent-replayed"], len(guarded.calls)) == ("done", "true", 1)


def test_a_client_that_cannot_be_reached_any_more_is_no_error_of_the_application() -> None:
    async def send(message: Message) -> None:
        raise OSError("reset by peer")

    guarded = Guarded()
    asyncio.run(guarded.raw(empty_body, send))
    assert guarded.post().headers["idempotent-replayed"] == "true"


def test_an_answer_is_kept_before_its_first_byte_is_sent() -> None:
    kept: list[bool] = []

    async def send(message: Message) -> None:
        kept.append(any(held.answer for held in guarded.store._held.values()))

    guarded = Guarded()
    asyncio.run(guarded.raw(empty_body, send))
    assert kept == [True, True]


def test_an_application_that_stops_when_its_client_leaves_is_not_reported_of_it() -> None:
    """A server's streaming answers watch for that; cut short, they would be kept as if they were whole."""

    async def act(call: AppCall) -> None:
        async def watch() -> None:
            reported.append((await call.receive())["type"])

        watching = asyncio.create_task(watch())
        await asyncio.wait({watching}, timeout=0.01)
        await call.answer(body=b"cut short" if reported else b"whole")
        await watching

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        raise OSError("reset by peer")

    messages: list[Message] = [{"type": "http.request", "body": b"{}"}, {"type": "http.disconnect"}]
    guarded, reported = Guarded(act), list[str]()
    asyncio.run(guarded.raw(receive, send))
    assert guarded.post().text == "whole"
    assert reported == ["http.disconnect"], "after the answer it may know"


def test_a_request_cut_off_in_its_body_claims_nothing() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    guarded = Guarded()
    asyncio.run(guarded.raw(receive, send))
    assert (guarded.calls, sent) == ([], [])
    assert guarded.post(b"other").text == "run 1"


def test_an_answer_that_breaks_off_is_not_kept() -> None:
    sent: list[Message] = []

    async def act(call: AppCall) -> None:
        if len(guarded.calls) == 1:
            await call.send({"type": "http.response.start", "status": 200, "headers": []})
            await call.send({"type": "http.response.body", "body": b"half", "more_body": True})
        else:
            await call.answer(body=b"whole")

    async def send(message: Message) -> None:
        sent.append(message)

    guarded = Guarded(act)
    asyncio.run(guarded.raw(empty_body, send))
    assert [message.get("more_body") for message in sent] == [None, True], "the client sees it break off"
    assert guarded.post().text == "whole"


def test_an_answer_too_large_to_keep_that_stops_in_its_middle_was_given_all_the_same() -> None:
    async def act(call: AppCall) -> None:
        await call.send({"type": "http.response.start", "status": 201, "headers": []})
        await call.send({"type": "http.response.body", "body": b"x" * (ANSWER_BYTES_MAX + 1), "more_body": True})

    async def send(message: Message) -> None:
        sent.append(message)

    guarded, sent = Guarded(act), list[Message]()
    asyncio.run(guarded.raw(empty_body, send))
    assert [message.get("body") for message in sent] == [None, b"x" * (ANSWER_BYTES_MAX + 1)]
    copy = guarded.post()
    assert (copy.status_code, slug(copy), len(guarded.calls)) == (409, "answer-not-kept", 1)


def test_while_keys_cannot_be_looked_up_nothing_is_done() -> None:
    guarded = Guarded()
    guarded.store.down = frozenset({"claim"})
    answer = guarded.post()
    assert (answer.status_code, slug(answer), answer.headers["retry-after"]) == (503, "keys-unavailable", "5")
    assert guarded.calls == []
    guarded.store.down = frozenset()
    assert guarded.post().status_code == 201


def test_a_claim_whose_answer_was_lost_does_not_block_its_own_retry() -> None:
    guarded = Guarded()
    guarded.store.answers_lost = True
    assert guarded.post().status_code == 503
    guarded.store.answers_lost = False
    assert guarded.post().status_code == 201


def test_an_answer_that_cannot_be_kept_is_given_all_the_same_and_the_key_lapses() -> None:
    guarded = Guarded()
    guarded.store.down = frozenset({"confirm"})
    assert guarded.post().text == "run 1"
    guarded.store.down = frozenset()
    assert guarded.post().status_code == 409
    guarded.clock.advance(LEASE_S + 1)
    assert guarded.post().text == "run 2"
    assert guarded.calls[1].run.repeated
