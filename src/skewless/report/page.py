"""The frame of a report: one HTML file, readable on a laptop and a phone, in light and dark."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skewless.document import write
from skewless.errors import MissingExtra
from skewless.report.style import COLOURS, STYLE

try:
    import plotly.graph_objects as go
    from plotly.offline import get_plotlyjs
    from plotly.subplots import make_subplots
except ModuleNotFoundError as error:
    raise MissingExtra("The HTML report", "report", "plotly") from error

__all__ = ["curves", "heatmaps", "library", "render", "save", "show"]


def heatmaps(
    panels: Sequence[tuple[str, NDArray[np.float64]]], label: str, step: str = "micro-batch"
) -> str:
    """Return small multiples, one heat map per panel, on one colour scale centred on 1.

    Parameters
    ----------
    panels
        (title, values of shape (n_batches, n_workers)): load of each worker over the mean.
    label
        What a cell shows, for the colour bar.
    step
        What a column is.
    """
    top = max(2.0, *(float(values.max()) for _, values in panels))
    figure = make_subplots(
        rows=len(panels),
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.28 / (2 * len(panels)),
        subplot_titles=[html.escape(title) for title, _ in panels],
    )
    for row, (_, values) in enumerate(panels, start=1):
        figure.add_trace(
            go.Heatmap(
                z=values.T,
                coloraxis="coloraxis",
                hovertemplate=f"{step} %{{x}}, worker %{{y}}: %{{z:.2f}} x mean<extra></extra>",
            ),
            row=row,
            col=1,
        )
        figure.update_yaxes(title_text="worker", row=row, col=1)
    whole = {"dtick": 1} if max(len(values) for _, values in panels) <= 30 else {}
    figure.update_xaxes(title_text=step, **whole, row=len(panels), col=1)
    scale = [[0, "#2b6cb0"], [1 / top, "#f4f1ea"], [min(1, 2 / top), "#d9572b"], [1, "#6b1d1d"]]
    if top <= 2:
        scale = [[0, "#2b6cb0"], [0.5, "#f4f1ea"], [1, "#d9572b"]]
    figure.update_layout(
        height=90 + 170 * len(panels),
        coloraxis={"cmin": 0, "cmax": top, "colorscale": scale, "colorbar": {"title": label}},
    )
    return show(figure)


def curves(
    panels: Sequence[tuple[str, Sequence[tuple[str, Sequence[float]]]]], step: str = "micro-batch"
) -> str:
    """Return line plots one above the other, over the same steps.

    Parameters
    ----------
    panels
        (label of the axis, its curves): each a name and one value per step.
    step
        What a step is.
    """
    figure = make_subplots(rows=len(panels), cols=1, shared_xaxes=True, vertical_spacing=0.09)
    colours = iter(COLOURS)
    for row, (label, lines) in enumerate(panels, start=1):
        for name, values in lines:
            figure.add_trace(
                go.Scatter(
                    x=list(range(len(values))),
                    y=list(values),
                    name=html.escape(name),
                    mode="lines",
                    line={"color": next(colours), "shape": "hv"},
                    hovertemplate=f"{html.escape(name)}, {step} %{{x}}: %{{y:.2f}}<extra></extra>",
                ),
                row=row,
                col=1,
            )
        figure.update_yaxes(title_text=label, rangemode="tozero", row=row, col=1)
    figure.update_xaxes(title_text=step, row=len(panels), col=1)
    figure.update_layout(
        height=120 + 170 * len(panels),
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
    )
    return show(figure)


def show(figure: go.Figure) -> str:
    """Return a figure as HTML that is readable on light and dark paper; `save` brings the library."""
    figure.update_layout(
        margin={"l": 60, "r": 10, "t": 40, "b": 50},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": "#7a869a", "family": "system-ui, sans-serif"},
    )
    faint = "rgba(122,134,154,0.25)"
    figure.update_xaxes(gridcolor=faint, zerolinecolor=faint)
    figure.update_yaxes(gridcolor=faint, zerolinecolor=faint)
    # The bar of buttons would lie on the legend of a phone, and a drag zooms without it.
    config = {"responsive": True, "displayModeBar": False}
    return str(figure.to_html(full_html=False, include_plotlyjs=False, config=config))


def save(path: Path, title: str, lead: str, sections: Sequence[str]) -> None:
    """Write the page, with the plotting library inside; `lead` is text, `sections` are HTML."""
    write(path, render(title, lead, sections, script=f"<script>{get_plotlyjs()}</script>"))


def render(
    title: str, lead: str, sections: Sequence[str], *, script: str, refresh_s: int | None = None
) -> str:
    """Return the page as text.

    Parameters
    ----------
    title, lead
        Text.
    sections
        HTML.
    script
        HTML that brings the plotting library.
    refresh_s
        Seconds after which a browser loads the page again; ``None`` for never.
    """
    name = html.escape(title)
    again = "" if refresh_s is None else f'<meta http-equiv="refresh" content="{refresh_s}">'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">{again}'
        f"<style>{STYLE}</style>{script}</head><body>"
        f"<h1>{name}</h1><p>{html.escape(lead)}</p>{''.join(sections)}</body></html>"
    )


def library() -> bytes:
    """Return the plotting library's script, for pages that load it from the address they come from."""
    return str(get_plotlyjs()).encode()
