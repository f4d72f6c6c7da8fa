"""A whole stack on real servers for the tests of a module, and webhooks to post at it."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from core.clock import SystemClock
from core.layout import Layout
from load.client import RunningStack, wait_for
from load.embedded import embedded_stack, payhook
from load.open_loop import Answer, post_at_once
from load.traffic import Traffic, Webhook
from stack.servers.redis import admin_url

if TYPE_CHECKING:
    from tests.e2e.killing import MortalStack

DECIDED_S = 120.0


ON_ONE_STACK = ("test_another_user.py", "test_once.py", "test_up.py")
ENDS_IT = Path(__file__).with_name("test_up.py")
"""Its last test ends the one stack."""


class ByStack(LoadFileScheduling):  # type: ignore[misc]
    """Tests on the same stack go to the same process."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "one stack" if Path(file).name in ON_ONE_STACK else file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What ends the one stack comes last, in whichever order files are named."""
    items.sort(key=lambda item: item.path == ENDS_IT)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByStack:
    return ByStack(config, log)


class Stack(RunningStack):
    """A running stack with what the tests ask of it."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self.traffic = Traffic(data_dir / "secrets", SystemClock(), random.Random(7), prefix=uuid.uuid4().hex[:8])

    def post(self, *webhooks: Webhook) -> list[Answer]:
        """Posts all at once, each on a connection of its own."""
        return asyncio.run(post_at_once(self.endpoints["ingest"], webhooks))

    def captures(self, count: int, prefix: str) -> list[Webhook]:
        return [self.traffic.stripe(f"{prefix}-{n}", "charge.succeeded", 1_000 + n, "EUR") for n in range(count)]

    def decided_captures(self, batches: int, prefix: str) -> list[Webhook]:
        """Three captures a batch, each batch decided before the next one is sent: so many commits and files."""
        made: list[Webhook] = []
        for number in range(batches):
            some = self.captures(3, f"{prefix}-{number}")
            self.post(*some)
            self.decide(some)
            made += some
        return made

    def decide(self, webhooks: Sequence[Webhook], seconds: float = DECIDED_S) -> list[dict[str, object]]:
        return self.wait_until_decided((key for one in webhooks for key in one.event_keys), seconds)

    def decisions(self, webhook: Webhook) -> list[str]:
        rows = self.rows(["event_key", "decision"])
        return [row["decision"] for row in rows if row["event_key"] in webhook.event_keys]

    def item_of(self, event_key: str) -> int:
        """The number of a dead event."""
        rows = self.rows(["event_key", "item_seq", "decision"])
        return next(int(row["item_seq"]) for row in rows if row["event_key"] == event_key and row["decision"] == "dead")

    def command_decided(self, action: str, count: int) -> list[str]:
        """What became of the commands of an action, once so many of them are decided."""

        def rows() -> list[str]:
            found = self.rows(["event_type", "decision"], "payments.control")
            return [row["decision"] for row in found if row["event_type"] == action]

        assert wait_for(lambda: len(rows()) >= count, DECIDED_S), rows()
        return rows()

    def verify(self) -> str:
        """What `payhook verify` says; fails the test when it finds something."""
        said = payhook("verify", "--data", str(self.data_dir))
        assert said.returncode == 0, said.stdout + said.stderr
        return said.stdout


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One stack for the module's tests; `payhook down` ends it."""
    with embedded_stack(tmp_path_factory.mktemp("stack")) as data_dir:
        yield Stack(data_dir)


@pytest.fixture(scope="session")
def one_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MortalStack]:
    """What several files share, because a start takes half a minute: all that happens to it leaves it whole."""
    from tests.e2e.killing import mortal_stack

    with mortal_stack(tmp_path_factory.mktemp("stack")) as stack:
        yield stack


def as_admin(data_dir: Path, url: str) -> str:
    """The embedded Redis' URL for somebody who may do more than payhook."""
    return admin_url(Layout(data_dir).redis, url)


def effects(stack: Stack, webhooks: list[Webhook]) -> Counter[str]:
    """How often each of the webhooks' events was applied."""
    wanted = {key for webhook in webhooks for key in webhook.event_keys}
    rows = stack.rows(["event_key", "decision"])
    return Counter(row["event_key"] for row in rows if row["event_key"] in wanted and row["decision"] == "applied")


def assert_once(stack: Stack, webhooks: list[Webhook]) -> None:
    """Every event of the webhooks took effect exactly once."""
    stack.decide(webhooks)
    wanted = dict.fromkeys((key for webhook in webhooks for key in webhook.event_keys), 1)
    assert wait_for(lambda: effects(stack, webhooks) == wanted, DECIDED_S), effects(stack, webhooks)
