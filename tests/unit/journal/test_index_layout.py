"""Entities of which it is known without a look into the store that nothing of them waits."""

from __future__ import annotations

from journal.index_layout import BITS, QUEUE, SEQ, Queues

ENTITY = bytes.fromhex("0123456789abcdef0123456789abcdef")
ELSEWHERE = bytes.fromhex("f123456789abcdef0123456789abcdef")
SAME_PLACE = ENTITY[: BITS // 8] + bytes([ENTITY[BITS // 8] ^ 0x01]) + ENTITY[BITS // 8 + 1 :]


def key(entity: bytes, item_seq: int) -> bytes:
    return QUEUE + entity + SEQ.pack(item_seq)


def test_an_entity_is_empty_until_something_of_it_waits_and_again_when_all_of_it_is_over() -> None:
    queues = Queues([key(ENTITY, 1), key(ENTITY, 2)])
    assert (queues.is_empty(ENTITY), queues.is_empty(ELSEWHERE)) == (False, True)
    queues.change({ENTITY: -1, ELSEWHERE: 1})
    assert (queues.is_empty(ENTITY), queues.is_empty(ELSEWHERE)) == (False, False)
    queues.change({ENTITY: -1})
    assert queues.is_empty(ENTITY)


def test_of_an_entity_at_anothers_place_nothing_is_known() -> None:
    assert SAME_PLACE != ENTITY
    assert not Queues([key(ENTITY, 1)]).is_empty(SAME_PLACE)
