"""How a generation of claims stands in Redis."""

from __future__ import annotations

import pytest
from redis.crc import key_slot

from core.event import Mode
from core.generation import Announcement, generation_key, generation_keys
from core.routing import MODES, Shard


@pytest.mark.parametrize(
    ("announced", "value"),
    [
        (Announcement(0, 4), b"0 p4"),
        (Announcement(12, 4), b"12 p4"),
        (Announcement(3, 4, refused=True), b"3 p4 refused"),
        (Announcement(3, 48, keys=("0a0b0c0d",)), b"3 p48 k0a0b0c0d"),
        (Announcement(3, 48, True, ("0a0b0c0d", "1a1b1c1d")), b"3 p48 k0a0b0c0d,1a1b1c1d refused"),
        (Announcement(3, 48, shard=Shard(1, 4)), b"3 p48 s1/4"),
        (Announcement(3, 48, True, ("0a0b0c0d",), Shard(11, 16)), b"3 p48 s11/16 k0a0b0c0d refused"),
    ],
)
def test_it_is_a_number_and_whether_its_processor_refuses(announced: Announcement, value: bytes) -> None:
    assert announced.encode() == value
    assert Announcement.decode(value) == announced


@pytest.mark.parametrize(
    "value", [None, b"", b"-1", b"3", b"3 refused", b"3 p", b"3 p4 refuse", b" 3 p4", b"3 p4\n", b"1e3 p4", b"9" * 10]
)
def test_what_cant_be_read_announces_nothing(value: bytes | None) -> None:
    assert Announcement.decode(value) is None


def test_each_mode_has_keys_of_its_own() -> None:
    keys = [key for mode in MODES for key in generation_keys(mode, cluster=True)]
    assert len(set(keys)) == 6
    assert [generation_keys(mode, cluster=False) for mode in MODES] == [(generation_key(mode),) for mode in MODES]


@pytest.mark.parametrize("shard", [0, 1, 63])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("masters", range(3, 13))
def test_on_a_cluster_its_keys_are_on_three_masters(mode: Mode, masters: int, shard: int) -> None:
    """Where each has as many slots, in a row."""
    slots = [key_slot(key.encode()) for key in generation_keys(mode, shard, cluster=True)]
    assert len({slot * masters // 16_384 for slot in slots}) == 3
