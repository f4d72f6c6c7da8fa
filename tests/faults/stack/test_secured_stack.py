"""The whole of payhook on three secured brokers, each service with a user of its own: what goes on when one broker is
killed, what is refused when two are, and that nothing that was acknowledged is lost or booked twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

from load.client import wait_for
from load.secured_stack import SecuredStack, secured_stack
from load.traffic import Webhook
from tests.e2e.conftest import Stack, assert_once

log = logging.getLogger(__name__)

RATE_S = 20.0
LATE_S = 90.0


class Secured(Stack):
    """``site``: the brokers and processes."""

    def __init__(self, site: SecuredStack) -> None:
        super().__init__(site.data_dir)
        self.site = site

    def taken(self, webhooks: list[Webhook]) -> list[Webhook]:
        """Those that were answered 2xx."""
        return [hook for hook, answer in zip(webhooks, self.post(*webhooks), strict=True) if answer.status == 200]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_stack(tmp_path_factory.mktemp("secured")) as site:
        yield Secured(site)


def post_for(stack: Secured, seconds: float, prefix: str) -> tuple[list[Webhook], list[Webhook]]:
    """Webhooks that were taken, and those that weren't."""
    taken: list[Webhook] = []
    refused: list[Webhook] = []
    until = time.monotonic() + seconds
    number = 0
    while time.monotonic() < until:
        some = stack.captures(5, f"{prefix}-{number}")
        good = stack.taken(some)
        taken += good
        refused += [one for one in some if one not in good]
        number += 1
        time.sleep(0.25)
    return taken, refused


def test_a_webhook_comes_to_the_ledger_and_verify_finds_nothing(stack: Secured) -> None:
    sent = stack.captures(20, "first")
    assert stack.taken(sent) == sent
    assert_once(stack, sent)
    assert "all of it holds" in stack.site.as_operator("verify")


def test_one_broker_less_costs_nothing(stack: Secured) -> None:
    node = stack.site.cluster.nodes[0]
    node.kill()
    taken, refused = post_for(stack, RATE_S, "one-less")
    assert taken, "nothing was taken with two brokers of three"
    assert_once(stack, taken)
    log.info("one broker killed: %d taken, %d refused, all decided", len(taken), len(refused))
    node.start()
    again = stack.taken(refused)
    assert_once(stack, [*taken, *again])


def test_with_two_brokers_less_nothing_is_acknowledged_and_afterwards_all_goes_on(stack: Secured) -> None:
    before = stack.captures(10, "before")
    assert stack.taken(before) == before
    for node in stack.site.cluster.nodes[1:]:
        node.kill()
    taken, refused = post_for(stack, RATE_S, "two-less")
    assert not taken, "a 2xx says that two brokers have the record"
    assert refused
    for node in stack.site.cluster.nodes[1:]:
        node.start()
    began = time.monotonic()
    probe = stack.captures(1, "after")
    assert wait_for(lambda: stack.taken(probe) == probe, LATE_S)
    log.info("two brokers killed: taken again %.1f s after both were started", time.monotonic() - began)
    again = stack.taken(refused)
    assert again == refused
    assert_once(stack, [*before, *probe, *again])


def test_in_the_end_verify_finds_nothing(stack: Secured) -> None:
    assert "all of it holds" in stack.site.as_operator("verify")
