"""`make load`: real locust at a receiver on loopback, its verdict, and the report that is kept and compared."""

from __future__ import annotations

import contextlib
import http.server
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from load.latency import Decided
from load.report import Figure, NoReport, Report, Sent, last_report, over_time, read_report, write_report
from load.report_page import report_page
from load.run import LoadRefused, Plan, answers, check_target, judge, main
from tests.documented import CHECKOUT, fenced

BEGIN = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECRETS = {"stripe": "whsec_x", "adyen": "ab" * 32, "standardwebhooks": "whsec_" + "c2VjcmV0" * 4}


class LoadReceiver(http.server.ThreadingHTTPServer):
    request_queue_size = 128


class Takes(http.server.BaseHTTPRequestHandler):
    """Takes whatever is posted."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Silence on the terminal."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = LoadReceiver(("127.0.0.1", 0), Takes)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    folder = tmp_path / "secrets"
    folder.mkdir()
    for provider, secret in SECRETS.items():
        (folder / provider).write_text(secret)
    return folder


def sent(second: float, ms: float = 10.0, status: int = 200, key: str = "e") -> Sent:
    return Sent(BEGIN.timestamp() + second, ms, status, (key,))


def decided(second: float, took_s: float, key: str = "e") -> Decided:
    at = BEGIN + timedelta(seconds=second)
    return Decided(key, key, "applied", at, at + timedelta(seconds=took_s))


def report(*figures: Figure, **changed: object) -> Report:
    every_s, series = over_time([sent(0), sent(1)], [decided(0, 0.5), decided(1, 0.7)])
    same = Report("2026-01-31T12:00:00.000000Z", "here", 120.0, 60, 2, figures, every_s, series)
    return Report(**{**{name: getattr(same, name) for name in Report.__slots__}, **changed})


def test_curves_are_of_the_step_in_which_things_happened() -> None:
    answered = [sent(0, 10), sent(0.5, 30), sent(2, 20, 503)]
    every_s, series = over_time(answered, [decided(0, 0.4), decided(0.5, 3.0)])
    assert every_s == 1.0
    assert series["arrivals"] == [2, 0, 1, 0]
    assert series["refused"] == [0, 0, 1, 0]
    assert series["answer_ms_p50"] == [10, None, 20, None]
    assert series["answer_ms_p99"] == [30, None, 20, None]
    assert series["decision_s_p99"] == [3.0, None, None, None]
    assert series["undecided"] == [1, 1, 1, 0]


def test_a_long_run_has_no_more_points_than_a_plot_has_room_for() -> None:
    every_s, series = over_time([sent(0), sent(3_599)], [])
    assert (every_s, len(series["arrivals"])) == (30.0, 120)
    assert "undecided" not in series, "nothing is known of another machine's journal"


def test_a_missed_limit_is_a_missed_slo_wherever_it_is_shown() -> None:
    figures = judge({"a", "b"}, [decided(0, 6.0, "a")], Counter({"a": 2}))
    assert [one.what for one in figures if one.is_met is False] == [
        "receipt to commit P99",
        "within 5 s",
        "accepted and not in the journal",
        "took effect twice",
    ]
    missed = report(*figures)
    page = report_page(missed)
    assert not missed.is_met and "SLO missed: receipt to commit P99" in page
    assert page.count("<td>NO") == 4
    assert not any(one.is_met is False for one in judge({"a"}, [decided(0, 1.0, "a")], Counter({"a": 1})))
    assert judge(set(), [], Counter())[1].is_met is False, "nothing was decided"


def test_an_answer_that_is_no_2xx_is_a_miss_and_a_copy_under_way_is_none() -> None:
    assert [one.is_met for one in answers([sent(0), sent(1, status=409)])][:2] == [True, True]
    assert [one.is_met for one in answers([sent(0), sent(1, status=503)])][:2] == [True, False]
    assert answers([])[0].is_met is False


def test_a_report_is_kept_read_again_and_compared(tmp_path: Path) -> None:
    before = report(Figure("receipt to commit P99", "0.50 s", "< 5 s", True), at="2026-01-30T12:00:00.000000Z")
    now = report(Figure("receipt to commit P99", "0.70 s", "< 5 s", True), target="<b>")
    write_report(before, tmp_path, report_page)
    kept = read_report(last_report(tmp_path))
    assert (kept.at, kept.figures, dict(kept.series)) == (before.at, before.figures, dict(before.series))
    page = report_page(now, kept)
    assert "<td>0.70 s" in page and "<td>0.50 s" in page
    assert "before: P99" in page and "before: undecided" in page
    assert "<b>" not in page and "&lt;b&gt;" in page
    assert "http" not in re.sub(r"http://www\.w3\.org/\S+", "", page), "it needs no other file"


@pytest.mark.parametrize("text", ["", "{}", '{"version": 0}', "[1]"])
def test_what_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "load-1.json").write_text(text)
    with pytest.raises(NoReport, match="no report of a load run"):
        read_report(tmp_path / "load-1.html")
    with pytest.raises(NoReport, match="no run has written one"):
        last_report(tmp_path / "nowhere")


@pytest.mark.parametrize("host", ["payhook.example", "10.1.0.4", "[2001:db8::1]", "127.0.0.1.example.com", "0.0.0.0"])
def test_another_machines_receiver_gets_nothing_unless_that_is_said(secrets: Path, host: str) -> None:
    with pytest.raises(LoadRefused, match="YES_SEND=1.*Nothing was sent"):
        check_target(f"http://{host}:8080", secrets, may_send=False)
    check_target(f"http://{host}:8080", secrets, may_send=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.8.8.8"])
def test_a_receiver_on_this_machine_needs_secrets_alone(tmp_path: Path, secrets: Path, host: str) -> None:
    check_target(f"http://{host}:8080", secrets, may_send=False)
    with pytest.raises(LoadRefused, match="no secrets of stripe, adyen, standardwebhooks"):
        check_target(f"http://{host}:8080", tmp_path, may_send=False)


def test_what_is_refused_ends_with_2_and_leaves_no_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--reports", str(tmp_path / "reports"), "--data", str(tmp_path / "data")]
    assert main(["--url", "http://payhook.example", *words]) == 2
    assert main(["--url", "payhook.example", *words]) == 2
    assert main(["--compare", "last", *words]) == 2
    assert "YES_SEND=1" in capsys.readouterr().err
    assert not (tmp_path / "reports").exists()


def test_the_rate_is_divided_among_users_that_each_keep_up(tmp_path: Path) -> None:
    for rate, users in ((120.0, 40), (1.0, 1), (100.0, 34)):
        plan = Plan("http://127.0.0.1:1", tmp_path, tmp_path / "log", rate, 10)
        assert plan.users == users
        assert float(plan.variables["PAYHOOK_LOAD_PER_USER_PER_S"]) * users == pytest.approx(rate)


@pytest.mark.row("A1")
def test_locust_posts_at_the_rate_and_the_report_says_so(
    url: str, secrets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--url", url, "--secrets", str(secrets), "--rate", "20", "--seconds", "4"]
    words += ["--data", str(tmp_path / "data"), "--reports", str(tmp_path / "reports")]
    assert main(words) == 0
    kept = read_report(last_report(tmp_path / "reports"))
    posted = int(next(one.measured for one in kept.figures if one.what == "webhooks posted"))
    assert 40 <= posted <= 100, "20 a second for 4 s"
    assert sum(value or 0 for value in kept.series["arrivals"]) * kept.every_s == pytest.approx(posted)
    said = capsys.readouterr().out
    assert "SLO met" in said and ".html" in said


def started(words: list[str], variables: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words, cwd=CHECKOUT, env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


@pytest.mark.more(reason="locust with its page: some seconds that only a person's Ctrl-C ends")
def test_locusts_page_is_on_loopback_and_ctrl_c_writes_the_report(url: str, secrets: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-u", "-m", "load.run", "--ui", "--url", url, "--secrets", str(secrets), "--rate", "10"]
    words += ["--seconds", "3", "--data", str(tmp_path / "data"), "--reports", str(tmp_path / "reports")]
    run = started(words, {})
    assert run.stdout is not None
    page = next(found[0] for line in run.stdout if (found := re.search(r"http://127\.0\.0\.1:\d+/(?=;)", line)))
    try:
        assert "Locust" in opened(page)
        time.sleep(4)
    finally:
        os.killpg(run.pid, signal.SIGINT)
        said = run.communicate(timeout=60)[0]
    assert run.returncode == 0 and "SLO met" in said, said
    assert len(read_report(last_report(tmp_path / "reports")).series["arrivals"]) >= 2


def opened(page: str) -> str:
    until = time.monotonic() + 60
    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(page, timeout=5) as answer:
            return str(answer.read(), "utf-8")
        assert time.monotonic() < until, f"{page} never answered"
        time.sleep(0.2)


@pytest.mark.more(reason="a locust of its own; that it posts at a rate is an everyday test")
def test_locust_by_hand_runs_as_the_page_says(url: str, secrets: Path) -> None:
    [text] = [one.text for one in fenced((CHECKOUT / "docs" / "load.md").read_text()) if "locustfile" in one.text]
    text = text.replace("http://127.0.0.1:8080", url).replace(".payhook/data/secrets", str(secrets))
    text = text.replace("-t 2m", "-t 2s").replace(".venv/bin/locust", f"{sys.executable} -m locust")
    done = subprocess.run(["sh", "-ec", text], cwd=CHECKOUT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert re.search(r"Aggregated +[1-9]\d* +0\(0\.00%\)", done.stdout + done.stderr), done.stderr[-2_000:]
