"""The page of a simulation: policies side by side, through time, worker by worker, key by key."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from skewless.report.page import heatmaps, save, show
from skewless.report.style import COLOURS
from skewless.report.text import (
    paragraphs,
    section,
    simulation_headings,
    simulation_row,
    table,
)
from skewless.simulator import Simulation
from skewless.simulator.result import Windows

__all__ = ["write"]

#: Most rows and columns of a heat map: more would be thinner than a pixel.
_MOST_PANES, _MOST_WORKERS = 300, 200
_HOT = 10


def write(
    path: Path,
    lead: str,
    found: Sequence[Simulation],
    keys: NDArray[np.uint64],
    advice: Sequence[str],
    *,
    late: bool,
) -> None:
    """Write the page.

    Parameters
    ----------
    path
        HTML file.
    lead
        What was simulated, as text.
    found
        A simulation for each policy, with its workers kept.
    keys
        Key of each tuple, uint64, (n,).
    advice
        Sentences.
    late
        Whether tuples came at a rate, so that latencies mean something.
    """
    headings = simulation_headings(late=late)
    sections = [
        section("What to do", paragraphs(advice)),
        section(
            "Side by side",
            '<p class="soft">Tuples a second that the slowest stage sustains, under the costs above.</p>',
            _throughput(found),
            table(headings, [simulation_row(one.summary(), late=late) for one in found]),
        ),
        section(
            "Load through time",
            '<p class="soft">Tuples of the fullest worker over the mean, by window: 1 is even.</p>',
            _through_time(found, lambda w: w.max_over_mean, "max/mean"),
        ),
        section(
            "States through time",
            '<p class="soft">Pairs of key and worker in a window: what is kept, shipped and merged.</p>',
            _through_time(found, lambda w: w.fragments, "states"),
        ),
    ]
    if late:
        sections.append(
            section(
                "Latency through time",
                '<p class="soft">From the end of a window until its results were out.</p>',
                _through_time(found, lambda w: w.latency_s * 1e3, "ms"),
            )
        )
    sections.append(
        section(
            "Load of each worker",
            f'<p class="soft">{html.escape(_heat_note(found[0]))}</p>',
            heatmaps(
                [(one.summary().policy, _over_mean(one)) for one in found], "load / mean", "pane"
            ),
        )
    )
    sections.append(
        section(
            "The heaviest keys, and where they went",
            '<p class="soft">Workers that had tuples of the key, and the part of them that its busiest '
            "worker had. Keys are shown by their hash.</p>",
            table(("key", "share", *(one.summary().policy for one in found)), _hot(found, keys)),
        )
    )
    save(path, "skewless: a stream simulated", lead, sections)


def _throughput(found: Sequence[Simulation]) -> str:
    names = [html.escape(one.summary().policy) for one in found]
    rates = [one.summary().throughput for one in found]
    bars = go.Bar(
        x=rates[::-1],
        y=names[::-1],
        orientation="h",
        marker_color=[_colour(i) for i in range(len(found))][::-1],
        hovertemplate="%{y}: %{x:,.0f} tuples/s<extra></extra>",
    )
    figure = go.Figure(bars)
    figure.update_layout(height=110 + 28 * len(found), xaxis_title="tuples/s", bargap=0.25)
    figure.update_yaxes(automargin=True)
    return show(figure)


def _through_time(
    found: Sequence[Simulation], value: Callable[[Windows], NDArray[np.generic]], label: str
) -> str:
    figure = go.Figure()
    for i, one in enumerate(found):
        full = one.windows.full if one.windows.full.any() else one.windows.tuples > 0
        series = value(one.windows)[full]
        name = html.escape(one.summary().policy)
        figure.add_trace(
            go.Scatter(
                x=np.arange(len(series)),
                y=series,
                name=name,
                mode="lines+markers" if len(series) < 30 else "lines",
                line={"color": _colour(i)},
                hovertemplate=f"{name}, window %{{x}}: %{{y:,.2f}}<extra></extra>",
            )
        )
    figure.update_layout(
        height=340,
        xaxis_title="window",
        yaxis_title=label,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
    )
    return show(figure)


def _colour(i: int) -> str:
    return COLOURS[i % len(COLOURS)]


def _over_mean(one: Simulation) -> NDArray[np.float64]:
    """Return load over mean, (panes, workers), thinned to what a page can show."""
    loads = one.panes.loads
    n_panes, n_workers = loads.shape
    step = -(-n_panes // _MOST_PANES)
    loads = np.add.reduceat(loads, np.arange(0, n_panes, step), axis=0)
    means = np.maximum(loads.mean(axis=1, keepdims=True), 1e-9)
    if n_workers > _MOST_WORKERS:
        heaviest = np.sort(np.argsort(-loads.sum(axis=0), kind="stable")[:_MOST_WORKERS])
        loads = loads[:, heaviest]
    shown: NDArray[np.float64] = loads / means
    return shown


def _heat_note(one: Simulation) -> str:
    n_panes, n_workers = one.panes.loads.shape
    step = -(-n_panes // _MOST_PANES)
    note = "Tuples of each worker over the mean, pane by pane."
    if step > 1:
        note = f"Tuples of each worker over the mean, {step} panes at a time."
    if n_workers > _MOST_WORKERS:
        note += f" Of {n_workers:,} workers the {_MOST_WORKERS} that had most."
    return note


def _hot(found: Sequence[Simulation], keys: NDArray[np.uint64]) -> list[list[str]]:
    values, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    heaviest = np.argsort(-counts, kind="stable")[:_HOT]
    rows = []
    for at in heaviest:
        mine = inverse == at
        row = [f"{int(values[at]):#018x}", f"{counts[at] / len(keys):.2%}"]
        for one in found:
            if one.workers is None:
                row.append("-")
                continue
            on_each = np.bincount(one.workers[mine])
            row.append(f"{int((on_each > 0).sum())} ({on_each.max() / counts[at]:.0%})")
        rows.append(row)
    return rows
