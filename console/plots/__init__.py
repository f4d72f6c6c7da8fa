"""Plots as inline SVG, made on the server: no script, no style attribute, colours by the page's style sheet."""

from console.plots.bars import bars_plot
from console.plots.series import Steps
from console.plots.steps import steps_plot

__all__ = ["Steps", "bars_plot", "steps_plot"]
