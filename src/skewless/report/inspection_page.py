"""The page of an inspection: the heaviest keys against a fair share, the policies, the advice."""

from __future__ import annotations

import html
from pathlib import Path

import plotly.graph_objects as go

from skewless.report.page import save, show
from skewless.report.text import (
    HOT_HEADINGS,
    OUTCOME_HEADINGS,
    Inspected,
    paragraphs,
    section,
    table,
)

__all__ = ["write"]


def write(path: Path, found: Inspected) -> None:
    """Write the page of an inspection to an HTML file."""
    rows = found.hot_rows(20)
    sections = [
        section("What to do", paragraphs(found.recommendation())),
        section("The heaviest keys", _chart(rows, found.workers), table(HOT_HEADINGS, rows)),
        section(
            "What each policy would do",
            '<p class="soft">Seconds of the slowest worker under the cost model, measured on the '
            "machine that made this page: compare them with each other.</p>",
            table(OUTCOME_HEADINGS, found.outcome_rows()),
        ),
    ]
    if found.spark:
        sections.append(section("What Spark does by itself", paragraphs(found.spark)))
    title = f"skewless: the keys of {', '.join(found.columns)}"
    save(path, title, f"{found.lead()}.", sections)


def _chart(rows: list[list[str]], workers: int) -> str:
    """Return bars of the keys' fair shares, and the line above which a key needs splitting."""
    fair = [float(row[3]) for row in rows]
    # Labels are numbered: plotly would put two keys that read alike on one bar.
    labels = [f"{i}. {html.escape(row[0][:30])}" for i, row in enumerate(rows, start=1)]
    colours = ["#d9572b" if value > 1 else "#2b6cb0" for value in fair]
    figure = go.Figure(
        go.Bar(
            x=fair[::-1],
            y=labels[::-1],
            orientation="h",
            marker_color=colours[::-1],
            hovertemplate="%{y}: %{x:.2f} fair shares<extra></extra>",
        )
    )
    figure.add_vline(x=1, line_dash="dash", line_color="#7a869a")
    figure.update_layout(
        height=110 + 24 * max(1, len(rows)),
        xaxis_title=f"fair shares of {workers} workers (1 = as much as a worker should have)",
        bargap=0.25,
    )
    figure.update_yaxes(automargin=True)
    return show(figure)
