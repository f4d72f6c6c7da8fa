"""Plots as inline SVG, made on the server: no script, no style attribute, colours by the page's style sheet."""

from console.plots.bars import bars_plot
from console.plots.columns import columns_plot
from console.plots.series import Series, Steps
from console.plots.steps import steps_plot

__all__ = ["Series", "Steps", "bars_plot", "columns_plot", "steps_plot"]
