"""A second processor beside the one that `payhook up` runs: on the same data folder, or as on another host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from core.status_file import STANDBY
from load.client import wait_for
from load.embedded import SAMPLE_CONFIG
from load.traffic import Webhook
from stack.servers.kafka_users import security_environment
from stack.servers.ports import LOOPBACK, free_ports
from tests.e2e.conftest import Stack

START_S_MAX = 180.0
ENDS_S_MAX = 60.0


class SecondProcessor:
    """Started, ended and started again as a test says.

    ``folder``: its data folder. Where that isn't the stack's, it shares the lake with it and nothing else; the files
    of keys and merchants are handed to it.
    """

    def __init__(self, stack: Stack, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        (self._port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(exist_ok=True)
        if not (folder / "lake").exists():
            (folder / "lake").symlink_to(stack.data_dir / "lake")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        secrets, endpoints = self._stack.data_dir / "secrets", self._stack.endpoints
        environment = {
            **os.environ,
            "PAYHOOK_CONFIG": str(SAMPLE_CONFIG),
            "PAYHOOK_DATA_DIR": str(self._folder),
            "PAYHOOK_KAFKA__BOOTSTRAP_SERVERS": endpoints["kafka"],
            "PAYHOOK_KAFKA__DURABILITY": "single",
            **security_environment(self._stack.data_dir / "kafka", "processor"),
            "PAYHOOK_KAFKA__RECORD_KEYS_FILE": str(secrets / "records"),
            "PAYHOOK_LEDGER__MERCHANTS_FILE": str(self._stack.data_dir / "merchants.toml"),
            "PAYHOOK_PROCESSOR__ANCHOR_KEY_FILE": str(secrets / "anchors"),
            "PAYHOOK_PROCESSOR__METRICS_PORT": str(self._port),
            "PAYHOOK_REDIS__URL": endpoints["redis"],
        }
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "stack.services.processor"]
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def status(self) -> dict[str, Any]:
        """What it says of the ledger at its port; nothing while it doesn't answer."""
        try:
            with urlopen(f"http://{LOOPBACK}:{self._port}/status", timeout=2) as answer:
                return dict(json.load(answer)["streams"]["ledger"])
        except (OSError, ValueError, KeyError):
            return {}

    @property
    def has_index(self) -> bool:
        """Whether its own disk has an index of the ledger."""
        return any((self._folder / "index" / "ledger").glob("epoch-*"))

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def end(self) -> int:
        """By SIGTERM; returns its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(ENDS_S_MAX)

    def stands_by(self) -> None:
        assert wait_for(lambda: self.status().get("state") == STANDBY, START_S_MAX), self.log()

    def runs(self) -> None:
        assert wait_for(lambda: self.status().get("state") == "running", START_S_MAX), self.log()

    def log(self) -> str:
        """How it ends."""
        return self._log.read_text("utf-8", "replace")[-4_000:]

    @property
    def _log(self) -> Path:
        return self._folder / "second.log"


@contextmanager
def second_processor(stack: Stack, folder: Path) -> Iterator[SecondProcessor]:
    """One that stands by; it is ended at the end, also where it was paused."""
    made = SecondProcessor(stack, folder)
    made.start()
    try:
        made.stands_by()
        yield made
    finally:
        if made._process is not None and made._process.poll() is None:
            made.signal(signal.SIGCONT)
            made._process.terminate()
            try:
                made._process.wait(ENDS_S_MAX)
            except subprocess.TimeoutExpired:
                made._process.kill()
                made._process.wait()


POST_EVERY_S = 0.3


class RepeatedTraffic:
    """Providers that send one webhook after the other, each again until it is answered 200 twice."""

    def __init__(self, stack: Stack, prefix: str) -> None:
        self.sent: list[Webhook] = []
        self._stack, self._prefix = stack, prefix
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)

    def __enter__(self) -> RepeatedTraffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(ENDS_S_MAX)
        assert not self._thread.is_alive()

    def _live(self) -> None:
        while not self._ends.wait(POST_EVERY_S):
            [webhook] = self._stack.captures(1, f"{self._prefix}-{len(self.sent)}")
            for _ in range(2):
                while {answer.status for answer in self._stack.post(webhook)} != {200}:
                    self._ends.wait(POST_EVERY_S)
            self.sent.append(webhook)
