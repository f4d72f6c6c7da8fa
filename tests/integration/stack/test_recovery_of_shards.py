"""One shard disagrees with Kafka: what is lost is counted once, and what another shard knows or decides isn't lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
import redis
from confluent_kafka import Producer

from core.generation import claim_name
from core.keys import hash_key
from core.money import Movement
from core.settings import KafkaSettings, RedisSettings
from journal.bodies import BodyStore
from journal.index import Index
from journal.reader import JournalReader
from journal.schema import JournalRow
from processor.settings import ProcessorSettings
from stack.catching_up import ListAgain, read_list_again
from stack.maintenance.recovery import (
    LISTED_MAX,
    RECEIPTS_BEFORE,
    Servers,
    StreamComparison,
    compare_streams,
    have_listed_again,
)
from stack.servers.ports import LOOPBACK, free_ports
from stack.servers.server import run_server
from stack.settings import Settings
from stack.topics import make_topics, plan_topics
from tests.answers import answered, receipt
from tests.divided_ledger import MOVES, STAYS, ShardLedger
from tests.plain_kafka import kafka_server
from tests.small_ledger import TOPIC, body_of

pytestmark = pytest.mark.more(reason="a broker of its own; tests/unit/stack has each look")

WAITS, LOST = "stripe:evt_waits:capture", "stripe:evt_lost:capture"


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[str]:
    """One of its own: its topics are those of a stack."""
    port, controller = free_ports(2)
    with run_server(kafka_server(tmp_path / "kafka", port, controller, tmp_path / "kafka.log")):
        yield f"{LOOPBACK}:{port}"


def shards_in(data: Path) -> list[ShardLedger]:
    """Two that go on from one journal, each with an event of its own and with its index."""
    before = ShardLedger(data)
    for payment in (STAYS[0], MOVES[0]):
        before.add(Movement.CAPTURE, payment=payment)
    before.commit()
    shards = before.split()
    for shard, own in zip(shards, (STAYS, MOVES), strict=True):
        shard.add(Movement.CAPTURE, payment=own[1])
        shard.commit()
        index = Index.open(shard.places.index, 1)
        index.catch_up(JournalReader(shard.journal), BodyStore(shard.bodies))
        index.close()
    return shards


def publish(bootstrap: str, partition: int, rows: Sequence[JournalRow], further: str) -> None:
    """The records that the rows were decided from, and one more."""
    producer = Producer({"bootstrap.servers": bootstrap})
    sent = [(row.event_key or "", body_of(row)) for row in rows] + [(further, b"{}")]
    for key, value in sent:
        producer.produce(TOPIC, value, partition=partition, headers=[("event_key", key.encode())])
    assert producer.flush(30) == 0


@pytest.fixture
def looks(tmp_path: Path, kafka: str, empty_redis: str) -> list[StreamComparison]:
    """The first shard's partition is empty in Kafka; the other one's has what was decided, and an event that waits."""
    data = tmp_path / "data"
    shards = shards_in(data)
    settings = KafkaSettings(bootstrap_servers=kafka, events_partitions=2)
    make_topics(settings, plan_topics(Settings(kafka=settings, processor=ProcessorSettings(shards=2))), replication=1)
    publish(kafka, 1, [row for row in shards[1].rows if row.partition == 1], WAITS)
    decided = {row.event_key or "" for shard in shards for row in shard.rows}
    known = [*sorted(decided), WAITS, LOST]
    answered(data, *(receipt(key, second) for second, key in enumerate(known)))
    client = redis.Redis.from_url(empty_redis)
    for key in known:
        client.set(claim_name(key, "live", 0), b"d" + b"c" * 8)
    client.close()
    keys = data / "anchor.keys"
    keys.write_text(uuid4().hex * 2)
    keys.chmod(0o600)
    processor = ProcessorSettings(shards=2, anchor_key_file=str(keys))
    return compare_streams(
        Settings(data_dir=data, kafka=settings, processor=processor), Servers(settings, RedisSettings(url=empty_redis))
    )


def test_what_is_lost_stands_once_at_the_shard_that_disagrees(looks: list[StreamComparison]) -> None:
    assert [(one.layout.stream, one.has_disagreement) for one in looks] == [("ledger", True), ("ledger.1", False)]
    assert [[event.event_key for event in one.events] for one in looks] == [[LOST], []]
    assert [one.claims for one in looks] == [(hash_key(LOST),), None]


def test_lists_are_read_again_from_a_day_before_the_last_decision(
    looks: list[StreamComparison], tmp_path: Path
) -> None:
    settings, accepted_at = Settings(data_dir=tmp_path / "data"), datetime(2026, 3, 1, tzinfo=UTC)
    settings.layout.run.mkdir(parents=True, exist_ok=True)
    [last] = JournalReader(str(looks[0].layout.journal)).rows_of([looks[0].state.next_seq - 1])
    since = have_listed_again(settings, looks, accepted_at)
    assert since == max(last.decided_at - RECEIPTS_BEFORE, accepted_at - LISTED_MAX)
    assert read_list_again(settings.layout, "live") == ListAgain(since, accepted_at)
    assert read_list_again(settings.layout, "test") is None
    assert have_listed_again(settings, looks[1:], accepted_at) is None, "it agrees"
