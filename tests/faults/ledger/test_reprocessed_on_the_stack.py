"""A type that nobody handled: once the handler knows it, what was ignored is booked by order, once; verify agrees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from load.client import wait_for
from load.embedded import DOWN_S_MAX, UP_S_MAX
from tests.e2e.conftest import DECIDED_S, Stack

CAPTURED, REFUNDED = "payment.captured", "payment.refunded"


def known(*types: tuple[str, str]) -> str:
    """Settings of a handler that knows these types of the Standard Webhooks sender."""
    rules = (
        "\n".join(
            [
                "[[providers.standardwebhooks.money]]",
                f'event_type = "{event_type}"',
                f'movement = "{movement}"',
                'id = "/data/id"',
            ]
        )
        for event_type, movement in types
    )
    return "\n".join(rules) + "\n"


class ReconfiguredFolder:
    """A data folder whose settings change between two starts, as an update of the code would."""

    def __init__(self, folder: Path) -> None:
        self.data, self.config = folder / "data", folder / "payhook.toml"

    def payhook(self, *words: str, seconds: float = 200.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "cli.main", *words, "--data", str(self.data), "--config", str(self.config)],
            env={**os.environ, "COLUMNS": "140"},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
        )

    def up(self, settings: str) -> Stack:
        self.config.write_text(settings)
        said = self.payhook("up", "--detach", seconds=UP_S_MAX)
        assert said.returncode == 0, said.stdout + said.stderr
        return Stack(self.data)

    def down(self) -> None:
        self.payhook("down", seconds=DOWN_S_MAX)

    def send(self, event_id: str, event_type: str, amount: int, movement: str, payment: str) -> str:
        body = self.data / f"{event_id}.json"
        body.write_text(
            json.dumps(
                {
                    "type": event_type,
                    "timestamp": "2026-01-31T12:00:00Z",
                    "data": {
                        "id": movement,
                        "payment": payment,
                        "account": "acct_main",
                        "amount": amount,
                        "currency": "EUR",
                    },
                }
            )
        )
        said = self.payhook("send", str(body), "--provider", "standardwebhooks", "--event-id", event_id)
        assert said.returncode == 0, said.stdout + said.stderr
        return f"standardwebhooks:{event_id}:{event_type}"

    def selected(self, *words: str) -> int:
        """The number of a selection of unknown events."""
        said = self.payhook("dlq", "select", "--state", "unknown", *words, "--json")
        assert said.returncode == 0, said.stdout + said.stderr
        return int(json.loads(said.stdout)["number"])

    def replayed(self, number: int, *words: str) -> subprocess.CompletedProcess[str]:
        return self.payhook("dlq", "replay", f"s{number}", *words)


def decisions(stack: Stack, key: str) -> list[tuple[str, bool]]:
    rows = stack.rows(["event_key", "decision", "out_of_order"])
    return [(row["decision"], row["out_of_order"]) for row in rows if row["event_key"] == key]


def test_what_was_unknown_is_booked_once_when_its_type_is_known(tmp_path: Path) -> None:
    place = ReconfiguredFolder(tmp_path)
    try:
        stack = place.up(known((CAPTURED, "capture")))
        paid = place.send("msg_1", CAPTURED, 5_000, "cap_1", "pay_1")
        refund = place.send("msg_2", REFUNDED, 700, "ref_1", "pay_1")
        other = place.send("msg_3", "customer.updated", 0, "cus_1", "pay_1")
        gone = place.send("msg_4", REFUNDED, 800, "ref_2", "pay_1")
        later = place.send("msg_5", CAPTURED, 100, "cap_2", "pay_1")
        stack.wait_until_decided([paid, refund, other, gone, later], DECIDED_S)
        assert decisions(stack, refund) == [("unknown", False)]
        frozen_before = place.selected("--type", REFUNDED)
        redacted = place.payhook("ledger", "redact", gone, "--reason", "erasure 17")
        assert redacted.returncode == 0, redacted.stdout + redacted.stderr
        place.down()

        stack = place.up(known((CAPTURED, "capture"), (REFUNDED, "refund")))
        said = place.replayed(frozen_before, "--dry-run")
        assert said.returncode == 0, said.stdout + said.stderr
        assert "later event" in said.stdout and "isn't kept" in said.stdout, said.stdout
        first = place.replayed(frozen_before, "--reason", "refunds are known since today")
        assert first.returncode == 0, first.stdout + first.stderr
        assert decisions(stack, refund) == [("unknown", False), ("replayed", True), ("applied", True)]
        assert decisions(stack, gone) == [("unknown", False)]

        assert place.send("msg_2", REFUNDED, 700, "ref_1", "pay_1") == refund
        rest = place.selected()
        assert place.replayed(rest, "--reason", "what is left").returncode == 0
        assert decisions(stack, other) == [("unknown", False), ("replayed", True), ("unknown", True)]

        story = place.payhook("ledger", "event", refund).stdout
        for words in ("row 2: unknown", "replayed", "applied", "later than its place in Kafka", "7.00 EUR"):
            assert words in story, story
        acts = place.payhook("dlq", "audit").stdout
        assert "replay" in acts and "refunds are known since today" in acts
        lines = place.payhook("ledger", "balances", "--json").stdout
        assert sum(one["balance_minor"] for one in json.loads(lines)) == 0
        assert wait_for(lambda: stack.processor_status().get("open") == 0, DECIDED_S)
        verified = place.payhook("verify", "--deep")
        assert verified.returncode == 0, verified.stdout + verified.stderr
        assert "reprocessed_were_ignored" in verified.stdout
    finally:
        place.down()
