"""Columns over time, one above the other where there are several series."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

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
from console.plots.series import SERIES_MAX, Series, Told, is_plotted
from console.plots.ticks import short, time_labels, time_ticks, value_ticks

GAP = 0.2
"""Of a column's share of the axis."""


def columns_plot(
    title: str, described: str, bins: Sequence[datetime], series: Sequence[Series], told: Told = short
) -> Markup:
    """A column for each bin of time, all bins of one length, ``bins`` their beginnings in order.

    Negative values and what is no number count as nothing: counts have none.
    """
    assert len(series) <= SERIES_MAX
    names = [one.name for one in series] if len(series) > 1 else []
    height = HEIGHT + legend_height(names)
    plot = canvas(title, described, height)
    stacks = [[_counted(one.values[place]) for one in series] for place in range(len(bins))]
    if not stacks or not series:
        return nothing(plot, height)
    ticks = value_ticks(0, max(sum(stack) for stack in stacks))
    scale = Scale(ticks[0], ticks[-1], HEIGHT - BOTTOM, TOP)
    value_axis(plot, ticks, scale, told)
    share = (WIDTH - LEFT - RIGHT) / len(stacks)
    for place, stack in enumerate(stacks):
        _column(plot, scale, LEFT + share * place, share, stack)
    _time_axis(plot, bins, share)
    legend(plot, names, HEIGHT + 4)
    return finished(plot)


def _column(plot: Element, scale: Scale, x: float, share: float, stack: Sequence[float]) -> None:
    below = 0.0
    for place, value in enumerate(stack):
        if value > 0:
            top, bottom = scale.at(below + value), scale.at(below)
            width = share * (1 - GAP)
            draw(plot, "rect", class_=f"s{place + 1}", x=x + share * GAP / 2, y=top, width=width, height=bottom - top)
        below += value


def _time_axis(plot: Element, bins: Sequence[datetime], share: float) -> None:
    ticks = time_ticks(bins[0], bins[-1])
    length_s = (bins[-1] - bins[0]).total_seconds() / (len(bins) - 1) if len(bins) > 1 else 1.0
    for tick, label in zip(ticks, time_labels(ticks), strict=True):
        x = LEFT + share * ((tick - bins[0]).total_seconds() / length_s)
        write(plot, "text", label, class_="tick middle", x=number(x + share / 2), y=number(HEIGHT - 6))


def _counted(value: float) -> float:
    return value if is_plotted(value) and value > 0 else 0.0
