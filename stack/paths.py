"""The places in the checkout of what set-up installs; nothing of payhook's lands outside of it."""

from __future__ import annotations

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
STATE = CHECKOUT / ".payhook"
JARS = STATE / "jars"
REDIS_FALLBACK = STATE / "redis"
DEFAULT_DATA_DIR = STATE / "data"
SPARK_LOCK = CHECKOUT / "stack" / "spark-jars.lock"
SPARK_STORE_LOCK = CHECKOUT / "stack" / "spark-store-jars.lock"
KAFKA_LOCK = CHECKOUT / "stack" / "kafka-jars.lock"
REDIS_LOCK = CHECKOUT / "redis-fallback.lock"
