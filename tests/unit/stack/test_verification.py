"""The verification by schedule: when it is due, what it leaves, and that it holds nothing up."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import stack.maintenance.verification
import stack.rounds
from core.clock import from_rfc3339
from core.status_file import read_said
from ledger.settings import LedgerSettings, VerifySettings
from ledger.verify import Finding, Report, VerifyImpossible
from ledger.verify.duckdb_engine import DuckDb
from ledger.verify.job import VerifyProgress, open_engine
from ledger.verify.report import remember_report
from stack.errors import JarsMissing
from stack.maintenance.verification import run_round
from stack.rounds import ScheduledRound, run_rounds_beside, schedule_rounds
from stack.settings import Settings
from tests.backed_up import SmallLake
from tests.verified import verified

HOUR_S = 3_600


def of_every(hours: float, folder: Path) -> list[ScheduledRound]:
    settings = Settings(data_dir=folder, ledger=LedgerSettings(verify=VerifySettings(every_h=hours)))
    return [one for one in schedule_rounds(settings) if one.name == "verification"]


def test_it_is_made_once_a_day_unless_the_settings_say_otherwise(tmp_path: Path) -> None:
    [daily] = [one for one in schedule_rounds(Settings(data_dir=tmp_path)) if one.name == "verification"]
    assert (daily.every_s, daily.first_s, daily.again_s) == (24 * HOUR_S, HOUR_S, HOUR_S)
    [often] = of_every(0.25, tmp_path)
    assert (often.every_s, often.again_s) == (900, 900)
    assert of_every(0, tmp_path) == []


@pytest.fixture
def lake(tmp_path: Path) -> SmallLake:
    """Of one stream that decided something."""
    made = SmallLake(tmp_path)
    made.commit()
    return made


def no_jars() -> list[Path]:
    raise JarsMissing(Path("jars"))


def test_only_a_cluster_needs_jars(tmp_path: Path) -> None:
    with open_engine(LedgerSettings(), tmp_path, no_jars, 0, VerifyProgress()) as engine:
        assert isinstance(engine, DuckDb)
    on_a_cluster = LedgerSettings(master="spark://127.0.0.1:7077")
    with pytest.raises(JarsMissing), open_engine(on_a_cluster, tmp_path, no_jars, 0, VerifyProgress()):
        pass


def left(lake: SmallLake) -> dict[str, Any]:
    return dict(read_said(lake.settings.layout.verification_file) or {})


def answering(monkeypatch: pytest.MonkeyPatch, *findings: Finding) -> list[str]:
    """Every verification finds this; returns the streams that are asked for."""
    asked: list[str] = []

    def run(*_: object, stream: str, **__: object) -> object:
        asked.append(stream)
        report = verified(stream)
        return type(report)(stream, report.version, report.seq, report.at, report.seconds, findings)

    monkeypatch.setattr(stack.maintenance.verification, "run", run)
    monkeypatch.setattr(stack.maintenance.verification, "spark_jars", lambda _lake: [])
    return asked


HOLDS = Finding("balanced", "Debits equal credits.")
WRONG = Finding("order_kept", "In order.", ({"seq": 7},))


@pytest.mark.parametrize(("finding", "done", "wrong"), [(HOLDS, True, []), (WRONG, False, ["order_kept"])])
def test_a_round_leaves_what_it_found_where_alerts_and_pages_look(
    lake: SmallLake, monkeypatch: pytest.MonkeyPatch, finding: Finding, done: bool, wrong: list[str]
) -> None:
    asked = answering(monkeypatch, finding)
    assert run_round(lake.settings) is done
    assert asked == ["ledger"], "a stream without a journal decided nothing yet"
    assert (left(lake)["ok"], left(lake)["wrong"], left(lake)["problems"]) == (True, len(wrong), {})
    assert from_rfc3339(left(lake)["began_at"]) <= from_rfc3339(left(lake)["ended_at"])
    known = read_said(lake.settings.layout.verified_file)
    assert known is not None and known["ledger"]["wrong"] == wrong


def decided(monkeypatch: pytest.MonkeyPatch, *streams: str, unreachable: str | None = None) -> None:
    """These have a journal; whether one of them does can't be looked at."""

    def has_table(path: str) -> bool:
        if Path(path).name == unreachable:
            raise OSError("the place can't be reached")
        return Path(path).name in streams

    monkeypatch.setattr(stack.maintenance.verification, "has_table", has_table)


@pytest.mark.parametrize("problem", [VerifyImpossible("its keys are gone"), MemoryError("its keys are gone")])
def test_a_stream_that_cannot_be_verified_is_told_and_keeps_no_other_from_it(
    lake: SmallLake, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    asked = answering(monkeypatch, HOLDS)
    found: Any = vars(stack.maintenance.verification)["run"]

    def run(*given: Any, stream: str, **more: Any) -> object:
        if stream == "ledger":
            raise problem
        return found(*given, stream=stream, **more)

    monkeypatch.setattr(stack.maintenance.verification, "run", run)
    decided(monkeypatch, "ledger", "notify")
    assert not run_round(lake.settings)
    assert asked == ["notify"]
    assert not left(lake)["ok"] and "its keys are gone" in left(lake)["problems"]["ledger"]


def test_a_stream_whose_result_cannot_be_written_is_told_and_keeps_no_other_from_it(
    lake: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answering(monkeypatch, WRONG)
    decided(monkeypatch, "ledger", "notify")

    def remember_some(path: Path, report: Report, *, deep: bool) -> None:
        if report.stream == "ledger":
            raise OSError("no space left on the device")
        remember_report(path, report, deep=deep)

    monkeypatch.setattr(stack.maintenance.verification, "remember_report", remember_some)
    assert not run_round(lake.settings)
    assert asked == ["ledger", "notify"]
    assert left(lake)["problems"].keys() == {"ledger"} and "no space left" in left(lake)["problems"]["ledger"]
    assert left(lake)["wrong"] == 2, "what was found is counted, wherever it stands"
    known = read_said(lake.settings.layout.verified_file)
    assert known is not None and known.keys() == {"notify"}


@pytest.mark.parametrize(("unreachable", "verified"), [("ledger", ["notify"]), ("notify", ["ledger"])])
def test_a_stream_whose_journal_cannot_be_looked_at_is_told_and_keeps_no_other_from_it(
    lake: SmallLake, monkeypatch: pytest.MonkeyPatch, unreachable: str, verified: list[str]
) -> None:
    asked = answering(monkeypatch, HOLDS)
    decided(monkeypatch, "ledger", "notify", unreachable=unreachable)
    assert not run_round(lake.settings)
    assert asked == verified
    assert left(lake)["problems"].keys() == {unreachable} and "reached" in left(lake)["problems"][unreachable]


def test_a_kafka_that_is_away_is_a_round_that_could_not_be_made(lake: SmallLake) -> None:
    kafka = lake.settings.kafka.model_copy(update={"bootstrap_servers": "127.0.0.1:1"})
    processor = lake.settings.processor.model_copy(update={"anchor_key_file": str(lake.root / "anchors")})
    (lake.root / "anchors").write_text("k1:" + "0" * 64 + "\n")
    assert not run_round(lake.settings.model_copy(update={"kafka": kafka, "processor": processor}))
    assert not left(lake)["ok"] and "ledger" in left(lake)["problems"]


def test_a_long_verification_holds_up_no_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop, verifying, backed_up = threading.Event(), threading.Event(), threading.Event()

    def run(due: ScheduledRound, stop: threading.Event) -> int | None:
        if due.reads_only:
            verifying.set()
            stop.wait()
            return None
        assert verifying.wait(10)
        backed_up.set()
        return 0

    monkeypatch.setattr(stack.rounds, "_run", run)
    rounds = [
        ScheduledRound("backup", tmp_path / "backed-up.json", 0.01, 0.01, 0.01),
        ScheduledRound("verification", tmp_path / "verification.json", 0.01, 0.01, 0.01, reads_only=True),
    ]
    staying = threading.Thread(target=run_rounds_beside, args=(rounds, stop))
    staying.start()
    assert backed_up.wait(10)
    stop.set()
    staying.join(10)
    assert not staying.is_alive()


def test_a_report_is_json(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, WRONG)
    run_round(lake.settings)
    json.loads(lake.settings.layout.verified_file.read_text("utf-8"))
