"""A load run's report as a page that needs no other file: verdict, plots, and an earlier run's beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import jinja2
from markupsafe import Markup

import console
from console.plots import PlotSeries, steps_plot
from core.clock import EPOCH
from load.report import Figure, Report

STATIC = Path(console.__file__).parent / "static"
PLOTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Arrivals", "webhooks a second: all, and those that weren't answered 2xx", ("arrivals", "refused")),
    ("Answers", "milliseconds until the receiver's answer", ("answer_ms_p50", "answer_ms_p95", "answer_ms_p99")),
    ("Decisions", "seconds from receipt to commit", ("decision_s_p50", "decision_s_p95", "decision_s_p99")),
    ("Undecided", "accepted events that weren't decided yet (lag)", ("undecided",)),
)
"""Title, what it shows, and its curves."""
NAMES = {"arrivals": "all", "refused": "not 2xx", "undecided": "undecided"}
"""A curve's name, where it isn't its percentile's."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A figure, and the earlier run's where it has one of that name."""

    figure: Figure
    before: Figure | None


def report_page(report: Report, earlier: Report | None = None) -> str:
    """The whole page as HTML."""
    template = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=jinja2.StrictUndefined
    ).get_template("report.html")
    style = "".join((STATIC / name).read_text("utf-8") for name in ("payhook.css", "pages.css"))
    return template.render(
        report=report,
        earlier=earlier,
        style=Markup(style),  # noqa: S704 - our own style sheets
        figures=compared(report, earlier),
        plots=[(title, what, _plot(title, what, names, report, earlier)) for title, what, names in PLOTS],
    )


def compared(report: Report, earlier: Report | None) -> list[Compared]:
    """Each figure of the run, beside the earlier run's."""
    before = {one.what: one for one in earlier.figures} if earlier else {}
    return [Compared(one, before.get(one.what)) for one in report.figures]


def _plot(title: str, what: str, names: Sequence[str], report: Report, earlier: Report | None) -> Markup:
    """Time is from a run's beginning, so that two runs lie over one another."""
    runs = [("", report)] if earlier is None else [("", report), ("before: ", earlier)]
    # Of an earlier run only the last curve, the slowest: more lines than that aren't read.
    curves = [
        PlotSeries(f"{prefix}{_name(name)}", _points(run, name))
        for prefix, run in runs
        for name in (names if run is report else names[-1:])
    ]
    whole = title in ("Arrivals", "Undecided")
    return steps_plot(title, what, [one for one in curves if one.points], whole=whole)


def _name(curve: str) -> str:
    return NAMES.get(curve, curve.rpartition("_")[2].upper())


def _points(run: Report, curve: str) -> list[tuple[datetime, float]]:
    values = run.series.get(curve, ())
    return [
        (EPOCH + timedelta(seconds=step * run.every_s), value) for step, value in enumerate(values) if value is not None
    ]
