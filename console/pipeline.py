"""The picture of the pipeline as inline SVG: a box for each part, and arrows between them with their rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from console.plots import Element, cut_label, draw_element, finish_plot, format_place, make_canvas, write

BOX_WIDTH, BOX_HEIGHT = 116, 46
BESIDE, BELOW = 74, 54
"""Between two boxes of a row, and of a column."""


@dataclass(frozen=True, slots=True)
class Box:
    name: str
    state: str
    is_bad: bool = False


@dataclass(frozen=True, slots=True)
class Arrow:
    source: str
    target: str
    label: str


@dataclass(frozen=True, slots=True)
class Grid:
    places: Mapping[str, tuple[int, int]]
    from_above: bool = False

    @property
    def width(self) -> float:
        columns = 1 + max(column for column, _ in self.places.values())
        return self._left_edge + columns * (BOX_WIDTH + BESIDE) - BESIDE + 4

    @property
    def height(self) -> float:
        rows = 1 + max(row for _, row in self.places.values())
        return self._top_edge + rows * (BOX_HEIGHT + BELOW) - BELOW + 4

    def corner_of(self, key: str) -> tuple[float, float]:
        column, row = self.places[key]
        return float(self._left_edge + column * (BOX_WIDTH + BESIDE)), float(
            self._top_edge + row * (BOX_HEIGHT + BELOW)
        )

    def source(self, arrow: Arrow) -> tuple[float, float]:
        if arrow.source:
            return self.corner_of(arrow.source)
        x, y = self.corner_of(arrow.target)
        return (x, y - BOX_HEIGHT - BELOW) if self.from_above else (x - BOX_WIDTH - BESIDE, y)

    @property
    def _left_edge(self) -> int:
        return 2 if self.from_above else BESIDE

    @property
    def _top_edge(self) -> int:
        return BELOW if self.from_above else 2


WIDE = Grid(
    {
        **{name: (column, 0) for column, name in enumerate(("receiver", "kafka", "processor", "ledger"))},
        "dlq": (2, 1),
        "notify": (3, 1),
    }
)
TALL = Grid(
    {
        **{name: (0, row) for row, name in enumerate(("receiver", "kafka", "processor", "ledger"))},
        "dlq": (1, 2),
        "notify": (1, 3),
    },
    from_above=True,
)
"""For a narrow window: each box as large as in a wide one."""


def pipeline_plot(
    title: str, described: str, boxes: Mapping[str, Box], arrows: Sequence[Arrow], grid: Grid = WIDE
) -> Markup:
    plot = make_canvas(title, described, grid.height, grid.width)
    for key, box in boxes.items():
        x, y = grid.corner_of(key)
        shape = "box bad" if box.is_bad else "box" if box.state or key == "ledger" else "box unknown"
        draw_element(plot, "rect", class_=shape, x=x, y=y, width=float(BOX_WIDTH), height=float(BOX_HEIGHT), rx=8.0)
        middle = x + BOX_WIDTH / 2
        name_y = y + (19 if box.state else 28)
        write(plot, "text", cut_label(box.name), class_="name middle", x=format_place(middle), y=format_place(name_y))
        if box.state:
            write(
                plot, "text", cut_label(box.state), class_="tick middle", x=format_place(middle), y=format_place(y + 36)
            )
    for arrow in arrows:
        _draw_arrow(plot, arrow, grid)
    return finish_plot(plot)


def _draw_arrow(plot: Element, arrow: Arrow, grid: Grid) -> None:
    (from_x, from_y), (to_x, to_y) = grid.source(arrow), grid.corner_of(arrow.target)
    if from_y == to_y:
        y, begin, end = to_y + BOX_HEIGHT / 2, from_x + BOX_WIDTH + 4, to_x - 4
        draw_element(
            plot,
            "path",
            class_="arrow",
            d=f"M{format_place(begin)} {format_place(y)}H{format_place(end)}m-7 -5l7 5l-7 5",
        )
        write(plot, "text", arrow.label, class_="tick middle", x=format_place((begin + end) / 2), y=format_place(y - 8))
        return
    x, begin, end = to_x + BOX_WIDTH / 2, from_y + BOX_HEIGHT + 4, to_y - 4
    draw_element(
        plot, "path", class_="arrow", d=f"M{format_place(x)} {format_place(begin)}V{format_place(end)}m-5 -7l5 7l5 -7"
    )
    write(plot, "text", arrow.label, class_="tick", x=format_place(x + 8), y=format_place((begin + end) / 2 + 4))
