"""What tables ask of the place where their files are: on a disk, and on a real S3-compatible server."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError

from core.location import LakeUrl, location_of, make_folder
from journal.objects import ObjectStorage
from journal.storage import DiskStorage, Storage, StoreFailed, file_system, open_storage
from tests.object_store import BUCKET, ObjectStore, Relay, client_of
from tests.object_store.fixtures import reach
from tests.object_store.server import SCHEME

RACERS, ROUNDS = 4, 25


@pytest.fixture
def storage(place: str) -> Storage:
    make_folder(f"{place}/_delta_log")
    return open_storage(place)


def test_a_place_has_the_storage_of_its_kind(storage: Storage, place: str) -> None:
    assert isinstance(storage, ObjectStorage if isinstance(location_of(place), LakeUrl) else DiskStorage)


def test_what_is_put_is_read_again(storage: Storage) -> None:
    storage.put_new("_delta_log/1.json", b"entry")
    storage.put_file("part.parquet", pa.py_buffer(b"rows"))
    assert (storage.read("_delta_log/1.json"), storage.read("part.parquet")) == (b"entry", b"rows")
    with pytest.raises(FileNotFoundError):
        storage.read("_delta_log/2.json")


def test_where_a_file_is_no_other_is_put(storage: Storage) -> None:
    storage.put_new("_delta_log/1.json", b"first")
    for _ in range(2):
        with pytest.raises(FileExistsError):
            storage.put_new("_delta_log/1.json", b"second")
    assert storage.read("_delta_log/1.json") == b"first"


def test_of_writers_that_race_exactly_one_wins_each_round_and_the_others_are_reported(
    storage: Storage, place: str
) -> None:
    together = threading.Barrier(RACERS)

    def race(racer: int) -> list[int]:
        own, won = open_storage(place), []
        for number in range(ROUNDS):
            together.wait(30)
            try:
                own.put_new(f"_delta_log/{number}.json", f"{racer}".encode())
            except FileExistsError:
                continue
            won.append(number)
        return won

    with ThreadPoolExecutor(RACERS) as pool:
        won = list(pool.map(race, range(RACERS)))
    assert Counter(number for rounds in won for number in rounds) == Counter(range(ROUNDS))
    for racer, rounds in enumerate(won):
        assert all(storage.read(f"_delta_log/{number}.json") == f"{racer}".encode() for number in rounds)


def test_a_listing_tells_a_folders_own_files(storage: Storage) -> None:
    names = [f"{number:03}.json" for number in range(7)]
    for name in names:
        storage.put_file(f"_delta_log/{name}", name.encode())
    storage.put_file("part.parquet", b"rows")
    assert sorted(one.name for one in storage.files("_delta_log")) == names
    assert sorted(one.name for one in storage.files("_delta_log", after="003.json")) == names[4:]
    [part] = storage.files()
    assert (part.name, part.size) == ("part.parquet", 4)
    assert abs(datetime.now(UTC) - part.at) < timedelta(minutes=5)
    assert list(storage.files("_other")) == []


def test_files_that_go_while_they_are_listed_are_no_failure(storage: Storage) -> None:
    """A writer that was overtaken removes its own."""
    names = [f"part-{number}.parquet" for number in range(20)]
    for name in names:
        storage.put_file(name, b"rows")
    listing = storage.files()
    first = next(iter(listing)).name
    for name in set(names) - {first}:
        storage.delete([name])
    assert {one.name for one in listing} <= set(names)


def test_a_deleted_file_is_gone_and_another_may_take_its_place(storage: Storage) -> None:
    storage.put_new("_delta_log/1.json", b"first")
    for _ in range(2):
        storage.delete(["_delta_log/1.json"])
    assert list(storage.files("_delta_log")) == []
    storage.put_new("_delta_log/1.json", b"second")
    assert storage.read("_delta_log/1.json") == b"second"


def test_many_files_are_deleted_at_once_and_some_may_be_gone_already(storage: Storage) -> None:
    for number in range(5):
        storage.put_file(f"part-{number}.parquet", b"rows")
    storage.delete(["part-1.parquet"])
    storage.delete([f"part-{number}.parquet" for number in range(4)])
    assert [one.name for one in storage.files()] == ["part-4.parquet"]
    storage.delete([])


def test_a_large_file_is_taken_in_whole(storage: Storage, place: str, tmp_path: Path) -> None:
    """More than one part of an upload."""
    data = bytes(range(256)) * (90 << 10)
    staged = tmp_path / "table" / "_maintain.parquet"
    staged.parent.mkdir(exist_ok=True)
    staged.write_bytes(data)
    storage.adopt_file(staged, "part.parquet")
    assert not staged.exists()
    assert storage.read("part.parquet") == data
    with file_system(place).open_input_file("part.parquet") as file:
        assert file.size() == len(data)
        file.seek(len(data) - 3)
        assert file.read() == data[-3:]


# a network that fails


@pytest.fixture
def relay(object_store: ObjectStore) -> Relay:
    return Relay(object_store.address)


def test_a_put_whose_answer_was_lost_is_known_to_be_there(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, relay: Relay
) -> None:
    with relay:
        storage = open_storage(reach(object_store, monkeypatch, relay.endpoint))
        relay.lose(1)
        storage.put_new("_delta_log/1.json", b"entry")
        assert relay.to_be_lost == 0
        assert storage.read("_delta_log/1.json") == b"entry"


def test_a_lost_answer_that_was_no_is_no(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, relay: Relay
) -> None:
    with relay:
        storage = open_storage(reach(object_store, monkeypatch, relay.endpoint))
        storage.put_new("_delta_log/1.json", b"of somebody else")
        relay.lose(1)
        with pytest.raises(FileExistsError):
            storage.put_new("_delta_log/1.json", b"entry")
        assert relay.to_be_lost == 0


def test_a_put_whose_answer_comes_too_late_is_known_to_be_there(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, relay: Relay
) -> None:
    with relay:
        storage = open_storage(reach(object_store, monkeypatch, relay.endpoint, timeout_s=4.0))
        relay.delay(300.0, answers=1)
        storage.put_new("_delta_log/1.json", b"entry")
        assert relay.to_be_lost == 0
        assert storage.read("_delta_log/1.json") == b"entry"
        with pytest.raises(FileExistsError):
            storage.put_new("_delta_log/1.json", b"of somebody else")


@pytest.mark.more(reason="a store that is slow in real time")
def test_a_slow_store_is_waited_for(object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, relay: Relay) -> None:
    with relay:
        storage = open_storage(reach(object_store, monkeypatch, relay.endpoint, timeout_s=15.0))
        relay.delay(0.5, answers=6)
        for number in range(3):
            storage.put_new(f"_delta_log/{number}.json", b"entry")
            with pytest.raises(FileExistsError):
                storage.put_new(f"_delta_log/{number}.json", b"of somebody else")
        assert relay.to_be_lost == 0


@pytest.mark.more(reason="a store that is away in real time")
def test_a_store_that_cannot_be_reached_is_said_in_time_and_nothing_is_claimed(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch, relay: Relay
) -> None:
    with relay:
        folder = reach(object_store, monkeypatch, relay.endpoint, timeout_s=5.0)
        storage = open_storage(folder)
        relay.cut()
        for act in (
            lambda: storage.put_new("_delta_log/1.json", b"entry"),
            lambda: storage.put_file("part.parquet", b"rows"),
            lambda: storage.read("_delta_log/1.json"),
            lambda: list(storage.files("_delta_log")),
        ):
            with pytest.raises(StoreFailed, match=f"{folder}/"):
                act()
        relay.open()
        assert list(storage.files("_delta_log")) == []


def test_keys_that_the_store_refuses_are_no_reason_to_try_again(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = reach(object_store, monkeypatch)
    with pytest.raises(StoreFailed):
        open_storage(folder.replace(BUCKET, "no-such-bucket", 1)).put_new("1.json", b"entry")


# what the store itself answers

AMAZONS = pytest.mark.skipif(SCHEME != "s3", reason="the store that is named isn't S3: Amazon's client can't ask it")


@AMAZONS
def test_a_conditional_put_that_loses_is_answered_412_and_what_is_there_stays(
    object_store: ObjectStore, store_folder: str
) -> None:
    """By Amazon's own client: nothing of ours is in between."""
    client, key = client_of(object_store), f"{store_folder.removeprefix(f's3://{BUCKET}/')}/1.json"
    put = partial(client.put_object, Bucket=BUCKET, Key=key, IfNoneMatch="*")
    put(Body=b"first")
    with pytest.raises(ClientError) as lost:
        put(Body=b"second")
    assert lost.value.response["ResponseMetadata"]["HTTPStatusCode"] == HTTPStatus.PRECONDITION_FAILED
    assert client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"first"


@AMAZONS
def test_of_requests_that_race_one_is_answered_200_and_every_other_412_or_409(
    object_store: ObjectStore, store_folder: str
) -> None:
    """409 is Amazon's answer to one that meets another under way; the port then looks what is there."""
    folder, together = store_folder.removeprefix(f"s3://{BUCKET}/"), threading.Barrier(RACERS)

    def race(racer: int) -> list[int]:
        client, answers = client_of(object_store), []
        for number in range(ROUNDS):
            together.wait(30)
            try:
                client.put_object(Bucket=BUCKET, Key=f"{folder}/{number}", Body=f"{racer}".encode(), IfNoneMatch="*")
                answers.append(200)
            except ClientError as lost:
                answers.append(lost.response["ResponseMetadata"]["HTTPStatusCode"])
        return answers

    with ThreadPoolExecutor(RACERS) as pool:
        rounds = zip(*pool.map(race, range(RACERS)), strict=True)
    for answers in rounds:
        assert sorted(answers)[0] == 200 and set(sorted(answers)[1:]) <= {409, 412}, answers
