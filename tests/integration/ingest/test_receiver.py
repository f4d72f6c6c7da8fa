"""The receiver on a real Redis and a real Kafka, through real sockets."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from urllib.parse import urlparse

import httpx2
import pytest
from redis import Redis

from core.generation import Announcement, generation_key
from core.keys import hash_key
from ingest.claims import HASH_BYTES
from load.bench.receiver import announce_generation
from load.client import wait_for
from stack.servers.ports import LOOPBACK
from tests.integration.ingest.conftest import PATIENT, ReceiverUnderTest, Servers, Signed, receiver_on

WAIT_S = 60.0
TIMED = 5
REDIS_TIMEOUT_S = 2
LEASE_S = 10
BACK_S = 60.0


def outcome(answer: httpx2.Response) -> tuple[int, bool]:
    """Status, and whether it says that it was known before."""
    return answer.status_code, "idempotent-replayed" in answer.headers


def after(receiver: ReceiverUnderTest, signed: Signed, refused: tuple[int, bool]) -> tuple[int, bool]:
    """The first outcome that isn't ``refused`` any more."""
    until = time.monotonic() + WAIT_S
    while (said := outcome(receiver.post(signed))) == refused and time.monotonic() < until:
        time.sleep(0.1)
    return said


def test_an_event_is_in_kafka_when_it_is_answered_with_its_bytes_key_and_identities(
    receiver: ReceiverUnderTest,
) -> None:
    body, headers = receiver.stripe("1")
    assert outcome(receiver.post((body, headers))) == (200, False)
    [(key, value, sent)] = receiver.published(1)
    assert (key, value) == (f"stripe:acct_1:pi_{receiver.prefix}".encode(), body)
    assert (sent["event_key"], sent["dedupe"], sent["mode"]) == (receiver.event_key("1"), "claimed", "live")
    assert datetime.fromisoformat(sent["received_at"])


@pytest.mark.row("A16")
def test_what_was_answered_is_on_the_receipts_topic_without_the_body(receiver: ReceiverUnderTest) -> None:
    receiver.post(receiver.stripe("1"))
    receiver.post(receiver.stripe("1"))
    receipts = receiver.receipts(2)
    assert [(r["event_key"], r["outcome"], r["status"]) for r in receipts] == [
        (receiver.event_key("1"), "claimed", 200),
        (receiver.event_key("1"), "duplicate", 200),
    ]
    assert all(
        set(r) == {"provider", "event_key", "type", "outcome", "status", "content_sha256", "at"} for r in receipts
    )


def test_of_fifty_copies_at_one_instant_one_is_published(receiver: ReceiverUnderTest) -> None:
    signed = receiver.stripe("storm")
    with ThreadPoolExecutor(50) as pool:
        answers = [outcome(answer) for answer in pool.map(lambda _: receiver.post(signed), range(50))]
    assert answers.count((200, False)) == 1
    assert set(answers) <= {(200, False), (200, True), (409, False)}
    assert len(receiver.published(1)) == 1


def test_every_item_of_a_batch_is_published_by_itself_and_the_batch_is_acknowledged_as_one(
    receiver: ReceiverUnderTest,
) -> None:
    signed = receiver.adyen("A", "B", "A")
    answer = receiver.post(signed, "adyen")
    assert (answer.status_code, answer.text) == (200, "[accepted]")
    assert outcome(receiver.post(signed, "adyen")) == (200, True)
    keys = sorted(headers["event_key"] for *_, headers in receiver.published(2))
    assert keys == [f"adyen:{receiver.prefix}{name}:CAPTURE:true" for name in "AB"]


def test_other_content_under_a_known_id_is_published_as_a_conflict_every_time(receiver: ReceiverUnderTest) -> None:
    assert outcome(receiver.post(receiver.stripe("1", 500))) == (200, False)
    assert outcome(receiver.post(receiver.stripe("1", 900))) == (200, False)
    assert outcome(receiver.post(receiver.stripe("1", 500))) == (200, True)
    assert sorted(headers["dedupe"] for *_, headers in receiver.published(2)) == ["claimed", "conflict"]


def seconds(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


@pytest.mark.more(reason="a receiver of its own; a Redis that is full is deferred in the same way")
def test_while_redis_hangs_events_go_on_deferred_and_afterwards_copies_are_known_again(
    servers: Servers,
) -> None:
    limits = replace(PATIENT, redis_failures_max=2, redis_reset_s=2.0)
    with receiver_on(servers, limits, PAYHOOK_INGEST__REDIS_TIMEOUT_MS=str(REDIS_TIMEOUT_S * 1_000)) as receiver:
        signed = receiver.stripe("1")
        with servers.paused(servers.redis):
            assert [outcome(receiver.post(signed)) for _ in range(8)] == [(200, False)] * 8
            assert min(seconds(lambda: receiver.post(signed)) for _ in range(TIMED)) < REDIS_TIMEOUT_S / 2, (
                "an open breaker makes nobody wait"
            )
        assert {headers["dedupe"] for *_, headers in receiver.published(8 + TIMED)} == {"deferred"}
        assert wait_for(lambda: outcome(receiver.post(signed))[1], WAIT_S), "its copies are never known again"


def test_a_full_redis_is_a_redis_that_is_down(receiver: ReceiverUnderTest, servers: Servers) -> None:
    client = servers.empty_redis()
    client.config_set("maxmemory", "1")
    try:
        assert outcome(receiver.post(receiver.stripe("1"))) == (200, False)
    finally:
        client.config_set("maxmemory", "0")
    [(_, _, headers)] = receiver.published(1)
    assert headers["dedupe"] == "deferred"


def test_a_redis_that_lost_keys_and_scripts_is_taught_them_again(receiver: ReceiverUnderTest, servers: Servers) -> None:
    signed = receiver.stripe("1")
    receiver.post(signed)
    assert outcome(receiver.post(signed)) == (200, True), "its confirmation, which no answer waits for, has arrived"
    client = servers.empty_redis()
    client.script_flush()
    assert outcome(receiver.post(signed)) == (200, False)
    assert outcome(receiver.post(signed)) == (200, True)
    assert [headers["dedupe"] for *_, headers in receiver.published(2)] == ["claimed", "claimed"]


def test_claims_follow_the_generation_that_a_processor_announces(servers: Servers) -> None:
    """Of a Redis database of its own: what this receiver has seen, the others may not."""
    url = servers.admin_url.removesuffix("db=0") + "db=1"
    client = Redis.from_url(url)
    with receiver_on(servers, PAYHOOK_REDIS__URL=url) as receiver:

        def comes_to(replayed: bool) -> bool:
            return wait_for(lambda: outcome(receiver.post(signed)) == (200, replayed), BACK_S)

        signed = receiver.stripe("1")
        assert [outcome(receiver.post(signed)) for _ in range(3)] == [(200, False)] * 3
        assert {headers["dedupe"] for *_, headers in receiver.published(3)} == {"deferred"}
        announce_generation(client)
        assert comes_to(replayed=True)
        announce_generation(client, 1)
        assert comes_to(replayed=False)
        assert comes_to(replayed=True)
        flags = [headers["dedupe"] for *_, headers in receiver.published(5)]
        assert flags.count("claimed") == 2
        assert b"1:" + hash_key(receiver.event_key("1")) in client.keys("1:*")
        client.set(generation_key("live"), Announcement(1, 4, refused=True).encode())
        assert comes_to(replayed=False)
        assert "payhook_redis_modes_deferred 1.0" in httpx2.get(f"{receiver.metrics_url}/metrics").text
        announce_generation(client, 1)
        assert comes_to(replayed=True)


def test_while_kafka_hangs_nothing_is_promised_and_nothing_is_confirmed(
    receiver: ReceiverUnderTest, servers: Servers
) -> None:
    signed = receiver.stripe("1")
    with servers.paused(servers.kafka):
        answer = receiver.post(signed)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        assert answer.json()["error"]["code"] == "not_published"
        assert httpx2.get(f"{receiver.url}/healthz").status_code == 200
    assert after(receiver, signed, (503, False)) == (200, False), (
        "a released claim is taken again, never a duplicate of nothing"
    )
    assert receiver.published(1)


def test_killed_between_kafka_and_the_confirmation_its_claim_is_taken_over_after_the_lease(servers: Servers) -> None:
    crash = {"PAYHOOK_TESTING": "1", "PAYHOOK_CRASH_AT": "ingest.between_publish_and_confirm"}
    brief = replace(PATIENT, lease_s=LEASE_S, read_deadline_s=2.0, in_flight_wait_s=1.0)
    impatient = replace(PATIENT, in_flight_wait_s=1.0)
    with receiver_on(servers, brief, **crash) as dying, receiver_on(servers, impatient) as heir:
        heir.prefix = dying.prefix
        signed = dying.stripe("1")
        with pytest.raises(httpx2.TransportError):
            dying.post(signed)
        assert outcome(heir.post(signed)) == (409, False)
        assert after(heir, signed, (409, False)) == (200, False)
        assert wait_for(lambda: outcome(heir.post(signed)) == (200, True), WAIT_S)
        assert sorted(headers["dedupe"] for *_, headers in heir.published(2)) == ["claimed", "reclaimed"]


def test_asked_to_end_it_finishes_what_it_accepted(servers: Servers) -> None:
    with receiver_on(servers) as receiver, ThreadPoolExecutor(1) as pool:
        with servers.paused(servers.kafka):
            answer = pool.submit(receiver.post, receiver.stripe("1"))
            assert wait_for(lambda: receiver.claims_made() == 1, WAIT_S)
            receiver.process.ask_to_end()
            time.sleep(0.4)
            assert receiver.process.exit_code is None
        assert outcome(answer.result()) == (200, False)
        assert wait_for(lambda: receiver.process.exit_code is not None, WAIT_S)
        assert receiver.process.exit_code in (0, -signal.SIGTERM)
        assert len(receiver.published(1)) == 1


def test_a_forged_signature_is_refused_and_reaches_no_topic(receiver: ReceiverUnderTest) -> None:
    body, headers = receiver.stripe("1")
    answer = receiver.post((body.replace(b"500", b"501"), headers))
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "signature_mismatch")
    receiver.post(receiver.stripe("2"))
    assert [sent["event_key"] for *_, sent in receiver.published(1)] == [receiver.event_key("2")]


def test_its_metrics_are_on_a_loopback_port_of_their_own(receiver: ReceiverUnderTest) -> None:
    receiver.post(receiver.stripe("1"))
    reported = httpx2.get(f"{receiver.metrics_url}/metrics").text
    assert 'payhook_ingest_answers_total{provider="stripe",status="200"}' in reported
    assert 'payhook_redis_claim_seconds_bucket{le="0.01"}' in reported
    assert httpx2.get(f"{receiver.url}/metrics").status_code == 404
    assert urlparse(receiver.metrics_url).hostname == LOOPBACK


@pytest.mark.row("A3")
def test_a_confirmed_key_is_small_and_kept_for_a_week_and_a_day(receiver: ReceiverUnderTest, servers: Servers) -> None:
    """104 bytes by MEMORY USAGE are 161 of ``used_memory``, tables included; 165 is the limit."""
    client = servers.empty_redis()
    receiver.post(receiver.stripe("1"))
    [key] = client.keys("?" * HASH_BYTES)
    assert wait_for(lambda: (client.get(key) or b"")[:1] == b"d", WAIT_S), "no answer waits for its confirmation"
    assert int(client.memory_usage(key) or 0) <= 104
    assert 7 * 86_400 < int(client.ttl(key)) <= 8 * 86_400
