"""Values that stay until they change: balances, depths."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from markupsafe import Markup

from console.plots.canvas import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Element,
    Scale,
    canvas,
    draw,
    finished,
    legend,
    legend_height,
    nothing,
    number,
    value_axis,
    write,
)
from console.plots.series import SERIES_MAX, Steps, Told, is_plotted
from console.plots.ticks import short, time_labels, time_ticks, value_ticks


def steps_plot(
    title: str,
    described: str,
    series: Sequence[Steps],
    until: datetime | None = None,
    told: Told = short,
    *,
    whole: bool = True,
) -> Markup:
    """A line for each series, going on level to ``until`` (or to the last point of all). What is no number is left out.

    ``whole``: the axis is no finer than 1.
    """
    assert len(series) <= SERIES_MAX
    shown = [Steps(one.name, [point for point in one.points if is_plotted(point[1])]) for one in series]
    shown = [one for one in shown if one.points]
    names = [one.name for one in shown]
    height = HEIGHT + legend_height(names)
    plot = canvas(title, described, height)
    if not shown:
        return nothing(plot, height)
    values = [value for one in shown for _, value in one.points]
    begin = min(one.points[0][0] for one in shown)
    end = max([*(one.points[-1][0] for one in shown), *([until] if until else [])])
    end = max(end, begin + timedelta(seconds=1))
    ticks = value_ticks(min(values), max(values), whole=whole)
    across = Scale(begin.timestamp(), end.timestamp(), LEFT, WIDTH - RIGHT)
    up = Scale(ticks[0], ticks[-1], HEIGHT - BOTTOM, TOP)
    value_axis(plot, ticks, up, told)
    for place, one in enumerate(shown):
        draw(plot, "path", class_=f"line s{place + 1}", d=_path(one, across, up, end))
    _time_axis(plot, begin, end, across)
    legend(plot, names, HEIGHT + 4)
    return finished(plot)


def _path(one: Steps, across: Scale, up: Scale, end: datetime) -> str:
    first, *others = one.points
    path = [f"M{number(across.at(first[0].timestamp()))} {number(up.at(first[1]))}"]
    for at, value in others:
        path.append(f"H{number(across.at(at.timestamp()))}V{number(up.at(value))}")
    path.append(f"H{number(across.at(end.timestamp()))}")
    return "".join(path)


def _time_axis(plot: Element, begin: datetime, end: datetime, across: Scale) -> None:
    ticks = time_ticks(begin, end)
    for tick, label in zip(ticks, time_labels(ticks), strict=True):
        x = across.at(tick.timestamp())
        draw(plot, "line", class_="grid", x1=x, x2=x, y1=HEIGHT - BOTTOM, y2=HEIGHT - BOTTOM + 4.0)
        anchor = "start" if x < LEFT + 20 else "end" if x > WIDTH - RIGHT - 20 else "middle"
        write(plot, "text", label, class_=f"tick {anchor}", x=number(x), y=number(HEIGHT - 6))
