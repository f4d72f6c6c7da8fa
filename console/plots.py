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

from core.visible import visible

SERIES_MAX = 8
"""As many colours as the style sheet has, each differs from the others by its dashes too."""

VALUE_MAX = 1e100
"""What is beyond it is no count and no amount: it is left out, like what is no number."""


@dataclass(frozen=True, slots=True)
class Steps:
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
    """Ascending multiples of 1, 2 or 5 times a power of ten that hold ``low`` and ``high`` between them, 0 included.

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


def short(value: float) -> str:
    """Writes ``950``, ``1.2k``, ``35M``, ``-2G``."""
    size = abs(value)
    for unit, prefix in _PREFIXES:
        if size >= unit:
            return f"{_three(value / unit)}{prefix}" if size < 1_000 * unit else f"{value:.1e}"
    return _three(value)


def _three(value: float) -> str:
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
    """Maps values to places: ``low`` at ``start``, ``high`` at ``end``."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def canvas(title: str, described: str, height: float = HEIGHT, width: float = WIDTH) -> Element:
    """Makes an empty plot. ``title`` names it, ``described`` says in words what it shows."""
    name = hashlib.sha256(f"{title}\0{described}\0{width}".encode("utf-8", "replace")).hexdigest()[:12]
    frame = {"class": "plot", "viewBox": f"0 0 {number(width)} {number(height)}", "role": "img"}
    plot = ElementTree.Element("svg", {**frame, "aria-labelledby": f"t{name} d{name}"})
    write(plot, "title", visible(title), id=f"t{name}")
    write(plot, "desc", visible(described), id=f"d{name}")
    return plot


def write(parent: Element, tag: str, text: str, **attributes: str) -> Element:
    """Adds an element with a text; attributes' underscores are dashes, ``class_`` is class."""
    element = ElementTree.SubElement(
        parent, tag, {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    )
    element.text = text
    return element


def draw(parent: Element, tag: str, **attributes: str | float) -> Element:
    """Adds an element without a text; places are written with one decimal."""
    texts = {name: value if isinstance(value, str) else number(value) for name, value in attributes.items()}
    return write(parent, tag, "", **texts)


def value_axis(plot: Element, ticks: Sequence[float], scale: Scale) -> None:
    """Draws lines across the plot, each with its value at the left."""
    for tick in ticks:
        y = scale.at(tick)
        draw(plot, "line", class_="zero" if tick == 0 else "grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y)
        write(plot, "text", short(tick), class_="tick end", x=number(LEFT - 6), y=number(y + 4))


def legend(plot: Element, names: Sequence[str], top: float) -> None:
    for place, name in enumerate(names):
        y = top + place * LEGEND_ROW
        draw(plot, "rect", class_=f"s{place % SERIES_MAX + 1}", x=LEFT, y=y, width=10.0, height=10.0)
        write(plot, "text", cut(name, LEGEND_CHARS_MAX), class_="tick", x=number(LEFT + 16), y=number(y + 9))


def nothing(plot: Element, height: float = HEIGHT) -> Markup:
    write(plot, "text", "nothing to show", class_="tick middle", x=number(WIDTH / 2), y=number(height / 2))
    return finished(plot)


def finished(plot: Element) -> Markup:
    """Writes the plot as text that a template puts in as it is: every text in it was escaped as it was written."""
    return Markup(ElementTree.tostring(plot, encoding="unicode"))  # noqa: S704


def cut(text: str, chars_max: int = LABEL_CHARS_MAX) -> str:
    full_text = visible(text)
    return full_text if len(full_text) <= chars_max else f"{full_text[: chars_max - 1]}…"


def number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


ROW, BAR = 26, 14
NAMES, VALUES = 176, 48
EMPTY_HEIGHT = 80.0


def bars_plot(title: str, described: str, values: Sequence[tuple[str, float]]) -> Markup:
    """Draws one bar a name, in the order given. What is no number is shown as such, without a bar; negative ones go
    left.
    """
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
        write(plot, "text", short(value), class_="tick", x=number(after + 6), y=number(middle + 4))
    return finished(plot)


def steps_plot(
    title: str,
    described: str,
    series: Sequence[Steps],
    until: datetime | None = None,
    *,
    since: datetime | None = None,
    whole: bool = True,
) -> Markup:
    """A line for each series, going on level to ``until`` (or to the last point of all). What is no number is left out.

    ``since``: where the axis begins, if that is before the first point.
    ``whole``: the axis is no finer than 1.
    """
    assert len(series) <= SERIES_MAX
    shown = [Steps(steps.name, [point for point in steps.points if is_plotted(point[1])]) for steps in series]
    shown = [steps for steps in shown if steps.points]
    names = [steps.name for steps in shown]
    height = HEIGHT + (LEGEND_ROW * len(names) + 6.0 if names else 0.0)
    plot = canvas(title, described, height)
    if not shown:
        return nothing(plot, height)
    values = [value for steps in shown for _, value in steps.points]
    begin = min([*(steps.points[0][0] for steps in shown), *([since] if since else [])])
    end = max([*(steps.points[-1][0] for steps in shown), *([until] if until else [])])
    end = max(end, begin + timedelta(seconds=1))
    ticks = value_ticks(min(values), max(values), whole=whole)
    across = Scale(begin.timestamp(), end.timestamp(), LEFT, WIDTH - RIGHT)
    up = Scale(ticks[0], ticks[-1], HEIGHT - BOTTOM, TOP)
    value_axis(plot, ticks, up)
    for place, steps in enumerate(shown):
        draw(plot, "path", class_=f"line s{place + 1}", d=_path(steps, across, up, end))
    _time_axis(plot, begin, end, across)
    legend(plot, names, HEIGHT + 4)
    return finished(plot)


def _path(steps: Steps, across: Scale, up: Scale, end: datetime) -> str:
    first, *later = steps.points
    path = [f"M{number(across.at(first[0].timestamp()))} {number(up.at(first[1]))}"]
    for at, value in later:
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
