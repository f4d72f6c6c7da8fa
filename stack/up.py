"""`payhook up` and `payhook down`: the embedded stack of one data folder, in this process or detached from it.

``python -m stack.up --data DIR`` is the detached supervisor.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from confluent_kafka import KafkaException
from pydantic import BaseModel

from core.errors import PayhookError, SettingError
from core.files import try_lock, write_whole
from core.kafka import open_admin
from core.layout import Layout
from core.log import configure_logging
from core.status_file import read_shaped
from core.store import part_with_keys
from ingest.endpoints import secret_file
from processor.streams import list_foreign_topics
from providers.port import Adapter
from providers.registry import build_adapters
from stack.children import KnownPorts, Ports, choose_ports, list_servers
from stack.data_folder import make_key, make_merchants, make_secrets, secure_data_folder
from stack.endpoints import (
    Endpoints,
    check_restored,
    end_leftovers,
    read_endpoints,
    recorded_states,
    recorded_supervisor,
    remove_endpoints,
)
from stack.errors import HeldUnseen, KafkaNotUp, ServerNotUp, StackNotUp
from stack.kafka_rights import rights_with
from stack.servers.kafka_users import embedded_kafka, make_services
from stack.servers.server import path_with_checkout, stopped_by_signal
from stack.settings import Settings, load_settings, streams_of
from stack.supervisor import STEP_S, ChildState, Supervisor, sole_supervisor
from stack.topics import Topic, make_topics, plan_topics

UP_S_MAX = 300.0
DOWN_S_MAX = 120.0
POLL_S = 0.1

OnChange = Callable[[str, ChildState], None]


@contextlib.contextmanager
def open_supervisor(settings: Settings, config: Path | None, on_change: OnChange) -> Iterator[Supervisor]:
    """Runs the stack for the length of a ``with``: its body must call the supervisor's step over and over.

    :raises AlreadyUp: another supervisor holds the data folder
    :raises SettingError: a Redis is set that isn't the stack's own
    """
    layout = settings.layout
    if given := settings.redis.model_fields_set - {"url"}:
        names = ", ".join(sorted(given))
        raise SettingError("redis", f"`payhook up` starts a Redis of its own: leave out {names}, or start the services")
    secure_data_folder(settings)
    with sole_supervisor(layout):
        check_restored(layout)
        # Brokers and the receiver have no use for the lake's keys.
        part_with_keys(settings.storage, layout.secrets)
        adapters = build_adapters(settings.providers)
        make_secrets(Path(settings.ingest.secrets_dir), _in_need_of_secrets(settings, adapters))
        make_key(Path(settings.processor.anchor_key_file))
        make_key(Path(settings.kafka.record_keys_file))
        make_merchants(Path(settings.ledger.merchants_file), adapters)
        ports = _known_ports(settings)
        replication = settings.topics.count_replicas(settings.kafka.durability_of_up)
        supervisor = Supervisor(
            layout,
            ports,
            list_servers(settings, ports, config),
            partial(_set_up_kafka, settings, ports, plan_topics(settings), replication),
            on_change,
            settings.ingest.taken_modes,
        )
        try:
            yield supervisor
        finally:
            supervisor.stop()


def _known_ports(settings: Settings) -> Ports:
    file = settings.layout.ports_file
    known = read_shaped(file, KnownPorts) or KnownPorts(_default_port(settings.ingest), _default_port(settings.console))
    ports = choose_ports(settings, known)
    kept = KnownPorts(
        known.ingest if "port" in settings.ingest.model_fields_set else ports.ingest,
        known.ops if "port" in settings.console.model_fields_set else ports.ops,
    )
    write_whole(file, json.dumps(asdict(kept)) + "\n")
    return ports


def _default_port(section: BaseModel) -> int:
    return int(type(section).model_fields["port"].default)


def taken_ports(settings: Settings, endpoints: Endpoints) -> dict[str, tuple[int, int]]:
    """Returns the usual and the actual port of the receiver and the management listener, where another one was taken.

    A port that a setting names isn't among them.
    """
    both = {
        "the receiver": (settings.ingest, endpoints.ingest),
        "the management listener": (settings.console, endpoints.ops),
    }
    ports = {
        name: (_default_port(section), urlsplit(url).port or 0)
        for name, (section, url) in both.items()
        if "port" not in section.model_fields_set
    }
    return {name: (usual, actual) for name, (usual, actual) in ports.items() if usual != actual}


def _set_up_kafka(settings: Settings, ports: Ports, wanted: Sequence[Topic], replication: int) -> None:
    kafka, folder = settings.kafka, settings.layout.kafka
    try:
        if not kafka.is_outside:
            kafka = embedded_kafka(folder, ports.kafka_address)
            sources = list_foreign_topics(streams_of(settings), settings.ingest.taken_modes)
            dead_letters = [topic.name for topic in wanted if topic.is_dead_letters]
            make_services(open_admin(kafka), folder, rights_with(sources, dead_letters))
        make_topics(kafka, wanted, replication)
    except KafkaException as silent:
        raise KafkaNotUp(kafka.bootstrap_servers, str(silent.args[0])) from silent


def _in_need_of_secrets(settings: Settings, adapters: Mapping[str, Adapter]) -> dict[str, Adapter]:
    by_endpoint = {name: adapters.get(name.partition("/")[0]) for name in settings.ingest.endpoints}
    return {**adapters, **{secret_file(name): adapter for name, adapter in by_endpoint.items() if adapter is not None}}


def stay_up(settings: Settings, config: Path | None, on_up: Callable[[], None], on_change: OnChange) -> None:
    """Runs the stack until SIGTERM or SIGINT; ``on_up`` is called once everything has answered.

    :raises ServerNotUp: a process doesn't come up
    """
    is_up = False
    with stopped_by_signal() as stop, open_supervisor(settings, config, on_change) as supervisor:
        while not stop.wait(STEP_S):
            supervisor.check_children()
            if supervisor.answered_once and not is_up:
                is_up = True
                on_up()


def go_up(settings: Settings, config: Path | None, on_change: OnChange) -> Endpoints:
    """Starts the stack in a process of its own and returns once everything answers.

    Calling it on a folder whose stack is up changes nothing.

    :raises StackNotUp: it ended at its start, with its own words
    :raises ServerNotUp: it isn't up within `UP_S_MAX`
    """
    layout = settings.layout
    if recorded_supervisor(layout) is not None:
        elsewhere = "the stack that was starting ended; the command that started it says why"
        return _await_endpoints(layout, lambda: recorded_supervisor(layout) is not None, on_change, lambda: elsewhere)
    # A supervisor that was killed left its own behind: they would be taken for the next one's.
    remove_endpoints(layout.root)
    log = layout.logs_folder / "supervisor.log"
    process = _start_detached(settings.data_dir, config, log)
    try:
        return _await_endpoints(layout, lambda: process.poll() is None, on_change, lambda: _read_problem(log))
    except BaseException:
        process.terminate()
        process.wait(DOWN_S_MAX)
        raise


def go_down(data_dir: Path) -> bool:
    """Stops the stack in order; returns, when nothing of it is left, whether anything ran.

    :raises HeldUnseen: a process that can't be seen from here holds the folder
    """
    layout = Layout(data_dir)
    if not layout.supervisor_lock.exists():
        return end_leftovers(layout)
    supervisor = recorded_supervisor(layout)
    if supervisor is None:
        with try_lock(layout.supervisor_lock) as is_ours:
            if not is_ours:
                raise HeldUnseen(data_dir)
            return end_leftovers(layout)
    supervisor.send_signal(signal.SIGCONT)
    supervisor.terminate()
    _, alive = psutil.wait_procs([supervisor], timeout=DOWN_S_MAX)
    if alive:
        supervisor.kill()
    end_leftovers(layout)
    return True


def _start_detached(data_dir: Path, config: Path | None, log: Path) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "stack.up", "--data", str(data_dir)]
    if config is not None:
        command += ["--config", str(config)]
    with log.open("wb") as sink, _problem_file(log).open("wb") as problem:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=problem,
            stderr=sink,
            env={**os.environ, "PYTHONPATH": path_with_checkout()},
            start_new_session=True,
        )


def _await_endpoints(
    layout: Layout, lives: Callable[[], bool], on_change: OnChange, why: Callable[[], str]
) -> Endpoints:
    until = time.monotonic() + UP_S_MAX
    last_states: dict[str, str] = {}
    log = layout.logs_folder / "supervisor.log"
    while time.monotonic() < until:
        alive = lives()
        states = recorded_states(layout)
        for name, state in states.items():
            if last_states.get(name) != state:
                on_change(name, ChildState(state))
        last_states = states or last_states
        endpoints = read_endpoints(layout.root)
        if endpoints is not None:
            return endpoints
        if not alive:
            raise StackNotUp(why(), log)
        time.sleep(POLL_S)
    raise ServerNotUp("the stack", f"isn't up after {UP_S_MAX:g} s", log)


def _read_problem(log: Path) -> str:
    return _problem_file(log).read_text("utf-8", "replace").strip()


def _problem_file(log: Path) -> Path:
    return log.with_suffix(".problem")


def main() -> int:
    parser = argparse.ArgumentParser(description="The supervisor behind `payhook up --detach`.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--config", type=Path)
    arguments = parser.parse_args()
    configure_logging()
    log = logging.getLogger("stack")
    os.environ["PAYHOOK_DATA_DIR"] = str(arguments.data)
    try:
        stay_up(
            load_settings(arguments.config),
            arguments.config,
            on_up=lambda: log.info("everything answers"),
            on_change=lambda name, state: log.info("%s: %s", name, state),
        )
    except PayhookError as problem:
        sys.stdout.write(f"{problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
