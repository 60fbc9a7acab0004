"""The page of the demo: loads through time, the tables of both acts, the hot words."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from skewless.report.page import curves, heatmaps, save
from skewless.report.text import section, table

__all__ = ["Act", "Measured", "Story", "write"]


class Measured(Protocol):
    """What the page needs of a run."""

    @property
    def policy(self) -> str:
        """Return the policy's name."""

    def cells(self) -> list[str]:
        """Return the cells of the run's table row."""

    def loads(self) -> NDArray[np.float64] | None:
        """Return load over mean, (n_batches, n_workers), or ``None`` where nothing was routed."""


#: (title, what it shows, headings, runs, further cells of each run).
Act = tuple[str, str, Sequence[str], Sequence[Measured], Sequence[Sequence[str]]]

#: (title, what it shows, curves by axis as `skewless.report.page.curves` takes them).
Story = tuple[str, str, Sequence[tuple[str, Sequence[tuple[str, Sequence[float]]]]]]


def write(
    path: Path,
    lead: str,
    acts: Sequence[Act],
    hot: Mapping[str, Sequence[tuple[str, Mapping[int, float]]]],
    stories: Sequence[Story] = (),
) -> None:
    """Write the page.

    Parameters
    ----------
    path
        HTML file.
    lead
        What was run, as text.
    acts
        (title, what it shows, headings, runs, further cells of each run).
    hot
        Per policy, (word, {worker: share}) of its hot words.
    stories
        What a policy does while a stream changes.
    """
    sections = []
    for title, text, headings, runs, more in acts:
        rows = [run.cells() + list(extra) for run, extra in zip(runs, more, strict=True)]
        panels = [(run.policy, loads) for run in runs if (loads := run.loads()) is not None]
        parts = [f"<p>{html.escape(text)}</p>", table(headings, rows)]
        if panels:
            parts.append(heatmaps(panels, "load / mean"))
        sections.append(section(title, *parts))
    for policy, words in hot.items():
        rows = [[word, str(len(shares)), _shares(shares)] for word, shares in words]
        text = "Words with workers of their own after the last batch, the most split first."
        listed = table(["word", "workers", "worker: share of the word's rows"], rows, "words")
        if not rows:
            text = "After the last batch every word is at the worker of its hash, whole."
            listed = ""
        note = f'<p class="soft">{html.escape(text)}</p>'
        sections.append(section(f"Hot words under {policy}", note, listed))
    for title, text, lines in stories:
        sections.append(section(title, f"<p>{html.escape(text)}</p>", curves(lines)))
    save(path, "skewless: words that would not fit one worker", lead, sections)


def _shares(shares: Mapping[int, float]) -> str:
    parts = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{worker}: {share:.0%}" for worker, share in parts)
