"""``Idempotency-Key`` for any ASGI application: a request that is sent again isn't carried out again."""

from __future__ import annotations

from ingest.idempotency.middleware import IdempotencyKey, Options
from ingest.idempotency.request import HEADER, KeyMalformed, Problem, read_key
from ingest.idempotency.store import AnswerStore, Claimed, KeptAnswer, RedisAnswers, RequestKey, Run

__all__ = [
    "HEADER",
    "AnswerStore",
    "Claimed",
    "IdempotencyKey",
    "KeptAnswer",
    "KeyMalformed",
    "Options",
    "Problem",
    "RedisAnswers",
    "RequestKey",
    "Run",
    "read_key",
]
