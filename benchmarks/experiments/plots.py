"""The plots of the experiments: one SVG each, the same file from the same figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt
from matplotlib import rc_context
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.plots import STYLE

__all__ = ["draw_drift", "draw_limit", "draw_scale"]

FOLDER = Path(__file__).parents[2] / "docs" / "plots"
#: What is drawn in colour, in the order of the legend; all else is grey.
SHOWN = {
    "hash": "#999999",
    "shuffle": "#56b4e9",
    "pkg": "#0072b2",
    "w_choices": "#009e73",
    "dalton": "#d55e00",
    "kip": "#cc79a7",
    "wrap_around": "#000000",
}

Rows = list[dict[str, Any]]


def draw_limit(rows: Rows) -> Path:
    """Draw load over its bound against fragments above one a key, a panel for each exponent."""
    n = max(row["n_workers"] for row in rows)
    mine = [row for row in rows if row["n_workers"] == n]
    exponents = sorted({row["exponent"] for row in mine})
    return _saved("ours_limit", len(exponents), lambda axes: _limit(axes, mine, exponents, n))


def _limit(axes: Any, rows: Rows, exponents: list[float], n: int) -> None:
    for panel, exponent in zip(axes, exponents, strict=True):
        for row in (r for r in rows if r["exponent"] == exponent):
            name = row["policy"]
            panel.plot(
                row["extra"] + 1,
                row["over_bound"],
                "o" if name in SHOWN else ".",
                color=SHOWN.get(name, "#cccccc"),
                label=name if name in SHOWN else None,
            )
        panel.axhline(1.0, color="#999999", linewidth=0.8)
        panel.axvline(rows[0]["n_workers"] + 1, color="#999999", linewidth=0.8, linestyle=":")
        panel.set_xscale("log")
        _balance_axis(panel, max(r["over_bound"] for r in rows))
        panel.set_title(f"Zipf {exponent:g}, n = {n}", fontsize=9, loc="left")
        panel.set_xlabel("1 + extra fragments")
    axes[0].set_ylabel("load over its bound")
    axes[-1].legend(frameon=False, fontsize=7)


def draw_scale(rows: Rows) -> Path:
    """Draw nanoseconds a tuple against workers and against keys."""
    return _saved("ours_scale", 2, lambda axes: _scale(axes, rows))


def _scale(axes: Any, rows: Rows) -> None:
    for panel, along, held, value in (
        (axes[0], "n_workers", "n_keys", 100_000),
        (axes[1], "n_keys", "n_workers", 64),
    ):
        for name, colour in SHOWN.items():
            line = sorted(
                (r for r in rows if r["policy"] == name and r[held] == value),
                key=lambda row: row[along],
            )
            panel.plot(
                [r[along] for r in line],
                [r["ns_per_tuple"] for r in line],
                "o-",
                color=colour,
                markersize=3,
                label=name,
            )
        panel.set_xscale("log")
        panel.set_ylim(bottom=0)
        panel.set_xlabel({"n_workers": "workers", "n_keys": "keys"}[along])
    axes[0].set_ylabel("ns a tuple")
    axes[1].legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))


def draw_drift(rows: Rows) -> Path:
    """Draw the balance of each window through the changes."""
    n = max(row["n_workers"] for row in rows)
    return _saved("ours_drift", 1, lambda axes: _drift(axes[0], rows, n))


def _drift(panel: Any, rows: Rows, n: int) -> None:
    for row in rows:
        if row["n_workers"] == n and row["policy"] in SHOWN:
            panel.plot(row["series"], color=SHOWN[row["policy"]], label=row["policy"], linewidth=1)
    _balance_axis(panel, max(max(row["series"]) for row in rows))
    panel.set_xlabel("window; the hot keys are replaced every ten")
    panel.set_ylabel(f"fullest of {n} workers over the mean")
    panel.legend(frameon=False, fontsize=7, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))


def _balance_axis(panel: Any, highest: float) -> None:
    """Let all panels go from 1 to the highest load, in plain numbers."""
    panel.set_yscale("log")
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_yticks([1, 2, 5, 10, 20, 50, 100, 200, 500, 1000], minor=False)
    panel.set_ylim(0.93, 1.1 * highest)


def _saved(name: str, panels: int, fill: Callable[[Any], None]) -> Path:
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.svg"
    with rc_context(STYLE):
        figure, axes = plt.subplots(
            1, panels, figsize=(max(6, 3 * panels), 3), layout="constrained", squeeze=False
        )
        fill(axes[0])
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
    return path
