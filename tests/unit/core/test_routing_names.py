"""The names that streams, and their topics, have in each mode and shard."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

from core.routing import MODES, have_a_name_in_common, stream_of

PIECES = ("", "-test", ".1", ".0", ".2", ".12", "2")
SHARDS = 130


def test_two_names_meet_where_any_mode_and_shard_gives_both_the_same() -> None:
    names = sorted({"dlq.x" + "".join(pieces) for pieces in product(PIECES, repeat=2)})
    every = {name: {stream_of(name, mode, shard) for mode in MODES for shard in range(SHARDS)} for name in names}
    for one, other in combinations_with_replacement(names, 2):
        assert have_a_name_in_common(one, other) == (not every[one].isdisjoint(every[other])), (one, other)


def test_a_shard_of_any_number_counts() -> None:
    assert have_a_name_in_common("dlq.x-test.4711", "dlq.x")
