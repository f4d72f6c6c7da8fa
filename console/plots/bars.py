"""Bars beside each other's names, the longest first as they come."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from console.plots.canvas import RIGHT, WIDTH, Scale, canvas, cut, draw, finished, nothing, number, write
from console.plots.series import Told, is_plotted
from console.plots.ticks import short

ROW, BAR = 26, 14
NAMES, VALUES = 176, 48
EMPTY_HEIGHT = 80.0


def bars_plot(title: str, described: str, values: Sequence[tuple[str, float]], told: Told = short) -> Markup:
    """One bar a name, in the order given. What is no number is shown as such, without a bar; negative ones go left."""
    height = ROW * len(values) + 8.0 if values else EMPTY_HEIGHT
    plot = canvas(title, described, height)
    if not values:
        return nothing(plot, height)
    finite = [value for _, value in values if is_plotted(value)]
    low, high = min([0.0, *finite]), max([0.0, *finite])
    scale = Scale(low, high if high > low else low + 1.0, NAMES + 8, WIDTH - RIGHT - VALUES)
    for place, (name, value) in enumerate(values):
        middle = ROW * place + 4 + ROW / 2
        label = write(plot, "text", cut(name), class_="tick end", x=number(NAMES), y=number(middle + 4))
        write(label, "title", cut(name, 200))
        if is_plotted(value) and value != 0:
            x, other = sorted((scale.at(0), scale.at(value)))
            draw(plot, "rect", class_="s1", x=x, y=middle - BAR / 2, width=max(other - x, 1.0), height=float(BAR))
        after = scale.at(max(value, 0.0)) if is_plotted(value) else scale.at(0)
        write(plot, "text", told(value), class_="tick", x=number(after + 6), y=number(middle + 4))
    return finished(plot)
