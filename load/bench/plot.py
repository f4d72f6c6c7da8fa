"""Lines over time as an SVG picture, drawn by hand: no library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 50, 60
COLOURS = ("#0b6e4f", "#b3261e", "#5b5b5b", "#7a4fbf", "#b06f00")
FONT = 'font-family="sans-serif" font-size="13"'
STEPS = 5


def write_lines(path: Path, title: str, x_name: str, y_name: str, lines: Mapping[str, Sequence[float]]) -> None:
    """Writes a chart of lines that have one value a unit of x, from 0 on."""
    x_max = max(1, max(len(values) for values in lines.values()) - 1)
    y_max = max(max(values, default=0.0) for values in lines.values()) * 1.1 or 1.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="15">{escape(title)}</text>',
        *_axes(x_max, y_max, x_name, y_name),
    ]
    for number, (name, values) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(f"{_x(at, x_max):.1f},{_y(value, y_max):.1f}" for at, value in enumerate(values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{LEFT + 10 + number * 190}" y="42" fill="{colour}">{escape(name)}</text>')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>"]), "utf-8")


def _axes(x_max: float, y_max: float, x_name: str, y_name: str) -> list[str]:
    parts = []
    for step in range(STEPS + 1):
        x, y = x_max * step / STEPS, y_max * step / STEPS
        at_x, at_y = _x(x, x_max), _y(y, y_max)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at_y:.1f}" y2="{at_y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at_y + 4:.1f}" text-anchor="end">{y:.0f}</text>')
        parts.append(f'<text x="{at_x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{x:.0f}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 15}" text-anchor="middle">{escape(x_name)}</text>'
    )
    parts.append(
        f'<text x="18" y="{middle}" text-anchor="middle" transform="rotate(-90 18 {middle})">{escape(y_name)}</text>'
    )
    return parts


def _x(value: float, most: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * value / most


def _y(value: float, most: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / most
