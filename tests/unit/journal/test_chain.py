"""The chain over commits."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from journal.schema import GENESIS, ChainHead, commit_digest, extend
from tests.unit.journal.rows import sha

commits = st.lists(st.lists(st.integers(0, 9).map(lambda n: sha(str(n))), min_size=1, max_size=3), max_size=4)


def head_of(batches: list[list[str]]) -> str:
    head = GENESIS
    for hashes in batches:
        head = extend(head, commit_digest(hashes))
    return head


def test_the_digest_is_over_the_joined_hashes() -> None:
    assert commit_digest(["aa", "bb"]) == hashlib.sha256(b"aabb").hexdigest()


@given(commits)
def test_row_by_row_the_head_is_the_same_as_commit_by_commit(batches: list[list[str]]) -> None:
    chain = ChainHead()
    for number, hashes in enumerate(batches):
        for one in hashes:
            chain.add(number, one)
    assert chain.head == head_of(batches)


@given(commits, commits)
def test_another_history_has_another_head(one: list[list[str]], other: list[list[str]]) -> None:
    """Rows moved from one commit to the next are another history too."""
    assert (head_of(one) == head_of(other)) == (one == other)
