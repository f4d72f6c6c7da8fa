"""What the receiver is measured against: a bare echo, and the straightforward version of the receiver.

``python -m load.bench.baselines echo|straightforward`` serves one of them with the receiver's own uvicorn settings.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import hashlib
import hmac
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from confluent_kafka import KafkaError, Message
from fastapi import FastAPI, Request, Response
from redis.asyncio import Redis

from core.kafka import open_producer
from core.routing import topics_of
from core.settings import KafkaSettings
from ingest.app import SERVING
from ingest.publisher import producer_settings
from stack.servers.kafka_users import embedded_kafka

CONFIRMED_S = 8 * 86_400
LEASE_S = 30


def echo() -> FastAPI:
    """FastAPI and nothing else: the body comes back."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.post("/webhooks/stripe")
    async def webhook(request: Request) -> Response:
        return Response(await request.body())

    return app


def straightforward(kafka: KafkaSettings, redis_url: str, secret: str) -> FastAPI:
    """HMAC, SET NX, produce, wait for the delivery, SET: one after the other, as a first version would do it.

    A thread polls librdkafka and hands each delivery to the event loop.
    """
    producer = open_producer(kafka, producer_settings(4_000))
    redis = Redis.from_url(redis_url)
    stop = threading.Event()
    events = topics_of("live").events

    def poll() -> None:
        while not stop.is_set():
            producer.poll(0.1)

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        thread = threading.Thread(target=poll, daemon=True)
        thread.start()
        yield
        stop.set()
        thread.join()
        await redis.aclose()

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)

    @app.post("/webhooks/stripe")
    async def webhook(request: Request) -> Response:
        body = await request.body()
        signed = dict(part.split("=", 1) for part in request.headers["stripe-signature"].split(","))
        wanted = hmac.new(secret.encode(), f"{signed['t']}.".encode() + body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(wanted, signed["v1"]):
            return Response(status_code=401)
        event: dict[str, Any] = json.loads(body)
        key = f"seen:stripe:{event['id']}:{event['type']}"
        if not await redis.set(key, "pending", nx=True, ex=LEASE_S):
            return Response(b'{"status":"duplicate"}', media_type="application/json")
        loop = asyncio.get_running_loop()
        acknowledged: asyncio.Future[bool] = loop.create_future()

        def delivered(error: KafkaError | None, _message: Message) -> None:
            loop.call_soon_threadsafe(acknowledged.set_result, error is None)

        producer.produce(events, body, key=event["data"]["object"]["id"], on_delivery=delivered)
        if not await acknowledged:
            await redis.delete(key)
            return Response(status_code=503)
        await redis.set(key, "done", ex=CONFIRMED_S)
        return Response(b'{"status":"accepted"}', media_type="application/json")

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("echo", "straightforward"))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--kafka", default="")
    parser.add_argument("--kafka-folder", type=Path, default=Path())
    parser.add_argument("--redis", default="")
    parser.add_argument("--secret", default="")
    wanted = parser.parse_args()
    kafka = embedded_kafka(wanted.kafka_folder, wanted.kafka or "127.0.0.1:9092")
    app = echo() if wanted.what == "echo" else straightforward(kafka, wanted.redis, wanted.secret)
    gc.collect()
    gc.freeze()
    uvicorn.run(app, host="127.0.0.1", port=wanted.port, **SERVING)


if __name__ == "__main__":
    main()
