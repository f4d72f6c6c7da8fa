"""The processes of a stack: which there are, where each reports, what each is run with, and when it answers."""

from __future__ import annotations

import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from core.event import Mode
from core.layout import Layout
from core.routing import shard_of
from core.status_file import read_said
from stack.addresses import list_processors
from stack.endpoints import Endpoints
from stack.rounds import schedule_rounds
from stack.servers.kafka import kafka_server
from stack.servers.kafka_users import security_environment
from stack.servers.ports import LOOPBACK, free_ports, free_row, next_free
from stack.servers.redis import redis_server, redis_url
from stack.servers.server import Server
from stack.settings import Settings

ASK_TIMEOUT_S = 2.0
PROCESSOR_START_S = 180.0
PROCESSOR_STOP_S = 40.0
"""A batch in flight ends first; Spark's own stop time-out is 30 s."""

REFUSED = "refused"
"""The state of a stream that is stopped and needs an operator."""

SERVERS = ("kafka", "redis")


@dataclass(frozen=True, slots=True)
class Ports:
    """Loopback ports of one stack; they stay the same while it runs, whatever restarts.

    ``outside_kafka``: the address of a Kafka that isn't the stack's own, where one is set.
    """

    kafka: int
    kafka_controller: int
    ingest: int
    ingest_metrics: int
    processor_metrics: int
    ops: int
    alerts_metrics: int
    outside_kafka: str = ""

    @property
    def kafka_address(self) -> str:
        return self.outside_kafka or f"{LOOPBACK}:{self.kafka}"


@dataclass(frozen=True, slots=True)
class KnownPorts:
    """The receiver's and the management listener's ports as people and providers know them."""

    ingest: int
    ops: int


def choose_ports(settings: Settings, known: KnownPorts | None = None) -> Ports:
    """Takes the ports that are configured, and free ones for the rest: the ``known`` ones, or the next free ones."""
    # The management listener first: where 8080 alone is taken, 8081 stays its own.
    ops = _find_set_port(settings.console, "port") or (
        next_free(known.ops) if known and _is_port_unset(settings.console) else 0
    )
    ingest = _find_set_port(settings.ingest, "port") or (
        next_free(known.ingest, {ops, known.ops}) if known and _is_port_unset(settings.ingest) else 0
    )
    free, processors = (
        iter(free_ports(5)),
        sum(len(list_processors(settings, mode)) for mode in settings.ingest.taken_modes),
    )
    return Ports(
        kafka=next(free),
        kafka_controller=next(free),
        ingest=ingest or next(free),
        ingest_metrics=_find_set_port(settings.ingest, "metrics_port") or free_row(settings.ingest.workers),
        processor_metrics=_find_set_port(settings.processor, "metrics_port") or free_row(processors),
        ops=ops or next(free),
        alerts_metrics=_find_set_port(settings.alerts, "metrics_port") or next(free),
        outside_kafka=settings.kafka.bootstrap_servers if settings.kafka.is_outside else "",
    )


def build_endpoints(layout: Layout, ports: Ports, pids: Mapping[str, int], modes: Sequence[Mode]) -> Endpoints:
    return Endpoints(
        ingest=f"http://{LOOPBACK}:{ports.ingest}",
        ops=f"http://{LOOPBACK}:{ports.ops}",
        kafka=ports.kafka_address,
        redis=redis_url(layout.redis),
        journal=str(layout.ledger().journal),
        pids=dict(pids),
        test_journal=str(layout.ledger("test").journal) if "test" in modes else None,
    )


def list_servers(settings: Settings, ports: Ports, config: Path | None) -> list[Server]:
    """Lists the processes of a stack in the order in which they start; they stop in the opposite one.

    Each is given the file ``config``, from which the settings are.

    There are processors for each mode (`list_processors`). What maintains and backs up by schedule, and what sends
    alerts, is among them where the settings ask for it.
    """
    layout = settings.layout
    env = _build_environment(settings, ports, config)

    def env_of(user: str) -> dict[str, str]:
        return env if ports.outside_kafka else env | security_environment(layout.kafka, user)

    kafka = kafka_server(layout.kafka, ports.kafka, ports.kafka_controller, layout.logs_folder / "kafka.log")
    return [
        *([] if ports.outside_kafka else [kafka]),
        redis_server(layout.redis, layout.logs_folder / "redis.log"),
        *(
            _make_processor_server(layout, env_of("processor"), mode, name, streams)
            for mode in settings.ingest.taken_modes
            for name, streams in list_processors(settings, mode).items()
        ),
        _make_python_server(
            layout,
            env_of("receiver"),
            "ingest",
            "stack.services.receiver",
            answers=lambda: answers_ok(f"http://{LOOPBACK}:{ports.ingest}/readyz"),
        ),
        _make_python_server(
            layout,
            env_of("console"),
            "ops",
            "stack.services.listener",
            answers=lambda: answers_ok(f"http://{LOOPBACK}:{ports.ops}/healthz"),
        ),
        *(_make_side_server(layout, env_of(user), name, module) for name, user, module in _list_side_servers(settings)),
    ]


def _list_side_servers(settings: Settings) -> Iterator[tuple[str, str, str]]:
    if schedule_rounds(settings):
        yield "maintenance", "maintenance", "stack.rounds"
    if settings.ingest.catch_up_every_s:
        yield "catch-up", "receiver", "stack.catching_up"
    if settings.alerts.every_s:
        yield "alerts", "alerts", "stack.alerting"


def _make_side_server(layout: Layout, env: Mapping[str, str], name: str, module: str) -> Server:
    return _make_python_server(layout, env, name, module, answers=lambda: True, beside=True)


def answers_ok(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=ASK_TIMEOUT_S) as answer:  # noqa: S310 - a loopback URL of our own
            return bool(answer.status == 200)
    except (OSError, HTTPException):
        return False


def _make_python_server(layout: Layout, env: Mapping[str, str], name: str, *module: str, **more: Any) -> Server:
    return Server(
        name=name, command=(sys.executable, "-m", *module), log=layout.logs_folder / f"{name}.log", env=env, **more
    )


def _make_processor_server(
    layout: Layout, env: Mapping[str, str], mode: Mode, name: str, streams: Sequence[str]
) -> Server:
    statuses = [layout.stream(stream).status for stream in streams]

    def forget() -> None:
        """Removes what the last run said: it would be taken for this one's."""
        for status in statuses:
            status.unlink(missing_ok=True)

    return _make_python_server(
        layout,
        env,
        name,
        *("stack.services.processor", "--mode", mode, "--shard", str(shard_of(name))),
        prepare=forget,
        answers=lambda: _have_all_said(statuses),
        last_words=lambda: _have_all_said(statuses),
        start_s=PROCESSOR_START_S,
        stop_s=PROCESSOR_STOP_S,
    )


def _have_all_said(statuses: Sequence[Path]) -> bool:
    """Returns whether every stream has said how it is, if only that it failed: webhooks are taken meanwhile."""
    return all(read_said(status) is not None for status in statuses)


def _build_environment(settings: Settings, ports: Ports, config: Path | None) -> dict[str, str]:
    env = {
        "PAYHOOK_DATA_DIR": str(settings.data_dir),
        "PAYHOOK_REDIS__URL": redis_url(settings.layout.redis),
        "PAYHOOK_INGEST__PORT": str(ports.ingest),
        "PAYHOOK_INGEST__METRICS_PORT": str(ports.ingest_metrics),
        "PAYHOOK_PROCESSOR__METRICS_PORT": str(ports.processor_metrics),
        "PAYHOOK_CONSOLE__PORT": str(ports.ops),
        "PAYHOOK_ALERTS__METRICS_PORT": str(ports.alerts_metrics),
    }
    if not ports.outside_kafka:
        env["PAYHOOK_KAFKA__BOOTSTRAP_SERVERS"] = ports.kafka_address
        env["PAYHOOK_KAFKA__DURABILITY"] = settings.kafka.durability_of_up
    if config is not None:
        env["PAYHOOK_CONFIG"] = str(config)
    return env


def _is_port_unset(section: object) -> bool:
    return "port" not in getattr(section, "model_fields_set", set())


def _find_set_port(section: object, name: str) -> int | None:
    given: set[str] = getattr(section, "model_fields_set", set())
    return int(getattr(section, name)) or None if name in given else None
