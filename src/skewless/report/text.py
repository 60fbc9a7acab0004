"""Pieces of HTML that need no plotting library: headings, tables, and an inspection in a notebook."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from skewless.simulator import Summary

__all__ = [
    "Inspected",
    "aligned",
    "fragment",
    "paragraphs",
    "section",
    "simulation_headings",
    "simulation_row",
    "table",
]


class Inspected(Protocol):
    """What a page needs of an inspection."""

    @property
    def verb(self) -> str:
        """Return the name of what made it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the key columns."""

    @property
    def workers(self) -> int:
        """Return the number of workers."""

    @property
    def spark(self) -> list[str]:
        """Return what Spark does by itself."""

    def lead(self) -> str:
        """Return what was counted."""

    def recommendation(self) -> list[str]:
        """Return the advice."""

    def hot_rows(self, limit: int = 20) -> list[list[str]]:
        """Return the heaviest keys as cells."""

    def outcome_rows(self) -> list[list[str]]:
        """Return the outcomes as cells."""


HOT_HEADINGS = ("key", "share", "95 % interval", "fair shares")
JOIN_HEADINGS = ("key", "left rows", "right rows", "rows of the result")
OUTCOME_HEADINGS = ("policy", "max/mean load", "split keys", "extra fragments", "predicted s")


def section(title: str, *parts: str) -> str:
    """Return a section: a heading and parts that are HTML already."""
    return f"<section><h2>{html.escape(title)}</h2>{''.join(parts)}</section>"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """Return a table; every cell is escaped.

    Examples
    --------
    >>> "&lt;b&gt;" in table(["key"], [["<b>"]])
    True
    """
    head = "".join(f"<th>{html.escape(h)}</th>" for h in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll"><table class="{html.escape(kind)}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def paragraphs(sentences: Sequence[str]) -> str:
    """Return a paragraph per sentence, escaped."""
    return "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)


def fragment(found: Inspected) -> str:
    """Return an inspection as a piece of HTML for a notebook's cell."""
    return (
        f"<div><b>{html.escape(found.verb)}({html.escape(', '.join(found.columns))})</b>: "
        f"{html.escape(found.lead())}"
        f"{table(HOT_HEADINGS, found.hot_rows(10))}"
        f"{table(OUTCOME_HEADINGS, found.outcome_rows())}"
        f"{paragraphs(found.recommendation())}</div>"
    )


def simulation_headings(*, late: bool) -> list[str]:
    """Return what the cells of `simulation_row` are."""
    headings = ["policy", "max/mean", "worst", "states a key", "merged", "tuples/s", "bound by"]
    return [*headings, "p50 ms", "p99 ms"] if late else headings


def simulation_row(one: Summary, *, late: bool) -> list[str]:
    """Return a simulation as cells; with its latencies, if tuples came at a rate."""
    row = [
        one.policy,
        f"{one.max_over_mean:.3f}",
        f"{one.worst_max_over_mean:.3f}",
        f"{one.fragments_per_key:.3f}",
        f"{one.merged:,.0f}",
        f"{one.throughput:,.0f}",
        one.bottleneck,
    ]
    times = (one.latency_p50_s, one.latency_p99_s) if late else ()
    return row + [f"{seconds * 1e3:,.2f}" for seconds in times]


def aligned(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table as lines of text: the first column to the left, the others to the right."""
    clipped = [[_clip(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(len(row[i]) for row in clipped) for i in range(len(headings))]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in clipped
    ]


def _clip(cell: str) -> str:
    shown = "".join(c if c.isprintable() else "?" for c in cell)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."
