"""The plots of the documentation: one SVG a policy, the same file from the same figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

__all__ = ["draw"]

#: What every policy is seen against: no splitting, and nothing but splitting.
REFERENCES = {"hash": ":", "shuffle": "--"}
COLOURS = {8: "#0072b2", 64: "#d55e00"}
PANELS = {
    "max_over_mean": "load: fullest worker over the mean",
    "fragments_per_key": "fragments a key, in a window",
}
STYLE = {
    "svg.hashsalt": "skewless",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(rows: list[dict[str, Any]], folder: Path) -> Iterator[Path]:
    """Write a plot for each policy in `rows` and yield its path.

    Parameters
    ----------
    rows
        Figures of `benchmarks.kernels.skew`.
    folder
        Where the files ``<policy>.svg`` go; made if it is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for policy in dict.fromkeys(row["policy"] for row in rows):
        path = folder / f"{policy}.svg"
        with mpl.rc_context(STYLE):
            figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
            for panel, (measure, title) in zip(axes, PANELS.items(), strict=True):
                _panel(panel, rows, policy, measure)
                panel.set_title(title, fontsize=9, loc="left")
            axes[0].legend(frameon=False, fontsize=8, loc="upper left")
            figure.savefig(path, metadata={"Date": None})
            plt.close(figure)
        yield path


def _panel(panel: Axes, rows: list[dict[str, Any]], policy: str, measure: str) -> None:
    for n_workers, colour in COLOURS.items():
        for reference, style in REFERENCES.items():
            if reference != policy:
                line = _line(rows, reference, n_workers)
                label = f"{reference}, n = {n_workers}"
                panel.plot(
                    [r["exponent"] for r in line],
                    [r[measure] for r in line],
                    style,
                    color=colour,
                    alpha=0.45,
                    linewidth=1,
                    label=label,
                )
        line = _line(rows, policy, n_workers)
        exponents = [r["exponent"] for r in line]
        low, high = zip(*(r[f"{measure}_range"] for r in line), strict=True)
        panel.fill_between(exponents, low, high, color=colour, alpha=0.2, linewidth=0)
        panel.plot(
            exponents,
            [r[measure] for r in line],
            "o-",
            color=colour,
            markersize=3,
            label=f"{policy}, n = {n_workers}",
        )
    panel.set_yscale("log")
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_yticks([1, 2, 5, 10, 20, 50], minor=False)
    panel.set_ylim(0.93, 60)
    panel.set_xlabel("Zipf exponent of the stream")


def _line(rows: list[dict[str, Any]], policy: str, n_workers: int) -> list[dict[str, Any]]:
    found = [r for r in rows if r["policy"] == policy and r["n_workers"] == n_workers]
    return sorted(found, key=lambda row: row["exponent"])
