"""``Idempotency-Key`` for any ASGI application: a request that is sent again isn't carried out again."""

from __future__ import annotations

from ingest.idempotency.header import HEADER, KeyMalformed, read_key
from ingest.idempotency.middleware import IdempotencyKey, client_address
from ingest.idempotency.problems import Problem
from ingest.idempotency.redis_store import RedisAnswers
from ingest.idempotency.store import AnswerStore, Claimed, KeptAnswer, MemoryAnswers, RequestKey, Run

__all__ = [
    "HEADER",
    "AnswerStore",
    "Claimed",
    "IdempotencyKey",
    "KeptAnswer",
    "KeyMalformed",
    "MemoryAnswers",
    "Problem",
    "RedisAnswers",
    "RequestKey",
    "Run",
    "client_address",
    "read_key",
]
