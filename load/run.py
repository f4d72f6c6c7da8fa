"""``make load``: webhooks at a set rate, the SLO, every 2xx looked up in the journal, and a report that is kept."""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from core.clock import SystemClock, to_rfc3339
from core.errors import PayhookError
from load.client import NotInTime, RunningStack
from load.embedded import StackNotUp, embedded_stack
from load.latency import Decided, first_decisions, percentile
from load.report import Figure, NoReport, Report, Sent, last_report, over_time, read_report, read_sent, write_report
from load.report_page import report_page
from load.scratch import SCRATCH_HELP, NotScratch, empty_scratch_folder
from load.traffic import PROVIDERS
from stack.machine import DEFAULT_DATA_DIR
from stack.servers.ports import LOOPBACK, free_ports, is_listening

SLO_P99_S = 5.0
SLO_SHARE = 0.999
IN_TIME_S = 5.0
SETTLE_S = 60.0
PER_USER_PER_S = 3.0
"""Few enough that a slow answer delays nobody's next webhook."""
UI_PORT = 8089
"""Locust's own."""
SUCCESS = frozenset({"applied", "ignored", "duplicate", "duplicate_fact"})
EMBEDDED = "the embedded stack"
REPORTS = DEFAULT_DATA_DIR.parent / "load-reports"


NOT_LOOKED_UP = Figure("looked up in the journal", "no: a run against another receiver can't be looked up")


class LoadRefused(PayhookError):
    """Nothing was sent, or not all of it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be sent where. ``secrets``: a folder with a file a provider."""

    url: str
    secrets: Path
    log: Path
    rate_per_s: float
    seconds: int
    with_ui: bool = False

    @property
    def users(self) -> int:
        return max(1, math.ceil(self.rate_per_s / PER_USER_PER_S))

    @property
    def variables(self) -> dict[str, str]:
        """Returns what the locust file reads."""
        return {
            "PAYHOOK_LOAD_SECRETS": str(self.secrets),
            "PAYHOOK_LOAD_LOG": str(self.log),
            "PAYHOOK_LOAD_PER_USER_PER_S": str(self.rate_per_s / self.users),
            "PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")]),
        }

    def command(self, ui_port: int) -> list[str]:
        """Locust in a process of its own: it patches sockets."""
        words = [sys.executable, "-m", "locust", "-f", str(Path(__file__).parent / "locustfile.py")]
        words += ["--autostart", "--web-host", LOOPBACK, "--web-port", str(ui_port)] if self.with_ui else ["--headless"]
        words += ["-u", str(self.users), "-r", str(self.users), "-t", f"{self.seconds}s", "--host", self.url]
        return [*words, "--only-summary", "--loglevel", "WARNING", "--exit-code-on-error", "0"]


def main(words: Sequence[str] | None = None) -> int:
    """Exit 1 when an accepted event is missing or twice, or the SLO isn't met; 2 when nothing was sent."""
    parser = argparse.ArgumentParser(prog="load.run", description=__doc__)
    parser.add_argument("--rate", type=float, default=120.0, help="webhooks a second (default: 120)")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--ui", action="store_true", help="locust's own page, on loopback; Ctrl-C ends the run")
    parser.add_argument("--url", default="", help="a receiver that runs, instead of a stack of this run's own")
    parser.add_argument("--yes-send", action="store_true", help="--url isn't on this machine, and is meant")
    parser.add_argument("--secrets", type=Path, help="with --url: a folder with its secrets, a file a provider")
    parser.add_argument("--compare", default="", help="an earlier report, or `last`")
    parser.add_argument("--reports", type=Path, default=REPORTS, help="where reports are kept")
    parser.add_argument("--data", type=Path, default=DEFAULT_DATA_DIR.parent / "load", help=SCRATCH_HELP)
    wanted = parser.parse_args(words)
    console = Console()
    try:
        earlier = _earlier(wanted.compare, wanted.reports)
        if wanted.url:
            check_target(wanted.url, wanted.secrets, may_send=wanted.yes_send)
        empty_scratch_folder(wanted.data, "load.run")
        report = _run(wanted, console)
    except (LoadRefused, NoReport, NotScratch, StackNotUp) as refused:
        print(refused, file=sys.stderr)
        return 2
    page = write_report(report, wanted.reports, partial(report_page, earlier=earlier))
    console.print(_table(report), f"SLO {report.verdict}", f"report: {page}", sep="\n", soft_wrap=True)
    return 0 if report.is_met else 1


def check_target(url: str, secrets: Path | None, *, may_send: bool) -> None:
    """
    :raises LoadRefused: it is another machine's, and nobody said that it is meant; or secrets are missing
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise LoadRefused(f"{url} is no receiver's address: write http://HOST:PORT")
    if not may_send and not _is_loopback(parts.hostname):
        raise LoadRefused(
            f"{url} isn't on this machine. What is sent is signed and booked like any other webhook: send it to a "
            "receiver for tests alone. If that is one, say YES_SEND=1 (--yes-send). Nothing was sent"
        )
    missing = [one for one in PROVIDERS if secrets is None or not (secrets / one).is_file()]
    if missing:
        raise LoadRefused(
            f"no secrets of {', '.join(missing)}: name a folder that has a file of each with SECRETS= (--secrets). "
            "Nothing was sent"
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _earlier(named: str, reports: Path) -> Report | None:
    if not named:
        return None
    return read_report(last_report(reports) if named == "last" else Path(named))


def _run(wanted: argparse.Namespace, console: Console) -> Report:
    log = wanted.data / "load.jsonl"
    if wanted.url:
        plan = Plan(wanted.url, wanted.secrets, log, wanted.rate, wanted.seconds, wanted.ui)
        sent = send(plan, console)
        return _report(plan, wanted.url, sent, [*answers(sent), NOT_LOOKED_UP], [])
    with contextlib.ExitStack() as ends:
        with console.status("starting the stack"):
            data_dir = ends.enter_context(embedded_stack(wanted.data / "stack"))
        stack = RunningStack(data_dir)
        plan = Plan(stack.endpoints["ingest"], data_dir / "secrets", log, wanted.rate, wanted.seconds, wanted.ui)
        sent = send(plan, console)
        accepted = {key for one in sent if one.is_taken for key in one.event_keys}
        with contextlib.suppress(NotInTime):  # what is missing by then is counted below
            stack.wait_until_decided(accepted, SETTLE_S)
        decided = [one for one in first_decisions(stack.journal, "payments.events") if one.decision in SUCCESS]
        effects = Counter(
            row["event_key"]
            for row in stack.rows(["event_key", "decision"])
            if row["decision"] in ("applied", "ignored")
        )
    return _report(plan, EMBEDDED, sent, [*answers(sent), *judge(accepted, decided, effects)], decided)


def send(plan: Plan, console: Console) -> list[Sent]:
    """Posts what is planned; with locust's page until a person ends it (Ctrl-C)."""
    port = free_ports(1)[0] if is_listening(UI_PORT) else UI_PORT
    console.print(f"posting {plan.rate_per_s:g} a second for {plan.seconds} s to {plan.url}", soft_wrap=True)
    if plan.with_ui:
        console.print(f"locust's page: http://{LOOPBACK}:{port}/; Ctrl-C ends the run and writes the report")
    plan.log.touch()
    environment = {**os.environ, **plan.variables}
    with subprocess.Popen(plan.command(port), env=environment, stdin=subprocess.DEVNULL) as locust:
        while locust.poll() is None:
            with contextlib.suppress(KeyboardInterrupt):  # locust hears it itself, and ends as if its time were over
                locust.wait()
    if locust.returncode:
        raise LoadRefused(f"locust ended with {locust.returncode}; it says above why")
    return read_sent(plan.log)


def answers(sent: Sequence[Sent]) -> list[Figure]:
    """Returns what the receiver's answers were. A 409 is one: the copy came while the first one was under way."""
    statuses = Counter(one.status for one in sent)
    refused = sum(count for status, count in statuses.items() if not 200 <= status < 300 and status != 409)
    shown = ", ".join(f"{status or 'none'}: {count}" for status, count in sorted(statuses.items())) or "none"
    ms = [one.ms for one in sent]
    figures = [
        Figure("webhooks posted", str(len(sent)), "> 0", bool(sent)),
        Figure("answers", shown, "2xx, or 409 for a copy", refused == 0),
    ]
    if ms:
        p50, p99, most = (percentile(ms, share) for share in (0.5, 0.99, 1.0))
        figures.append(Figure("answer P50 / P99 / max", f"{p50:.0f} / {p99:.0f} / {most:.0f} ms"))
    return figures


def judge(accepted: set[str], decided: Sequence[Decided], effects: Counter[str]) -> list[Figure]:
    """Compares what was answered with what the journal holds; ``effects``: how often each event took effect."""
    seconds = [one.seconds for one in decided]
    p50_s, p99_s = (percentile(seconds, share) if seconds else math.inf for share in (0.5, 0.99))
    in_time = sum(1 for one in seconds if one <= IN_TIME_S) / max(1, len(seconds))
    lost = sorted(accepted - effects.keys())
    doubled = sorted(key for key, count in effects.items() if count > 1)
    return [
        Figure("receipt to commit P50", f"{p50_s:.2f} s"),
        Figure("receipt to commit P99", f"{p99_s:.2f} s", f"< {SLO_P99_S:g} s", p99_s < SLO_P99_S),
        Figure(f"within {IN_TIME_S:g} s", f"{in_time:.3%}", f"≥ {SLO_SHARE:.1%}", in_time >= SLO_SHARE),
        Figure("events accepted", str(len(accepted))),
        Figure("accepted and not in the journal", _few(lost), "0", not lost),
        Figure("took effect twice", _few(doubled), "0", not doubled),
    ]


def _report(
    plan: Plan, target: str, sent: Sequence[Sent], figures: Sequence[Figure], decided: Sequence[Decided]
) -> Report:
    every_s, series = over_time(sent, decided)
    at, cores = to_rfc3339(SystemClock().now()), os.cpu_count() or 1
    return Report(at, target, plan.rate_per_s, plan.seconds, cores, tuple(figures), every_s, series)


def _table(report: Report) -> Table:
    table = Table("what", "measured", "wanted", "met", title="load")
    for one in report.figures:
        table.add_row(one.what, one.measured, one.wanted, {None: "", True: "yes", False: "NO"}[one.is_met])
    return table


def _few(keys: list[str]) -> str:
    return str(len(keys)) + (f" ({', '.join(keys[:3])})" if keys else "")


if __name__ == "__main__":
    sys.exit(main())
