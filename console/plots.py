"""Plots as inline SVG, made on the server: no script, no style attribute, colours by the page's style sheet."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

from markupsafe import Markup

from core.visible import make_visible

SERIES_MAX = 8
"""As many colours as the style sheet has, each differs from the others by its dashes too."""

VALUE_MAX = 1e100
"""Values beyond this are no counts and no amounts: they are left out, like what is no number."""


@dataclass(frozen=True, slots=True)
class PlotSeries:
    """Holds a value that stays until the next moment. Moments ascend."""

    name: str
    points: Sequence[tuple[datetime, float]]


def is_plotted(value: float) -> bool:
    return -VALUE_MAX <= value <= VALUE_MAX


TICKS_MAX = 6
TIMES_MAX = 5
STEP_MIN = 1e-9
_HOUR, _DAY = 3_600, 86_400
_TIME_STEPS_S = (1, 5, 15, 30, 60, 300, 900, 1_800, _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR)
_DAY_STEPS = (1, 2, 7, 14, 30, 91, 182, 365, 730, 1_825, 3_650)
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def value_ticks(low: float, high: float, *, whole: bool = True) -> list[float]:
    """Lists multiples of 1, 2 or 5 times a power of ten that hold ``low`` and ``high`` between them, 0 included.

    ``whole``: no finer than 1, for what is counted.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        high = 1.0
    step = _round_step(max((high - low) / (TICKS_MAX - 1), 1.0 if whole else STEP_MIN))
    first, last = math.floor(low / step), math.ceil(high / step)
    return [number * step for number in range(first, last + 1)]


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= least * (1 - 1e-9))


def format_short(value: float) -> str:
    """Writes ``950``, ``1.2k``, ``35M``, ``-2G``."""
    size = abs(value)
    for unit, prefix in _PREFIXES:
        if size >= unit:
            return f"{_round_to_three(value / unit)}{prefix}" if size < 1_000 * unit else f"{value:.1e}"
    return _round_to_three(value)


def _round_to_three(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def time_ticks(begin: datetime, end: datetime) -> list[datetime]:
    """Finds round moments (UTC) within the span, `TIMES_MAX` at most."""
    begin, end = begin.astimezone(UTC), end.astimezone(UTC)
    span_s = (end - begin).total_seconds()
    for step_s in (*_TIME_STEPS_S, *(days * _DAY for days in _DAY_STEPS)):
        if span_s / step_s <= TIMES_MAX - 1:
            break
    first = math.ceil(begin.timestamp() / step_s)
    last = math.floor(end.timestamp() / step_s)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return [epoch + timedelta(seconds=number * step_s) for number in range(first, last + 1)][:TIMES_MAX]


def time_labels(ticks: Sequence[datetime]) -> list[str]:
    """Writes moments as short as they still differ: the time of day within two days, else the day."""
    if not ticks:
        return []
    steps = [later - earlier for earlier, later in itertools.pairwise(ticks)]
    if steps and min(steps) < timedelta(minutes=1):
        form = "%H:%M:%S"
    elif steps and min(steps) < timedelta(days=1):
        form = "%H:%M" if ticks[-1] - ticks[0] < timedelta(days=1) else "%d %b %H:%M"
    else:
        form = "%d %b" if ticks[0].year == ticks[-1].year else "%d %b %Y"
    return [tick.strftime(form).lstrip("0") if form.startswith("%d") else tick.strftime(form) for tick in ticks]


WIDTH, HEIGHT = 460, 220
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 24
LABEL_CHARS_MAX = 21
LEGEND_ROW = 18
LEGEND_CHARS_MAX = 60

Element = ElementTree.Element


@dataclass(frozen=True, slots=True)
class Scale:
    low: float
    high: float
    start: float
    end: float

    def position_of(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def make_canvas(title: str, described: str, height: float = HEIGHT, width: float = WIDTH) -> Element:
    name = hashlib.sha256(f"{title}\0{described}\0{width}".encode("utf-8", "replace")).hexdigest()[:12]
    frame = {"class": "plot", "viewBox": f"0 0 {format_place(width)} {format_place(height)}", "role": "img"}
    plot = ElementTree.Element("svg", {**frame, "aria-labelledby": f"t{name} d{name}"})
    write(plot, "title", make_visible(title), id=f"t{name}")
    write(plot, "desc", make_visible(described), id=f"d{name}")
    return plot


def write(parent: Element, tag: str, text: str, **attributes: str) -> Element:
    """Adds an element with a text; attributes' underscores are dashes, ``class_`` is class."""
    element = ElementTree.SubElement(
        parent, tag, {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    )
    element.text = text
    return element


def draw_element(parent: Element, tag: str, **attributes: str | float) -> Element:
    texts = {name: value if isinstance(value, str) else format_place(value) for name, value in attributes.items()}
    return write(parent, tag, "", **texts)


def value_axis(plot: Element, ticks: Sequence[float], scale: Scale) -> None:
    for tick in ticks:
        y = scale.position_of(tick)
        draw_element(plot, "line", class_="zero" if tick == 0 else "grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y)
        write(plot, "text", format_short(tick), class_="tick end", x=format_place(LEFT - 6), y=format_place(y + 4))


def draw_legend(plot: Element, names: Sequence[str], top: float) -> None:
    for place, name in enumerate(names):
        y = top + place * LEGEND_ROW
        draw_element(plot, "rect", class_=f"s{place % SERIES_MAX + 1}", x=LEFT, y=y, width=10.0, height=10.0)
        write(
            plot,
            "text",
            cut_label(name, LEGEND_CHARS_MAX),
            class_="tick",
            x=format_place(LEFT + 16),
            y=format_place(y + 9),
        )


def finish_empty(plot: Element, height: float = HEIGHT) -> Markup:
    write(plot, "text", "nothing to show", class_="tick middle", x=format_place(WIDTH / 2), y=format_place(height / 2))
    return finish_plot(plot)


def finish_plot(plot: Element) -> Markup:
    """Writes the plot as text that a template puts in as it is: every text in it was escaped as it was written."""
    return Markup(ElementTree.tostring(plot, encoding="unicode"))  # noqa: S704


def cut_label(text: str, chars_max: int = LABEL_CHARS_MAX) -> str:
    full_text = make_visible(text)
    return full_text if len(full_text) <= chars_max else f"{full_text[: chars_max - 1]}…"


def format_place(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


ROW, BAR = 26, 14
NAMES, VALUES = 176, 48
EMPTY_HEIGHT = 80.0


def bars_plot(title: str, described: str, values: Sequence[tuple[str, float]]) -> Markup:
    """Draws one bar a name, in the order given. What is no number is shown as such, without a bar; negative ones go
    left.
    """
    height = ROW * len(values) + 8.0 if values else EMPTY_HEIGHT
    plot = make_canvas(title, described, height)
    if not values:
        return finish_empty(plot, height)
    finite = [value for _, value in values if is_plotted(value)]
    low, high = min([0.0, *finite]), max([0.0, *finite])
    scale = Scale(low, high if high > low else low + 1.0, NAMES + 8, WIDTH - RIGHT - VALUES)
    for place, (name, value) in enumerate(values):
        middle = ROW * place + 4 + ROW / 2
        label = write(
            plot, "text", cut_label(name), class_="tick end", x=format_place(NAMES), y=format_place(middle + 4)
        )
        write(label, "title", cut_label(name, 200))
        if is_plotted(value) and value != 0:
            x, other = sorted((scale.position_of(0), scale.position_of(value)))
            draw_element(
                plot, "rect", class_="s1", x=x, y=middle - BAR / 2, width=max(other - x, 1.0), height=float(BAR)
            )
        after = scale.position_of(max(value, 0.0)) if is_plotted(value) else scale.position_of(0)
        write(plot, "text", format_short(value), class_="tick", x=format_place(after + 6), y=format_place(middle + 4))
    return finish_plot(plot)


def steps_plot(
    title: str,
    described: str,
    series: Sequence[PlotSeries],
    until: datetime | None = None,
    *,
    since: datetime | None = None,
    whole: bool = True,
) -> Markup:
    """Draws a line for each series, continued level to ``until`` (or to the last point of all).

    Values that aren't numbers are left out.

    ``since``: where the axis begins, if that is before the first point.
    ``whole``: the axis is no finer than 1.
    """
    assert len(series) <= SERIES_MAX
    shown = [PlotSeries(steps.name, [point for point in steps.points if is_plotted(point[1])]) for steps in series]
    shown = [steps for steps in shown if steps.points]
    names = [steps.name for steps in shown]
    height = HEIGHT + (LEGEND_ROW * len(names) + 6.0 if names else 0.0)
    plot = make_canvas(title, described, height)
    if not shown:
        return finish_empty(plot, height)
    values = [value for steps in shown for _, value in steps.points]
    begin = min([*(steps.points[0][0] for steps in shown), *([since] if since else [])])
    end = max([*(steps.points[-1][0] for steps in shown), *([until] if until else [])])
    end = max(end, begin + timedelta(seconds=1))
    ticks = value_ticks(min(values), max(values), whole=whole)
    across = Scale(begin.timestamp(), end.timestamp(), LEFT, WIDTH - RIGHT)
    up = Scale(ticks[0], ticks[-1], HEIGHT - BOTTOM, TOP)
    value_axis(plot, ticks, up)
    for place, steps in enumerate(shown):
        draw_element(plot, "path", class_=f"line s{place + 1}", d=_draw_path(steps, across, up, end))
    _time_axis(plot, begin, end, across)
    draw_legend(plot, names, HEIGHT + 4)
    return finish_plot(plot)


def _draw_path(steps: PlotSeries, across: Scale, up: Scale, end: datetime) -> str:
    first, *later = steps.points
    path = [f"M{format_place(across.position_of(first[0].timestamp()))} {format_place(up.position_of(first[1]))}"]
    for at, value in later:
        path.append(f"H{format_place(across.position_of(at.timestamp()))}V{format_place(up.position_of(value))}")
    path.append(f"H{format_place(across.position_of(end.timestamp()))}")
    return "".join(path)


def _time_axis(plot: Element, begin: datetime, end: datetime, across: Scale) -> None:
    ticks = time_ticks(begin, end)
    for tick, label in zip(ticks, time_labels(ticks), strict=True):
        x = across.position_of(tick.timestamp())
        draw_element(plot, "line", class_="grid", x1=x, x2=x, y1=HEIGHT - BOTTOM, y2=HEIGHT - BOTTOM + 4.0)
        anchor = "start" if x < LEFT + 20 else "end" if x > WIDTH - RIGHT - 20 else "middle"
        write(plot, "text", label, class_=f"tick {anchor}", x=format_place(x), y=format_place(HEIGHT - 6))
