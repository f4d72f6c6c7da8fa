"""Plots hold whatever they are given: nothing, one point, huge and negative values, names that want to be markup."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.plots import HEIGHT, WIDTH, PlotSeries, bars_plot, steps_plot
from tests.examples import examples

T0 = datetime(2026, 1, 31, tzinfo=UTC)
HOSTILE = '"><script>alert(1)</script>&\x1b]\u202e\x00'
VALUES = st.one_of(st.integers(-(10**38), 10**38), st.floats(), st.just(0))


def parsed(plot: str) -> ElementTree.Element:
    """The SVG, after what holds for every plot: a title and a description, no style, no script, all places finite."""
    svg = ElementTree.fromstring(plot)
    assert svg.tag == "svg" and svg.get("role") == "img"
    ids = {element.get("id") for element in svg.iter()}
    assert set(svg.get("aria-labelledby", "").split()) <= ids
    for element in svg.iter():
        assert element.tag in {"svg", "title", "desc", "line", "path", "rect", "text"}
        assert "style" not in element.attrib
        for name in element.attrib.keys() & {"x", "y", "x1", "x2", "y1", "y2", "width", "height"}:
            assert math.isfinite(float(element.attrib[name])), ElementTree.tostring(element)
    return svg


def texts(svg: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in svg.iter("text")]


def rects(svg: ElementTree.Element) -> list[ElementTree.Element]:
    return list(svg.iter("rect"))


@pytest.mark.parametrize(
    "plot",
    [
        bars_plot("t", "d", []),
        steps_plot("t", "d", []),
        steps_plot("t", "d", [PlotSeries("a", [])]),
        steps_plot("t", "d", [PlotSeries("a", [(T0, math.nan), (T0, math.inf)])]),
    ],
)
def test_nothing_says_so(plot: str) -> None:
    assert texts(parsed(plot)) == ["nothing to show"]


def test_one_point_is_a_level_line() -> None:
    svg = parsed(steps_plot("Balance", "of one account", [PlotSeries("a", [(T0, 500)])]))
    [path] = svg.iter("path")
    start = re.fullmatch(r"M58 ([\d.]+)H448", path.get("d", ""))
    assert start is not None and float(start[1]) < HEIGHT


def test_a_step_goes_level_then_up_and_on_to_the_end() -> None:
    series = PlotSeries("a", [(T0, 0), (T0 + timedelta(hours=1), 10)])
    [path] = parsed(steps_plot("t", "d", [series], T0 + timedelta(hours=2))).iter("path")
    assert path.get("d") == "M58 196H253V12H448"


def test_negative_values_have_their_zero_line_between() -> None:
    svg = parsed(steps_plot("t", "d", [PlotSeries("a", [(T0, -300), (T0 + timedelta(days=1), 200)])]))
    [zero] = [line for line in svg.iter("line") if line.get("class") == "zero"]
    assert 12 < float(zero.get("y1", "0")) < 196
    assert {"-300", "0", "200"} <= set(texts(svg))


def test_bars_are_as_long_as_their_values_and_name_them() -> None:
    svg = parsed(bars_plot("t", "d", [("DirectoryDown", 3_000), ("Poison", 1_500), ("none", 0)]))
    long, half = rects(svg)
    assert float(long.get("width", "0")) == pytest.approx(2 * float(half.get("width", "0")), abs=0.2)
    assert {"DirectoryDown", "3k", "1.5k", "0"} <= set(texts(svg))


def test_a_long_name_is_cut_and_whole_in_its_title() -> None:
    name = "merchant:" + "x" * 100
    svg = parsed(bars_plot("t", "d", [(name, 1)]))
    assert texts(svg)[0].endswith("…") and len(texts(svg)[0]) < 30
    assert name in [title.text for title in svg.iter("title")]


@pytest.mark.parametrize(
    "plot",
    [
        bars_plot(HOSTILE, HOSTILE, [(HOSTILE, 1)]),
        steps_plot(HOSTILE, HOSTILE, [PlotSeries(HOSTILE, [(T0, 1)])]),
    ],
)
def test_no_name_becomes_markup(plot: str) -> None:
    parsed(plot)
    assert "<script" not in plot and "\u202e" not in plot and "\x1b" not in plot
    assert "&lt;script&gt;" in plot


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.text(max_size=5), VALUES), max_size=12))
def test_bars_hold_any_values(values: list[tuple[str, float]]) -> None:
    parsed(bars_plot("t", "d", values))


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(st.integers(0, 10**9), VALUES), max_size=9), st.booleans())
def test_steps_hold_any_values(points: list[tuple[int, float]], whole: bool) -> None:
    moments = sorted((T0 + timedelta(seconds=at), value) for at, value in points if not math.isnan(value))
    svg = parsed(steps_plot("t", "d", [PlotSeries("a", moments)], whole=whole))
    for path in svg.iter("path"):
        places = [float(place) for place in re.findall(r"-?[\d.]+", path.get("d", ""))]
        assert all(0 <= place <= WIDTH for place in places)
