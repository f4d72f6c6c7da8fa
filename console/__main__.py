"""``python -m console``: the management listener until SIGTERM."""

from __future__ import annotations

import asyncio
import sys

import httpx
import uvicorn

from console.app import Watched, create_app
from console.lag import KafkaLag
from core.clock import SystemClock
from core.errors import PayhookError
from core.log import configure_logging
from stack.layout import Layout
from stack.settings import Settings, load_settings


def main() -> int:
    configure_logging()
    try:
        settings = load_settings()
    except PayhookError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    asyncio.run(_serve(settings))
    return 0


async def _serve(settings: Settings) -> None:
    lag = KafkaLag(settings.kafka.bootstrap_servers)
    async with httpx.AsyncClient(trust_env=False) as client:
        app = create_app(_watched(settings, lag), client, SystemClock())
        config = uvicorn.Config(
            app, host=settings.console.host, port=settings.console.port, access_log=False, log_config=None
        )
        await uvicorn.Server(config).serve()
    lag.close()


def _watched(settings: Settings, lag: KafkaLag) -> Watched:
    local, layout, takes_test = "http://127.0.0.1", Layout(settings.data_dir), settings.ingest.test_traffic
    ports = {"ingest": settings.ingest.metrics_port, "processor": settings.processor.metrics_port}
    if takes_test:
        ports["processor-test"] = settings.processor.test_metrics_port
    return Watched(
        ingest_ready_url=f"{settings.console.ingest_url or f'{local}:{settings.ingest.port}'}/readyz",
        processor_status=layout.ledger().status,
        test_processor_status=layout.ledger("test").status if takes_test else None,
        metrics={name: f"{local}:{port}/metrics" for name, port in ports.items() if port},
        lag=lag.read,
    )


if __name__ == "__main__":
    sys.exit(main())
