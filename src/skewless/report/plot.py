"""Plots as data, and the one function that draws them; the drawing library is imported only then."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from skewless.document import write
from skewless.errors import MissingExtra

__all__ = ["COLOURS", "Line", "Panel", "Plot", "colour_of", "save_svg"]

#: A policy has one colour in all plots (Okabe and Ito's palette, and greys).
COLOURS = {
    "hash": "#999999",
    "shuffle": "#56b4e9",
    "pkg": "#0072b2",
    "potc": "#e69f00",
    "on_greedy": "#8c6d31",
    "off_greedy": "#5b8c2a",
    "d_choices": "#66c2a5",
    "w_choices": "#009e73",
    "cm": "#e69f00",
    "am": "#d55e00",
    "cam": "#cc79a7",
    "lm": "#7b4173",
    "da_greedy": "#f0a58f",
    "dalton": "#d55e00",
    "cooperative_dalton": "#a63603",
    "kip": "#cc79a7",
    "readj": "#e69f00",
    "redist": "#8c6d31",
    "scan": "#56b4e9",
    "mixed": "#7b4173",
    "prompt": "#cc79a7",
    "time_based": "#bbbbbb",
    "wrap_around": "#000000",
}
_OTHERS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7b4173", "#8c6d31"),
    *("#000000", "#999999", "#66c2a5", "#a63603", "#3b528b", "#b5cf6b"),
)
_STYLE: Any = {
    "svg.hashsalt": "skewless",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "path.simplify": True,
    "path.simplify_threshold": 0.5,
}


class Line(NamedTuple):
    """A named series."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: str = "o-"
    """As matplotlib writes it: ``"-"``, ``"o-"``, ``":"``, ``"o"`` for points alone."""
    colour: str = ""
    """Left empty: that of the policy by this name, or the next of the palette."""


class Panel(NamedTuple):
    """Lines, or with `categories` groups of bars, on one pair of axes."""

    title: str
    lines: Sequence[Line]
    x_label: str
    y_label: str = ""
    log_x: bool = False
    log_y: bool = False
    categories: Sequence[str] = ()
    """Names of the groups; ``x`` of a line then is not used."""
    level: float | None = None
    """Where a thin horizontal line is drawn."""
    from_zero: bool = False


class Plot(NamedTuple):
    """Panels side by side, with one legend."""

    panels: Sequence[Panel]
    share_y: bool = False


def colour_of(label: str, place: int) -> str:
    """Return the colour of a policy, or the one at a place in the palette.

    Examples
    --------
    >>> colour_of("wrap_around", 3), colour_of("something", 1)
    ('#000000', '#d55e00')
    """
    return COLOURS.get(label, _OTHERS[place % len(_OTHERS)])


def save_svg(plot: Plot, path: Path) -> None:
    """Write a plot; the same plot gives the same file under one version of the library.

    Raises
    ------
    MissingExtra
        matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtra("The evidence page's plots", "report", "matplotlib") from error
    with rc_context(_STYLE):
        n = len(plot.panels)
        figure = Figure(figsize=(max(5.5, 3.2 * n), 3.1), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots(1, n, squeeze=False, sharey=plot.share_y)[0]
        for panel, axis in zip(plot.panels, axes, strict=True):
            _fill(axis, panel)
        handles: dict[str, Any] = {}
        for axis in axes:
            for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        if len(handles) > 1:
            figure.legend(
                list(handles.values()),
                list(handles),
                loc="outside lower center",
                ncols=min(len(handles), 3 + 2 * n),
                frameon=False,
                fontsize=8,
            )
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    # Trailing spaces of the library's own make a diff noisy.
    write(path, "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n")


def _fill(axis: Any, panel: Panel) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    for place, line in enumerate(panel.lines):
        colour = line.colour or colour_of(line.label, place)
        if panel.categories:
            width = 0.8 / len(panel.lines)
            at = [i - 0.4 + width * (place + 0.5) for i in range(len(panel.categories))]
            axis.bar(at, line.y, width, color=colour, label=line.label)
        else:
            axis.plot(
                line.x, line.y, line.style, color=colour, label=line.label, ms=3, linewidth=1.2
            )
    if panel.categories:
        axis.set_xticks(range(len(panel.categories)), panel.categories)
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    if panel.log_x:
        axis.set_xscale("log")
        xs = sorted({x for line in panel.lines for x in line.x})
        apart = all(right >= 1.4 * left for left, right in itertools.pairwise(xs))
        if len(xs) <= 8 and apart:
            axis.set_xticks(xs)
        axis.xaxis.set_major_formatter(plain)
        axis.xaxis.set_minor_formatter(NullFormatter())
    if panel.log_y:
        axis.set_yscale("log")
        low, high = axis.get_ylim()
        if high / low < 1e4:
            axis.yaxis.set_major_formatter(plain)
            if high / low < 100:
                axis.set_yticks([t for t in _ROUND if low <= t <= high])
                axis.set_ylim(low, high)
        axis.yaxis.set_minor_formatter(NullFormatter())
    if panel.level is not None:
        axis.axhline(panel.level, color="#999999", linewidth=0.7)
    if panel.from_zero:
        axis.set_ylim(bottom=0)
    axis.minorticks_off()  # half the size of the file
    axis.set_title(panel.title, fontsize=9, loc="left")
    axis.set_xlabel(panel.x_label)
    axis.set_ylabel(panel.y_label)


_ROUND = [m * 10**e for e in range(-9, 10) for m in (1, 2, 5)]
