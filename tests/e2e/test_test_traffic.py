"""Live and test traffic of several tenants on one stack: each where it belongs, and both sides verify."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from core.clock import SystemClock
from core.event import Dedupe, Mode, to_headers
from core.kafka import open_producer
from core.layout import Layout
from core.record_keys import RecordKeys
from core.routing import of_tenant, topics_of
from load.client import RunningStack, wait_for
from load.embedded import SAMPLE_CONFIG, embedded_stack, payhook
from load.samples import sign
from load.samples.adyen import AdyenItem, adyen_notification
from load.samples.standardwebhooks import standard_event
from load.samples.stripe import stripe_event
from load.traffic import Webhook
from providers.port import Request
from providers.registry import build_adapters
from providers.settings import ProvidersSettings
from tests.e2e.conftest import DECIDED_S, Stack
from tests.processes import pause

pytestmark = pytest.mark.more(reason="a second whole stack, with a test side")

SETTINGS = {
    "PAYHOOK_INGEST__TEST_TRAFFIC": "true",
    # Which copy is new is Redis's to say, on a machine whose 50 ms are longer than others' too.
    "PAYHOOK_INGEST__REDIS_TIMEOUT_MS": "2000",
    "PAYHOOK_INGEST__ENDPOINTS": json.dumps(
        {
            "adyen/sandbox": {"mode": "test"},
            "standardwebhooks/sandbox": {"mode": "test"},
            "standardwebhooks/a": {"tenant": "shop-a", "zone": "eu-1"},
            "standardwebhooks/b": {"tenant": "shop-b"},
        }
    ),
}
MERCHANTS = """
["shop-a~standardwebhooks"]
"*" = "merchant-a"
["shop-b~standardwebhooks"]
"*" = "merchant-b"
"""


class Side(RunningStack):
    """One mode's ledger of a running stack."""

    def __init__(self, data_dir: Path, mode: Mode) -> None:
        super().__init__(data_dir)
        self.mode = mode
        self.flags = ["--data", str(data_dir), *(["--test"] if mode == "test" else [])]

    @property
    def journal(self) -> Path:
        return Path(self.endpoints["journal" if self.mode == "live" else "test_journal"])

    def rows(self, columns: Sequence[str], topic: str | None = "") -> list[dict[str, Any]]:
        return super().rows(columns, topics_of(self.mode).events if topic == "" else topic)

    def decided(self, key: str) -> list[str]:
        return [row["decision"] for row in self.rows(["event_key", "decision"]) if row["event_key"] == key]

    def becomes(self, key: str, *decisions: str) -> bool:
        return wait_for(lambda: self.decided(key) == [*decisions], DECIDED_S)

    def says(self, *words: str) -> Any:
        return json.loads(payhook(*words, *self.flags, "--json").stdout)

    def comes_to(self, account: str, minor: int) -> bool:
        """Postings follow the journal: what is decided is booked a moment later."""

        def balance() -> int:
            return sum(one["balance_minor"] for one in self.says("ledger", "balances") if one["account"] == account)

        return wait_for(lambda: balance() == minor, DECIDED_S)


class StackWithTestTraffic(Stack):
    """A stack that takes test traffic, with an endpoint for each thing that can differ."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self.live, self.test = Side(data_dir, "live"), Side(data_dir, "test")
        self.adapters = build_adapters(ProvidersSettings())

    def signed(self, path: str, body: bytes, event_id: str | None = None) -> Webhook:
        """A webhook for ``provider`` or ``provider/endpoint``, signed with the endpoint's own secret."""
        adapter = self.adapters[path.partition("/")[0]]
        secret = self.secrets(path.replace("/", "."))[0]
        request = sign(adapter, body, secret, SystemClock().now(), event_id)
        return Webhook(path, request.body, request.headers, ())

    def status(self, webhook: Webhook) -> int:
        [answer] = self.post(webhook)
        return answer.status

    def taken(self, webhook: Webhook) -> bool:
        """Whether it was taken as something new."""
        [answer] = self.post(webhook)
        assert answer.status == 200
        return not answer.replayed


def stripe(event_id: str, *, livemode: bool) -> bytes:
    return stripe_event(
        event_id,
        "charge.succeeded",
        payment=f"pi_{event_id.replace('_', '')}",
        account="acct_main",
        amount_minor=1_500,
        currency="eur",
        created=SystemClock().now(),
        livemode=livemode,
    )


def adyen(reference: str, *, live: bool) -> bytes:
    item = AdyenItem(reference, f"P{reference}", "MainMerchant", "order-1", "CAPTURE", 700, "EUR", SystemClock().now())
    return adyen_notification([item], live)


def standard(payment: str) -> bytes:
    return standard_event(
        "payment.captured",
        payment=payment,
        account="shop",
        amount_minor=900,
        currency="EUR",
        occurred_at=SystemClock().now(),
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackWithTestTraffic]:
    data_dir = tmp_path_factory.mktemp("stack")
    with pytest.MonkeyPatch.context() as environment:
        for name, value in SETTINGS.items():
            environment.setenv(name, value)
        with embedded_stack(data_dir):
            with (data_dir / "merchants.toml").open("a") as merchants:
                merchants.write(MERCHANTS)
            yield StackWithTestTraffic(data_dir)


@pytest.fixture(autouse=True)
def both_sides_verify_afterwards(world: StackWithTestTraffic) -> Iterator[None]:
    """Whatever a test did, no journal holds a row of the other mode; at the end `verify` proves all of it."""
    yield
    for side, other in ((world.live, "test"), (world.test, "live")):
        assert other not in {row["mode"] for row in side.rows(["mode"], None)}


@pytest.mark.row("D3")
def test_one_stripe_endpoint_takes_live_and_test_and_each_goes_to_its_own_ledger(world: StackWithTestTraffic) -> None:
    live, test = (f"stripe:evt_both_{flag}:charge.succeeded" for flag in ("live", "test"))
    assert world.taken(world.signed("stripe", stripe("evt_both_live", livemode=True)))
    webhook = world.signed("stripe", stripe("evt_both_test", livemode=False))
    assert world.taken(webhook)
    assert world.live.becomes(live, "applied")
    assert world.test.becomes(test, "applied")
    assert world.live.decided(test) == world.test.decided(live) == []
    assert not world.taken(webhook)


def test_an_unsigned_flag_must_agree_with_its_endpoint(world: StackWithTestTraffic) -> None:
    assert world.status(world.signed("adyen/sandbox", adyen("TESTATTEST", live=False))) == 200
    assert world.status(world.signed("adyen", adyen("TESTATLIVE", live=False))) == 422
    assert world.status(world.signed("adyen/sandbox", adyen("LIVEATTEST", live=True))) == 422
    assert world.status(world.signed("adyen", adyen("LIVEATLIVE", live=True))) == 200
    assert world.test.becomes("adyen:TESTATTEST:CAPTURE:true", "applied")
    assert world.live.becomes("adyen:LIVEATLIVE:CAPTURE:true", "applied")
    for side in (world.live, world.test):
        keys = {row["event_key"] for row in side.rows(["event_key"])}
        assert not {"adyen:TESTATLIVE:CAPTURE:true", "adyen:LIVEATTEST:CAPTURE:true"} & keys


def test_a_test_notification_with_its_flag_turned_round_opens_nothing_live(world: StackWithTestTraffic) -> None:
    """Adyen doesn't sign the flag: only that the two endpoints have secrets of their own stands in between."""
    signed = world.signed("adyen/sandbox", adyen("TURNEDROUND", live=False))
    turned = signed.body.replace(b'"live":"false"', b'"live":"true"')
    assert turned != signed.body
    assert world.status(Webhook("adyen", turned, signed.headers, ())) == 401


def test_two_tenants_with_one_webhook_id_both_take_effect_each_once(world: StackWithTestTraffic) -> None:
    key = "standardwebhooks:msg_same:payment.captured"
    paths = {"standardwebhooks/a": "shop-a", "standardwebhooks/b": "shop-b", "standardwebhooks": None}
    webhooks = [world.signed(path, standard("pay_same"), "msg_same") for path in paths]
    assert [world.taken(webhook) for webhook in webhooks] == [True] * 3
    for tenant in paths.values():
        assert world.live.becomes(of_tenant(tenant, key), "applied")
    assert [world.taken(webhook) for webhook in webhooks] == [False] * 3
    rows = {row["event_key"]: row for row in world.live.rows(["event_key", "tenant", "zone", "fact_key"])}
    of_a, of_b = (rows[of_tenant(tenant, key)] for tenant in ("shop-a", "shop-b"))
    assert (of_a["tenant"], of_a["zone"]) == ("shop-a", "eu-1")
    assert (of_b["tenant"], of_b["zone"]) == ("shop-b", None)
    assert of_a["fact_key"] != of_b["fact_key"]
    assert world.live.comes_to("merchant:merchant-a:payable", -900)
    assert world.live.comes_to("merchant:merchant-b:payable", -900)


def test_a_tenants_webhook_posted_to_another_one_opens_nothing(world: StackWithTestTraffic) -> None:
    signed = world.signed("standardwebhooks/a", standard("pay_moved"), "msg_moved")
    for path, status in (("standardwebhooks/b", 401), ("standardwebhooks", 401), ("standardwebhooks/unlisted", 503)):
        assert world.status(Webhook(path, signed.body, signed.headers, ())) == status


def test_one_webhook_id_live_and_test_is_two_events(world: StackWithTestTraffic) -> None:
    key = "standardwebhooks:msg_modes:payment.captured"
    paths = ("standardwebhooks", "standardwebhooks/sandbox")
    assert [world.taken(world.signed(path, standard("pay_modes"), "msg_modes")) for path in paths] == [True, True]
    assert world.live.becomes(key, "applied")
    assert world.test.becomes(key, "applied")


def test_send_reaches_the_test_ledger(
    world: StackWithTestTraffic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "body.json").write_bytes(adyen("SENTBYHAND", live=False))
    said = payhook("send", str(tmp_path / "body.json"), "--provider", "adyen", *world.test.flags)
    assert said.returncode == 0, said.stdout + said.stderr
    assert world.test.becomes("adyen:SENTBYHAND:CAPTURE:true", "applied")


def test_a_live_record_on_the_test_topic_dies_there_and_a_replay_of_it_dies_again(world: StackWithTestTraffic) -> None:
    adapter = world.adapters["stripe"]
    [event] = adapter.events(Request(stripe("evt_astray", livemode=True), []), "live")
    producer = open_producer(world.kafka, {}, RecordKeys(Layout(world.data_dir).record_keys))
    headers = dict[str, str | bytes | None](to_headers(event, SystemClock().now(), Dedupe.CLAIMED))
    producer.produce(topics_of("test").events, event.body, key=event.entity_key, headers=headers)
    producer.flush(60)

    def died() -> bool:
        return any(row["decision"] == "dead" for row in world.test.rows(["decision"]))

    assert wait_for(died, DECIDED_S)
    listed = world.test.says("dlq", "list")["items"]
    [item] = [one["item_seq"] for one in listed if one["error_class"] == "WrongMode"]
    assert world.live.says("dlq", "list")["items"] == []
    assert payhook("dlq", "replay", str(item), *world.test.flags).returncode == 0

    def rows() -> list[str]:
        found = world.test.rows(["item_seq", "decision"])
        return [row["decision"] for row in found if row["item_seq"] == item]

    assert wait_for(lambda: rows() == ["dead", "replayed", "dead"], DECIDED_S), rows()
    assert world.test.decided(event.event_key) == []


def test_an_event_and_a_command_of_others_than_payhook_die_and_change_nothing(world: StackWithTestTraffic) -> None:
    adapter = world.adapters["stripe"]
    [event] = adapter.events(Request(stripe("evt_forged", livemode=False), []), "test")
    producer = open_producer(world.kafka, {})
    headers = dict[str, str | bytes | None](to_headers(event, SystemClock().now(), Dedupe.CLAIMED))
    producer.produce(topics_of("test").events, event.body, key=event.entity_key, headers=headers)
    producer.produce(topics_of("test").control, b"{}", key=b"c1")
    producer.flush(60)

    def forged() -> list[str]:
        rows = world.test.rows(["topic", "decision", "error_class"], topic=None)
        return sorted(row["topic"] for row in rows if (row["decision"], row["error_class"]) == ("dead", "Forged"))

    assert wait_for(lambda: len(forged()) == 2, DECIDED_S), forged()
    assert forged() == ["payments.control.test", "payments.events.test"]
    assert world.test.decided(event.event_key) == []
    assert world.taken(world.signed("stripe", stripe("evt_forged", livemode=False)))
    assert world.test.becomes(event.event_key, "applied")


def test_without_the_test_processor_live_traffic_goes_on_and_nothing_of_the_other_is_lost(
    world: StackWithTestTraffic,
) -> None:
    pid = world.kill("processor-test")
    keys = [f"stripe:evt_alone_{flag}:charge.succeeded" for flag in ("live", "test")]
    assert world.taken(world.signed("stripe", stripe("evt_alone_test", livemode=False)))
    assert world.taken(world.signed("stripe", stripe("evt_alone_live", livemode=True)))
    assert world.live.becomes(keys[0], "applied")
    assert payhook("status", *world.live.flags).returncode == 0
    assert world.test.becomes(keys[1], "applied")
    assert world.endpoints["pids"]["processor-test"] != pid


def test_status_and_metrics_show_both_sides(world: StackWithTestTraffic) -> None:
    assert wait_for(lambda: payhook("status", *world.test.flags).returncode == 0, DECIDED_S)
    said = world.live.says("status")
    assert said["ready"]
    assert said["test"]["processor"]["stream"] == "ledger-test"
    assert said["test"]["lag"].keys() == {"payments.events.test", "payments.control.test"}
    assert said["lag"].keys() == {"payments.events", "payments.control"}
    assert said["endpoints"]["test_journal"] == str(world.test.journal)


@pytest.fixture
def processors_paused(world: StackWithTestTraffic) -> Iterator[None]:
    """They have nothing to do, but what they do of nothing costs the verification half of the machine."""
    pids = [int(world.endpoints["pids"][name]) for name in ("processor", "processor-test")]
    for pid in pids:
        pause(pid)
    yield
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


VERIFY_EACH = """
import json, sys
from click.testing import CliRunner
from cli.main import main
for flags in json.loads(sys.argv[1]):
    said = CliRunner().invoke(main, ["verify", *flags, "--json"])
    print(json.dumps([said.exit_code, json.loads(said.stdout)]))
"""
"""`payhook verify --json` of both sides, in one process: the second finds a JVM that is warm."""


@pytest.mark.usefixtures("processors_paused")
def test_both_sides_verify(world: StackWithTestTraffic) -> None:
    sides = (world.live, world.test)
    command = [sys.executable, "-c", VERIFY_EACH, json.dumps([side.flags for side in sides])]
    environment = {**os.environ, "PAYHOOK_CONFIG": str(SAMPLE_CONFIG)}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=True)
    for side, line in zip(sides, ran.stdout.splitlines(), strict=True):
        exit_code, whole = json.loads(line)
        assert exit_code == 0, whole
        report = whole["streams"][0]
        [modes] = [one for one in report["invariants"] if one["name"] == "one_mode"]
        assert (report["stream"], modes["figures"]) == (
            ("ledger", {"mode": "live"}) if side.mode == "live" else ("ledger-test", {"mode": "test"})
        )
        [offsets] = [one for one in report["invariants"] if one["name"] == "offsets_accounted"]
        assert offsets["figures"]["offsets"] >= 4
