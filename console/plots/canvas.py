"""The frame of every plot: its size, its title for those who can't see it, its axis of values, its legend."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from markupsafe import Markup

from console.plots.series import SERIES_MAX, Told
from core.visible import visible

WIDTH, HEIGHT = 460, 220
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 24
LABEL_CHARS_MAX = 21
LEGEND_ROW = 18
LEGEND_CHARS_MAX = 60

Element = ElementTree.Element


@dataclass(frozen=True, slots=True)
class Scale:
    """Values to places: ``low`` at ``start``, ``high`` at ``end``."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def canvas(title: str, described: str, height: float = HEIGHT) -> Element:
    """An empty plot. ``title`` names it, ``described`` says in words what it shows."""
    name = hashlib.sha256(f"{title}\0{described}".encode("utf-8", "replace")).hexdigest()[:12]
    frame = {"class": "plot", "viewBox": f"0 0 {WIDTH} {number(height)}", "role": "img"}
    plot = ElementTree.Element("svg", {**frame, "aria-labelledby": f"t{name} d{name}"})
    write(plot, "title", visible(title), id=f"t{name}")
    write(plot, "desc", visible(described), id=f"d{name}")
    return plot


def write(parent: Element, tag: str, text: str, **attributes: str) -> Element:
    """An element with a text; attributes' underscores are dashes, ``class_`` is class."""
    made = ElementTree.SubElement(
        parent, tag, {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
    )
    made.text = text
    return made


def draw(parent: Element, tag: str, **attributes: str | float) -> Element:
    """An element without a text; places are written with one decimal."""
    told = {name: value if isinstance(value, str) else number(value) for name, value in attributes.items()}
    return write(parent, tag, "", **told)


def value_axis(plot: Element, ticks: Sequence[float], scale: Scale, told: Told) -> None:
    """Lines across the plot, each with its value at the left."""
    for tick in ticks:
        y = scale.at(tick)
        draw(plot, "line", class_="zero" if tick == 0 else "grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y)
        write(plot, "text", told(tick), class_="tick end", x=number(LEFT - 6), y=number(y + 4))


def legend(plot: Element, names: Sequence[str], top: float) -> None:
    """One row a series."""
    for place, name in enumerate(names):
        y = top + place * LEGEND_ROW
        draw(plot, "rect", class_=f"s{place % SERIES_MAX + 1}", x=LEFT, y=y, width=10.0, height=10.0)
        write(plot, "text", cut(name, LEGEND_CHARS_MAX), class_="tick", x=number(LEFT + 16), y=number(y + 9))


def legend_height(names: Sequence[str]) -> float:
    return LEGEND_ROW * len(names) + 6 if names else 0.0


def nothing(plot: Element, height: float = HEIGHT) -> Markup:
    """A plot that has nothing to show says so."""
    write(plot, "text", "nothing to show", class_="tick middle", x=number(WIDTH / 2), y=number(height / 2))
    return finished(plot)


def finished(plot: Element) -> Markup:
    """As text that a template puts in as it is: every text in it was escaped as it was written."""
    return Markup(ElementTree.tostring(plot, encoding="unicode"))  # noqa: S704


def cut(text: str, chars_max: int = LABEL_CHARS_MAX) -> str:
    """A label; the whole of it belongs into a title."""
    whole = visible(text)
    return whole if len(whole) <= chars_max else f"{whole[: chars_max - 1]}…"


def number(value: float) -> str:
    """A place on the plot."""
    return f"{value:.1f}".removesuffix(".0")
