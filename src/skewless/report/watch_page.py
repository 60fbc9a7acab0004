"""The page of a running query: loads of the last batches, their times, the hot keys."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from skewless.operations import BatchMetrics, Tail
from skewless.report.page import render, show
from skewless.report.text import section, table
from skewless.report.watch_text import (
    BATCH_HEADINGS,
    HOT_HEADINGS,
    batch_cells,
    hot_cells,
    lead,
    title,
)

__all__ = ["SCRIPT", "page"]

#: Where the page loads the plotting library from.
SCRIPT = "/plotly.js"

#: Batches in the charts, and in the table.
_CHARTED, _LISTED = 100, 20


def page(tail: Tail, now_s: float, refresh_s: int) -> str:
    """Return the page of what was read so far.

    Parameters
    ----------
    tail
        The metrics file, read up to now.
    now_s
        The time now, seconds since 1970.
    refresh_s
        Seconds after which a browser asks again.
    """
    batches = list(tail.batches)[-_CHARTED:]
    sections = []
    if batches:
        last = batches[-1]
        newest = [batch_cells(one) for one in reversed(batches[-_LISTED:])]
        sections = [
            section("Rows of each worker over the mean", _loads(batches)),
            section("Balance and time", _lines(batches)),
            section(
                f"The heaviest keys of batch {last.batch}", table(HOT_HEADINGS, hot_cells(last))
            ),
            section("The last batches", table(BATCH_HEADINGS, newest)),
        ]
    script = f'<script src="{SCRIPT}"></script>'
    return render(title(tail), lead(tail, now_s), sections, script=script, refresh_s=refresh_s)


def _loads(batches: Sequence[BatchMetrics]) -> str:
    """Return a heat map, a row per worker; batches stand side by side in the order of writing."""
    n_workers = max(one.workers for one in batches)
    columns = []
    for one in batches:
        mean = one.rows / (one.active or one.workers)
        loads = [load / mean if mean else 0.0 for load in one.loads]
        columns.append(loads + [None] * (n_workers - one.workers))
    top = max(2.0, *(one.max_over_mean for one in batches))
    figure = go.Figure(
        go.Heatmap(
            z=[[column[worker] for column in columns] for worker in range(n_workers)],
            x=list(range(len(batches))),
            zmin=0,
            zmax=top,
            colorscale=[[0, "#2b6cb0"], [1 / top, "#f4f1ea"], [2 / top, "#d9572b"], [1, "#6b1d1d"]]
            if top > 2
            else [[0, "#2b6cb0"], [0.5, "#f4f1ea"], [1, "#d9572b"]],
            colorbar={"title": "load / mean"},
            customdata=[[one.batch for one in batches]] * n_workers,
            hovertemplate="batch %{customdata}, worker %{y}: %{z:.2f} x mean<extra></extra>",
        )
    )
    _number_batches(figure, batches)
    figure.update_yaxes(title_text="worker")
    figure.update_layout(height=140 + min(400, 14 * n_workers))
    return show(figure)


def _lines(batches: Sequence[BatchMetrics]) -> str:
    """Return max/mean, and what batches took of their interval."""
    at = list(range(len(batches)))
    figure = go.Figure(
        [
            go.Scatter(
                x=at,
                y=[one.max_over_mean for one in batches],
                name="max/mean",
                line={"color": "#d9572b"},
            ),
            go.Scatter(
                x=at,
                y=[one.timing.seconds for one in batches],
                name="batch, s",
                yaxis="y2",
                line={"color": "#2b6cb0"},
            ),
            go.Scatter(
                x=at,
                y=[one.interval_s for one in batches],
                name="interval, s",
                yaxis="y2",
                line={"color": "#7a869a", "dash": "dot"},
            ),
        ]
    )
    _number_batches(figure, batches)
    figure.update_layout(
        height=280,
        yaxis={"title": "max/mean", "rangemode": "tozero"},
        yaxis2={"title": "seconds", "overlaying": "y", "side": "right", "rangemode": "tozero"},
        legend={"orientation": "h", "y": 1.15},
    )
    return show(figure)


def _number_batches(figure: go.Figure, batches: Sequence[BatchMetrics]) -> None:
    step = max(1, len(batches) // 10)
    at = list(range(0, len(batches), step))
    figure.update_xaxes(
        title_text="micro-batch", tickvals=at, ticktext=[str(batches[i].batch) for i in at]
    )
