"""What surrounds the events: disks, memory, verify, maintenance, signatures, replicas. Each alert fires and is over."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest
from prometheus_client import start_http_server

from alerts.looking import RoundReport, StackObserver, WatchedPlaces, count_replicas, disk_used
from alerts.observation import Replicas
from alerts.settings import AlertsSettings
from alerts.watch import AlertWatch, read_state
from core.clock import ManualClock, to_rfc3339
from core.memory import memory_used
from ingest.metrics import IngestMetrics
from ledger.verify.report import Finding, Report, remember_report

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOUR_S, DAY_S = 3_600.0, 24 * 3_600.0

CHECKOUT = Path(__file__).parents[3]


@dataclass
class House:
    """A watch over real files and a real metrics page; only its clock is the test's."""

    folder: Path
    receiver: IngestMetrics
    watch: AlertWatch
    begun: Callable[[], AlertWatch]
    pages: dict[str, str]
    clock: ManualClock
    replicas: list[Replicas | None] = field(default_factory=lambda: [None])

    def firing(self, after_s: float = 15.0) -> dict[tuple[str, str], str]:
        """Rules that fire after the next look, by subject, and their texts."""
        self.clock.advance(after_s)
        self.watch.run_once()
        return {alert.key: alert.text for alert in self.watch.engine.alerts if alert.state == "firing"}

    def restart(self) -> None:
        """Of the alerts' process."""
        self.watch.close()
        self.watch = self.begun()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    receiver, clock, replicas = IngestMetrics(), ManualClock(AT), list[Replicas | None]([None])
    server, thread = start_http_server(0, "127.0.0.1", receiver.registry)
    pages = {"ingest": f"http://127.0.0.1:{server.server_port}/metrics"}
    places = WatchedPlaces(
        "",
        {},
        {},
        pages,
        verified=tmp_path / "verified.json",
        rounds={
            "maintenance": RoundReport(tmp_path / "maintained.json", HOUR_S),
            "verification": RoundReport(tmp_path / "verification.json", 30 * DAY_S),
            "backup": RoundReport(tmp_path / "backed-up.json", DAY_S),
        },
        replicas=lambda: replicas[0],
    )
    with httpx2.Client(trust_env=False) as client:

        def begun() -> AlertWatch:
            looking = StackObserver(places, client, clock, read_state(tmp_path / "alerts.json").done_at)
            return AlertWatch(AlertsSettings(), looking.observe_stack, {}, tmp_path / "alerts.json", clock)

        house = House(tmp_path, receiver, begun(), begun, pages, clock, replicas)
        yield house
        house.watch.close()
    server.shutdown()
    server.server_close()
    thread.join()


def is_over(house: House, rule: str, subject: str = "") -> bool:
    """Whether the alert ends once its cause is gone for two minutes."""
    assert (rule, subject) in house.firing(), "not at once"
    return (rule, subject) not in house.firing(130)


def post(house: House, good: int, forged: int) -> None:
    for _ in range(good):
        house.receiver.count_answer("stripe", 200, 0.01)
    for _ in range(forged):
        house.receiver.count_refusal("stripe", "signature_mismatch")
        house.receiver.count_answer("stripe", 400, 0.01)


def test_signatures_that_do_not_match_are_an_alert_of_their_provider(house: House) -> None:
    post(house, 100, 0)
    house.firing()
    post(house, 10, 9)
    assert house.firing() == {}, "nine requests are somebody who tries the address"
    post(house, 10, 11)
    text = house.firing()["signatures", "stripe"]
    assert text == "50.00% of the requests of stripe have no valid signature"
    post(house, 10, 0)
    assert ("signatures", "stripe") in house.firing(400), "it is over after its window, and two minutes"
    assert ("signatures", "stripe") not in house.firing(130)


def test_webhooks_about_what_the_provider_does_not_know_are_an_alert_whatever_they_were_answered(house: House) -> None:
    post(house, 100, 0)
    house.firing()
    for _ in range(6):
        house.receiver.count_not_there("stripe")
        house.receiver.count_answer("stripe", 200, 0.01)
        house.receiver.count_not_there("stripe")
        house.receiver.count_answer("stripe", 503, 0.01)
    post(house, 12, 0)
    text = house.firing()["not_there", "stripe"]
    assert text == "50.00% of the requests of stripe name what its own API does not know"
    post(house, 10, 0)
    assert ("not_there", "stripe") in house.firing(400), "it is over after its window, and two minutes"
    assert ("not_there", "stripe") not in house.firing(130)


def test_a_receiver_that_does_not_answer_ends_no_alert_of_its_providers(house: House) -> None:
    post(house, 100, 0)
    house.firing()
    post(house, 0, 100)
    ours = house.firing()
    assert ours.keys() == {("signatures", "stripe")}
    page, house.pages["ingest"] = house.pages["ingest"], "http://127.0.0.1:1/metrics"
    assert house.firing() == ours
    house.restart()
    assert house.firing(600) == ours, "nor at the first look after a restart"
    house.pages["ingest"] = page
    post(house, 100, 0)
    assert is_over(house, "signatures", "stripe")


def report(since: int = 1, **wrong: bool) -> Report:
    """Of invariants by name, and whether something offends each."""
    findings = tuple(Finding(name, "it holds", ({"seq": 1},) if is_wrong else ()) for name, is_wrong in wrong.items())
    return Report("ledger", 1, 10, AT, 0.1, findings, since)


def test_what_verify_found_is_an_alert_until_a_look_as_wide_finds_nothing(house: House) -> None:
    file = house.folder / "verified.json"
    remember_report(file, report(chain_whole=True, one_effect=False), deep=False)
    assert house.firing()["verify", "ledger"] == "payhook verify found 1 invariants of ledger that do not hold"
    remember_report(file, report(since=5, chain_whole=False), deep=False)
    house.firing(130)
    assert ("verify", "ledger") in house.firing(130), "some rows don't speak for all"
    whole = file.read_bytes()
    file.write_bytes(whole[:9])
    house.firing(130)
    assert ("verify", "ledger") in house.firing(130), "a file that can't be read says nothing"
    file.write_bytes(whole)
    remember_report(file, report(chain_whole=False, one_effect=False), deep=False)
    assert is_over(house, "verify", "ledger")


def test_a_report_of_verify_that_is_deleted_ends_its_alert_at_the_next_start_alone(house: House) -> None:
    told = "the alert `verify` keeps firing until the alerts' process is started again; then it ends as `unwatched`"
    assert told in (CHECKOUT / "docs" / "backups.md").read_text("utf-8")
    file = house.folder / "verified.json"
    remember_report(file, report(one_effect=True), deep=False)
    assert ("verify", "ledger") in house.firing()
    file.unlink()
    house.firing(130)
    assert ("verify", "ledger") in house.firing(130)
    house.restart()
    assert ("verify", "ledger") not in house.firing()


def test_what_only_a_deep_look_finds_no_other_look_ends(tmp_path: Path) -> None:
    file = tmp_path / "verified.json"
    remember_report(file, report(bodies_whole=True), deep=True)
    remember_report(file, report(bodies_whole=False), deep=False)
    assert json.loads(file.read_text())["ledger"]["wrong"] == ["bodies_whole"]
    remember_report(file, replace(report(bodies_whole=False), stream="notify"), deep=True)
    remember_report(file, report(bodies_whole=False), deep=True)
    known = json.loads(file.read_text())
    assert {stream: one["wrong"] for stream, one in known.items()} == {"ledger": [], "notify": []}


def test_an_invariant_that_was_not_checked_is_as_it_was(tmp_path: Path) -> None:
    file, silent = tmp_path / "verified.json", Finding("anchors_hold", "", not_checked="Kafka doesn't answer")
    remember_report(file, report(anchors_hold=True), deep=False)
    remember_report(file, replace(report(), findings=(silent,)), deep=False)
    assert json.loads(file.read_text())["ledger"]["wrong"] == ["anchors_hold"]


def maintained(house: House, *, ok: bool) -> None:
    said = {"ok": ok, "ended_at": to_rfc3339(house.clock.now())}
    (house.folder / "maintained.json").write_text(json.dumps(said))


def test_maintenance_that_is_not_done_is_an_alert_and_a_round_that_fails_is_none(house: House) -> None:
    assert house.firing(2 * HOUR_S - 60) == {}, "it counts from the first look where no round was ever done"
    maintained(house, ok=False)
    assert house.firing(120)["maintenance", ""].startswith("the last complete maintenance is 2.0 times")
    maintained(house, ok=True)
    assert is_over(house, "maintenance")


def test_rounds_that_are_never_done_are_an_alert_however_often_the_alerts_are_restarted(house: House) -> None:
    """As on a host whose processes are renewed each night, and where nothing runs the rounds."""
    assert house.firing() == {}
    for _ in range(3):
        house.restart()
        (house.folder / "backed-up.json").write_text("{")
        fires = house.firing(0.6 * DAY_S)
    assert {("maintenance", ""), ("backup", "")} == fires.keys()


def test_backups_that_are_never_made_are_an_alert(house: House) -> None:
    """Nobody wrote a report: the schedule's process doesn't run, or can't write."""
    maintained(house, ok=True)
    assert ("backup", "") not in house.firing(1.4 * DAY_S), "it counts from the first look"
    assert house.firing(0.2 * DAY_S)["backup", ""] == "the newest valid backup is 1.6 times as old as backup.every_h"
    (house.folder / "backed-up.json").write_text(json.dumps({"since": to_rfc3339(house.clock.now())}))
    assert is_over(house, "backup")


@pytest.mark.parametrize("began_ahead", [False, True])
def test_a_clock_that_ran_ahead_keeps_no_overdue_round_from_an_alert(house: House, began_ahead: bool) -> None:
    year_s = 365 * DAY_S
    house.clock.advance(year_s)
    if began_ahead:
        house.firing()
    ahead = to_rfc3339(house.clock.now())
    for name in ("maintained", "backed-up"):
        (house.folder / f"{name}.json").write_text(json.dumps({"ok": True, "ended_at": ahead, "since": ahead}))
    if began_ahead:
        house.firing()
    house.clock.set_back(year_s)
    house.firing()
    assert {("maintenance", ""), ("backup", "")} == house.firing(3 * DAY_S).keys()


def test_a_verification_that_cannot_be_made_is_an_alert_and_one_that_finds_something_is_none(house: House) -> None:
    def verified(*, ok: bool, wrong: int) -> None:
        said = {"ok": ok, "wrong": wrong, "ended_at": to_rfc3339(house.clock.now())}
        (house.folder / "verification.json").write_text(json.dumps(said))

    house.firing()
    verified(ok=False, wrong=0)
    assert ("verification", "") not in house.firing(59 * DAY_S), "it counts from the first look"
    text = house.firing(2 * DAY_S)["verification", ""]
    assert text == "the last complete verification is 2.0 times as old as ledger.verify.every_h"
    verified(ok=True, wrong=3)
    house.firing()
    house.firing(130)
    assert ("verification", "") not in house.firing(), "what it found is told by the alert `verify`"


def test_replicas_that_are_behind_are_an_alert_and_too_few_another(house: House) -> None:
    house.replicas[0] = Replicas(out_of_sync=12, under_min=0)
    assert house.firing() == {}
    assert house.firing(120) == {("isr", ""): "12 partitions have a replica that is not in sync"}
    house.replicas[0] = Replicas(out_of_sync=12, under_min=12)
    assert ("min_isr", "") in house.firing()
    house.replicas[0] = None
    assert {("isr", ""), ("min_isr", "")} == house.firing(600).keys(), "what can't be asked changes nothing"
    house.replicas[0] = Replicas(0, 0)
    assert is_over(house, "min_isr")
    assert house.firing() == {}


def test_partitions_are_counted_by_what_is_in_sync() -> None:
    def of(*isrs: int) -> SimpleNamespace:
        return SimpleNamespace(replicas=[1, 2, 3], isrs=list(isrs))

    partitions = {"events": {0: of(1, 2, 3), 1: of(1, 2)}, "dlq": {0: of(3)}}
    assert count_replicas(partitions, {"events": 2, "dlq": 2}) == Replicas(out_of_sync=2, under_min=1)


def test_memory_that_fills_up_is_an_alert_wherever_it_is(house: House) -> None:
    """The receiver's page says it of the receiver's container."""
    share = [0.95]
    gauge = house.receiver.registry._names_to_collectors["payhook_memory_used_ratio"]
    gauge.set_function(lambda: share[0])  # type: ignore[attr-defined]
    assert house.firing() == {}
    house.firing(200)
    assert house.firing(100)["memory", ""] == "95.00% of the memory of a machine or a container is used"
    share[0] = 0.5
    assert is_over(house, "memory")


@pytest.fixture
def cgroup(tmp_path: Path) -> Callable[[str, int, int], float]:
    """The used share that a control group of such a limit and so much memory makes, some of it files' cache."""
    (tmp_path / "own").write_text("0::/payhook/one\n")
    group = tmp_path / "payhook" / "one"
    group.mkdir(parents=True)

    def used(limit: str, current: int, cached: int) -> float:
        (group / "memory.max").write_text(f"{limit}\n")
        (group / "memory.current").write_text(f"{current}\n")
        (group / "memory.stat").write_text(f"anon 5\ninactive_file {cached}\n")
        return memory_used(tmp_path, tmp_path / "own")

    return used


def test_a_limited_group_counts_without_what_the_system_can_drop(cgroup: Callable[[str, int, int], float]) -> None:
    assert cgroup("1000", 1_200, 205) == pytest.approx(0.995)
    machine = cgroup("max", 1_200, 0)
    assert 0 < machine < 0.995
    assert cgroup("1000000", 10, 0) == pytest.approx(machine, abs=0.05), "the machine is fuller than the group"


def test_a_disk_that_cannot_be_seen_says_nothing(tmp_path: Path) -> None:
    assert disk_used(tmp_path / "nowhere") is None
    used = disk_used(tmp_path)
    assert used is not None and 0 < used < 1


ON_A_SMALL_DISK = """
import pathlib, subprocess, sys
from core.clock import ManualClock
from alerts.looking import StackObserver, WatchedPlaces
from alerts.settings import AlertsSettings
from alerts.watch import AlertWatch
from tests.unit.alerts.test_house import AT
folder = pathlib.Path(sys.argv[1])
disk = folder / "disk"
disk.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(disk)], check=True)
clock = ManualClock(AT)
observer = StackObserver(WatchedPlaces("", {}, {}, {}, disks={"data folder": disk}), None, clock)
watch = AlertWatch(AlertsSettings(), observer.observe_stack, {}, folder / "alerts.json", clock)
def says():
    clock.advance(130)
    watch.run_once()
    print([alert.text for alert in watch.engine.alerts if alert.rule == "disk"])
says()
(disk / "filler").write_bytes(bytes(3_932_160))
says()
(disk / "filler").unlink()
says()
says()
watch.close()
"""


def test_a_disk_that_fills_up_is_an_alert_until_there_is_room(tmp_path: Path) -> None:
    alone = ["unshare", "--mount", "--map-root-user"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no mount namespaces for this user")
    command = [*alone, sys.executable, "-c", ON_A_SMALL_DISK, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert said.returncode == 0, said.stderr
    full = "['93.75% of the disk of the data folder is used']"
    assert said.stdout.splitlines() == ["[]", full, full, "[]"]
